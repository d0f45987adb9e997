"""How far predictions of numbers are off."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from flota.metrics import inputs
from flota.metrics.inputs import Array, Floats, Numbers
from flota.metrics.metric import RatioOfSums


class _MeanError(RatioOfSums):
    def update(self, predictions: Numbers, labels: Numbers, weights: Numbers | None = None) -> None:
        """Adds samples: predictions and labels of the same shape ([N, 1] counts as [N]), finite; ``weights``, one for
        each, say how much each counts."""
        names = ("predictions", "labels")
        predicted, observed = inputs.finite_pairs(type(self).__name__, names, predictions, labels)
        with np.errstate(over="ignore"):
            errors = self._errors(predicted - observed)
        self._collect(errors, np.ones(len(errors)), weights)

    @abstractmethod
    def _errors(self, differences: Floats) -> Floats: ...


class MAE(_MeanError):
    """The mean of the absolute value of prediction - label; NaN of no sample."""

    def _errors(self, differences: Floats) -> Floats:
        return np.abs(differences)


class MSE(_MeanError):
    """The mean of (prediction - label)²; NaN of no sample."""

    def _errors(self, differences: Floats) -> Floats:
        return differences * differences


class RMSE(_MeanError):
    """The square root of the mean of (prediction - label)²; NaN of no sample."""

    def _errors(self, differences: Floats) -> Floats:
        return differences * differences

    def _value(self, states: Sequence[Sequence[Array]]) -> float:
        return math.sqrt(super()._value(states))
