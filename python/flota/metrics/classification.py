"""How right predictions of classes are, and how right their probabilities."""

from __future__ import annotations

import numpy as np

from flota import checks
from flota.errors import InvalidArgument
from flota.metrics import inputs
from flota.metrics.inputs import Array, Flags, Numbers
from flota.metrics.metric import RatioOfSums


class Accuracy(RatioOfSums):
    """The share of samples whose class was predicted; NaN of no sample.

    Predictions of shape [N] or [N, 1] are probabilities of class 1, which is predicted where they are greater than
    ``threshold`` (0.5). Predictions of shape [N, C] are scores of C classes on any scale, and a sample counts as right
    when its class is among the ``top_k`` (1) highest; of equal scores the lower class comes first. Where ``threshold``
    or ``top_k`` is given, predictions of the other kind are refused.
    """

    def __init__(self, *, threshold: float | None = None, top_k: int | None = None) -> None:
        if threshold is not None and top_k is not None:
            raise InvalidArgument("Accuracy: threshold is for probabilities and top_k for scores of classes; give one")
        self._threshold = None if threshold is None else checks.number("threshold", threshold, 0, 1)
        self._top_k = None if top_k is None else checks.whole("top_k", top_k, 1, 1 << 31)
        super().__init__()

    def update(self, predictions: Numbers, labels: Numbers, weights: Numbers | None = None) -> None:
        """Adds samples. Labels are the classes, of shape [N] or [N, 1]: 0 and 1, or 0 to C - 1; ``weights``, one for
        each, say how much each counts."""
        array = inputs.numbers("Accuracy", "predictions", predictions)
        if array.ndim > 2:
            raise InvalidArgument(f"Accuracy: predictions must have shape [N] or [N, C], not {list(array.shape)}")
        right = self._among_top(array, labels) if array.ndim == 2 and array.shape[1] > 1 else self._above(array, labels)
        self._collect(right.astype(np.float64), np.ones(len(right)), weights)

    def _settings(self) -> dict[str, object]:
        given = {"threshold": self._threshold, "top_k": self._top_k}
        return {name: value for name, value in given.items() if value is not None}

    def _above(self, predictions: Array, labels: Numbers) -> Flags:
        if self._top_k is not None:
            raise InvalidArgument(
                f"Accuracy: top_k={self._top_k} is for predictions of shape [N, C], not {list(predictions.shape)}"
            )
        probabilities = inputs.probabilities("Accuracy", predictions)
        positive = inputs.labels("Accuracy", labels, len(probabilities))
        threshold = 0.5 if self._threshold is None else self._threshold
        right: Flags = (probabilities > threshold) == positive
        return right

    def _among_top(self, scores: Array, labels: Numbers) -> Flags:
        samples, classes = scores.shape
        if self._threshold is not None:
            raise InvalidArgument(
                f"Accuracy: threshold={self._threshold} is for predictions of shape [N] or [N, 1], not "
                f"{list(scores.shape)}"
            )
        top = 1 if self._top_k is None else self._top_k
        if top > classes:
            raise InvalidArgument(f"Accuracy: top_k={top} of {classes} classes")
        inputs.refuse_nan("Accuracy", "predictions", scores)
        wanted = inputs.classes("Accuracy", labels, samples, classes)[:, None]
        own = np.take_along_axis(scores, wanted, axis=1)
        before = (scores > own) | ((scores == own) & (np.arange(classes) < wanted))
        right: Flags = before.sum(axis=1) < top
        return right


class LogLoss(RatioOfSums):
    """The mean of -log(probability that was given to the label), with the natural logarithm; NaN of no sample.

    Probabilities below ``epsilon`` count as that: a prediction that was certain and wrong costs -log(epsilon), 34.5,
    and not infinity.
    """

    def __init__(self, epsilon: float = 1e-15) -> None:
        self._epsilon = checks.number("epsilon", epsilon, 1e-300, 0.5)
        super().__init__()

    def update(self, predictions: Numbers, labels: Numbers, weights: Numbers | None = None) -> None:
        """Adds samples: predictions from 0 to 1, of shape [N], [N, 1] or [N, 2] (column 1 is the positive class), and
        labels 0 or 1; ``weights``, one for each, say how much each counts."""
        predicted = inputs.probabilities("LogLoss", predictions).astype(np.float64)
        positive = inputs.labels("LogLoss", labels, len(predicted))
        given = np.where(positive, predicted, 1 - predicted)
        self._collect(-np.log(np.maximum(given, self._epsilon)), np.ones(len(given)), weights)

    def _settings(self) -> dict[str, object]:
        return {"epsilon": self._epsilon}


class Calibration(RatioOfSums):
    """The clicks that were predicted by the clicks that were observed: the sum of predictions over the sum of labels.

    1 is calibrated, above it the model promises too much. NaN where no click was observed.
    """

    def update(self, predictions: Numbers, labels: Numbers, weights: Numbers | None = None) -> None:
        """Adds samples: predictions from 0 to 1, of shape [N], [N, 1] or [N, 2] (column 1 is the positive class), and
        labels 0 or 1; ``weights``, one for each, say how much each counts."""
        predicted = inputs.probabilities("Calibration", predictions).astype(np.float64)
        positive = inputs.labels("Calibration", labels, len(predicted))
        self._collect(predicted, positive.astype(np.float64), weights)
