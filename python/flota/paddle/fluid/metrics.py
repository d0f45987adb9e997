"""``fluid.metrics``: 1.x's metrics, whose value is asked for by ``eval``."""

from __future__ import annotations

from typing import Any

import numpy as np

from flota.errors import InvalidArgument
from flota.paddle import metric

__all__ = ["Accuracy", "Auc", "CompositeMetric", "Precision", "Recall"]


class Accuracy:
    """The mean of batches' accuracies, as a program computes them, weighed by their sizes."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self.reset()

    def reset(self) -> None:
        self.value = 0.0
        self.weight = 0.0

    def update(self, value: Any, weight: Any) -> None:
        share, samples = (float(np.asarray(each).reshape(-1)[0]) for each in (value, weight))
        if samples < 0:
            raise InvalidArgument(f"Accuracy: weight is the number of samples, and not {weight!r}")
        self.value += share * samples
        self.weight += samples

    def eval(self) -> float:
        if self.weight == 0:
            raise InvalidArgument("Accuracy: there is no sample: call update first")
        return self.value / self.weight


class Precision(metric.Precision):
    eval = metric.Precision.accumulate


class Recall(metric.Recall):
    eval = metric.Recall.accumulate


class Auc(metric.Auc):
    """The area under the curve, as ``paddle.metric.Auc``."""

    def __init__(self, name: str = "auc", curve: str = "ROC", num_thresholds: int = 4095) -> None:
        super().__init__(curve, num_thresholds, name)

    eval = metric.Auc.accumulate


class CompositeMetric:
    """Several metrics of the same predictions."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self._metrics: list[Any] = []

    def add_metric(self, metric: Any) -> None:
        if not hasattr(metric, "eval"):
            raise InvalidArgument(f"add_metric takes one of fluid.metrics, not {metric!r}")
        self._metrics.append(metric)

    def reset(self) -> None:
        for each in self._metrics:
            each.reset()

    def update(self, preds: Any, labels: Any) -> None:
        for each in self._metrics:
            each.update(preds, labels)

    def eval(self) -> list[float]:
        return [each.eval() for each in self._metrics]
