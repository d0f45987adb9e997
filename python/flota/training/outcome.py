"""What a step has to show: a loss, predictions and labels, and whatever else it returns by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

from flota.errors import InvalidArgument

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

# How predictions become probabilities, by the loss that they are trained with.
_LOGITS = (torch.nn.BCEWithLogitsLoss, F.binary_cross_entropy_with_logits)
_PROBABILITIES = (torch.nn.BCELoss, F.binary_cross_entropy)


@dataclass
class Outcome:
    """Of one batch. ``scores``: probabilities of label 1, if that is what the model predicts."""

    samples: int
    loss: torch.Tensor | None = None
    scores: torch.Tensor | None = None
    labels: torch.Tensor | None = None
    named: dict[str, Any] = field(default_factory=dict)


def outcome_of(returned: Any, samples: int) -> Outcome:
    """What a step or a model without ``loss`` returned: a loss, (loss, prediction, label), or a mapping from names."""
    if returned is None:
        return Outcome(samples)
    if isinstance(returned, Mapping):
        named = dict(returned)
        return Outcome(samples, _tensor(named.get("loss")), named.get("prediction"), named.get("label"), named)
    if isinstance(returned, (tuple, list)):
        if len(returned) not in (2, 3):
            raise InvalidArgument(f"a step returns a loss, (loss, prediction, label) or a mapping, not {returned!r}")
        return Outcome(samples, _tensor(returned[0]), *returned[1:])
    if isinstance(returned, (torch.Tensor, float, int)):
        return Outcome(samples, torch.as_tensor(returned))
    raise InvalidArgument(f"a step returns a loss, (loss, prediction, label) or a mapping, not {returned!r}")


def _tensor(loss: Any) -> torch.Tensor | None:
    return None if loss is None else torch.as_tensor(loss)


def inputs_and_label(batch: Any) -> tuple[tuple[Any, ...], torch.Tensor]:
    """A batch's parts: what the model is called with, and what it should say. The label is the last of a tuple, or what
    a mapping has by that name; the model is given a mapping whole."""
    if isinstance(batch, Mapping):
        if "label" not in batch:
            raise InvalidArgument(f"the batch has no 'label', but {', '.join(map(repr, batch))}: train it by a step")
        return (batch,), batch["label"]
    if isinstance(batch, (tuple, list)) and len(batch) > 1:
        return tuple(batch[:-1]), batch[-1]
    raise InvalidArgument(
        f"a batch must be a mapping or (inputs, …, label) to be trained with loss=…, not {type(batch)}"
    )


def predicted(prediction: torch.Tensor, label: torch.Tensor, loss: Loss) -> Outcome:
    """The outcome of a prediction. A label of a batch column and a prediction without one fit each other."""
    if label.shape != prediction.shape and label.numel() == prediction.numel():
        label = label.reshape(prediction.shape)
    if prediction.is_floating_point() and not label.is_floating_point() and label.shape == prediction.shape:
        label = label.to(prediction.dtype)
    samples = label.shape[0] if label.dim() > 0 else 1
    value = loss(prediction, label)
    detached = prediction.detach()
    if _is_one_of(loss, _LOGITS):
        return Outcome(samples, value, detached.sigmoid(), label)
    if _is_one_of(loss, _PROBABILITIES):
        return Outcome(samples, value, detached, label)
    return Outcome(samples, value)


def _is_one_of(loss: Loss, kinds: tuple[Any, ...]) -> bool:
    return any(loss is kind or (isinstance(kind, type) and isinstance(loss, kind)) for kind in kinds)


def count_samples(batch: Any) -> int:
    """How many samples a batch has; 0 if it does not show."""
    if isinstance(batch, torch.Tensor):
        return batch.shape[0] if batch.dim() > 0 else 1
    if isinstance(batch, Mapping):
        # Of (values, offsets), the offsets are one a sample.
        first = next(iter(batch.values()), None)
        return count_samples(first[1] if isinstance(first, tuple) else first)
    if isinstance(batch, (tuple, list)) and batch:
        return count_samples(batch[-1])
    return len(batch) if hasattr(batch, "__len__") else 0
