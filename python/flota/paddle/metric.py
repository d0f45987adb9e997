"""``paddle.metric``: how good predictions are, over the batches of this process. Those of all workers are
``fleet.metrics``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from flota import checks
from flota.errors import InvalidArgument
from flota.paddle import mode, ops  # noqa: F401 (they make the operations)
from flota.paddle.ops.registry import OPERATIONS, Operand, call
from flota.paddle.tensor import Tensor, to_tensor

__all__ = ["Accuracy", "Auc", "Metric", "Precision", "Recall", "accuracy"]


class Metric(ABC):
    """What collects batches. ``compute`` is what can be part of a program: its results are ``update``'s arguments."""

    @abstractmethod
    def reset(self) -> None:
        """Forgets all batches."""

    @abstractmethod
    def update(self, *args: Any) -> Any:
        """Collects a batch."""

    @abstractmethod
    def accumulate(self) -> Any:
        """The value of all batches."""

    @abstractmethod
    def name(self) -> Any: ...

    def compute(self, *args: Any) -> Any:
        return args


class Accuracy(Metric):
    """The share of samples whose class is among the ``k`` of the greatest scores, for each of ``topk``."""

    total: list[float]
    count: list[int]

    def __init__(self, topk: Sequence[int] = (1,), name: str | None = None) -> None:
        self.topk = (topk,) if isinstance(topk, int) else tuple(topk)
        for k in self.topk or (0,):
            checks.whole("each of topk", k, 1, 1 << 30)
        self.maxk = max(self.topk)
        known_as = name or "acc"
        self._names = [known_as] if self.maxk == 1 else [f"{known_as}_top{k}" for k in self.topk]
        self.reset()

    def compute(self, pred: Any, label: Any, *args: Any) -> Any:
        """1 where one of the ``maxk`` greatest scores is the label's, else 0. ``label``: classes, or a score of 1 for
        the right one."""
        pred, label = (each if isinstance(each, Operand) else to_tensor(each) for each in (pred, label))
        best = call("argsort", pred, -1, descending=True)[..., : self.maxk]
        if len(label.shape) == len(pred.shape) and label.shape[-1] != 1:
            label = call("argmax", label, -1, keepdim=True)
        elif len(label.shape) < len(pred.shape):
            label = call("unsqueeze", label, -1)
        return call("cast", call("equal", best, label), "float32")

    def update(self, correct: Any, *args: Any) -> Any:
        """Collects what ``compute`` gave; returns the accuracy of this batch."""
        right = _array(correct)
        samples = int(np.prod(right.shape[:-1]))
        found = [float(right[..., :k].sum()) for k in self.topk]
        self.total = [before + more for before, more in zip(self.total, found, strict=True)]
        self.count = [before + samples for before in self.count]
        return _single([each / samples if samples else 0.0 for each in found])

    def reset(self) -> None:
        self.total = [0.0] * len(self.topk)
        self.count = [0] * len(self.topk)

    def accumulate(self) -> Any:
        return _single([total / count if count else 0.0 for total, count in zip(self.total, self.count, strict=True)])

    def name(self) -> list[str]:
        return self._names


class Precision(Metric):
    """Of the samples that are predicted to be of class 1, the share that is."""

    def __init__(self, name: str = "precision") -> None:
        self._name = name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """``preds``: the probability of class 1; from 0.5 on it is predicted."""
        predicted, right = _rounded("Precision", np.floor(_array(preds) + 0.5), labels)
        self.tp += int((predicted & right).sum())
        self.fp += int((predicted & ~right).sum())

    def reset(self) -> None:
        self.tp = 0
        self.fp = 0

    def accumulate(self) -> float:
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else 0.0

    def name(self) -> str:
        return self._name


class Recall(Metric):
    """Of the samples that are of class 1, the share that is predicted to be."""

    def __init__(self, name: str = "recall") -> None:
        self._name = name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """``preds``: the probability of class 1; above 0.5 it is predicted."""
        predicted, right = _rounded("Recall", np.rint(_array(preds)), labels)
        self.tp += int((predicted & right).sum())
        self.fn += int((~predicted & right).sum())

    def reset(self) -> None:
        self.tp = 0
        self.fn = 0

    def accumulate(self) -> float:
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else 0.0

    def name(self) -> str:
        return self._name


class Auc(Metric):
    """The area under the curve (ROC, or PR: precision and recall), from the numbers of samples of both classes in
    ``num_thresholds + 1`` buckets of probability."""

    def __init__(self, curve: str = "ROC", num_thresholds: int = 4095, name: str = "auc") -> None:
        if curve not in ("ROC", "PR"):
            raise InvalidArgument(f"Auc: curve is ROC or PR, not {curve!r}")
        self._curve = curve
        self._num_thresholds = checks.whole("num_thresholds", num_thresholds, 1, 1 << 30)
        self._name = name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """``preds``: [N, 2], the probabilities of class 0 and 1. ``labels``: [N] or [N, 1]."""
        both = _array(preds)
        if both.ndim != 2 or both.shape[1] != 2:
            raise InvalidArgument(
                f"Auc: preds has the probabilities of both classes, [N, 2], and not the shape {list(both.shape)}"
            )
        if not ((both[:, 1] >= 0) & (both[:, 1] <= 1)).all():
            raise InvalidArgument("Auc: preds must be probabilities, from 0 to 1")
        # In double precision a probability falls into the bucket that it belongs to.
        given = torch.from_numpy(both.astype(np.float64))
        right = torch.from_numpy(_array(labels).reshape(-1).astype(np.int64))
        self._value, *self._counts = self._area(given, right)

    def _area(self, preds: torch.Tensor, labels: torch.Tensor) -> Any:
        kernel = OPERATIONS["auc"].kernel
        return kernel(preds, labels, *self._counts, curve=self._curve, num_thresholds=self._num_thresholds)

    def reset(self) -> None:
        self._counts = [torch.zeros(1, self._num_thresholds + 1, dtype=torch.int64) for _ in range(2)]
        self._value = torch.zeros(())

    def accumulate(self) -> float:
        return float(self._value)

    def name(self) -> str:
        return self._name


def accuracy(input: Any, label: Any, k: int = 1, correct: Any = None, total: Any = None, name: Any = None) -> Any:
    """The part of a batch's samples whose label is among the ``k`` classes of the greatest scores."""
    if correct is not None or total is not None:
        raise InvalidArgument("accuracy: correct and total are not kept here: use paddle.metric.Accuracy for counts")
    return call("accuracy", input, label, k)


def _array(values: Any) -> np.ndarray:
    if not isinstance(values, (Tensor, torch.Tensor, np.ndarray)):
        raise InvalidArgument(f"metrics take arrays and tensors, not {values!r}")
    return values if isinstance(values, np.ndarray) else values.numpy()


def _rounded(what: str, preds: np.ndarray, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Which samples are predicted to be of class 1, and which are."""
    predicted, right = preds.reshape(-1) == 1, _array(labels).reshape(-1) == 1
    if len(predicted) != len(right):
        raise InvalidArgument(f"{what}: {len(predicted)} predictions and {len(right)} labels")
    return predicted, right


def _single(values: list[float]) -> Any:
    return values[0] if len(values) == 1 else values
