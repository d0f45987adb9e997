"""Metrics of an order: is what was clicked ranked above what was not?

The AUC is the chance that a sample with label 1 is ranked above one with label 0, where equal ones count half. Pairs
are counted in whole numbers of any size, and divided once. Where there is no pair to rank, for want of samples or of a
class, the AUC is 0.5.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from flota import checks
from flota.errors import InvalidArgument
from flota.metrics import inputs
from flota.metrics.inputs import Array, Numbers
from flota.metrics.metric import Metric

NO_PAIR = 0.5

# Searched for at a time: bounds the memory, and the sum of places in 64 bits.
_NEEDLES = 1 << 20


def roc_auc(scores: Numbers, labels: Numbers) -> float:
    """The exact AUC, by the ranks of all scores and not by buckets.

    ``scores`` may be on any scale (logits will do), ``labels`` are 0 or 1; tensors, arrays and lists of the same length
    are taken. One class only, or no sample: 0.5. Ten million samples take about a second.
    """
    ranked, classes = inputs.pairs("roc_auc", ("scores", "labels"), scores, labels)
    inputs.refuse_nan("roc_auc", "scores", ranked)
    positive = inputs.flags("roc_auc", classes)
    # Sorting values is several times faster than sorting places, and two halves are enough to count pairs.
    ones, zeros = np.sort(ranked[positive]), np.sort(ranked[~positive])
    all_pairs = len(ones) * len(zeros)
    if all_pairs == 0:
        return NO_PAIR
    if len(ones) <= len(zeros):
        return _twice_below(ones, zeros) / (2 * all_pairs)
    return (2 * all_pairs - _twice_below(zeros, ones)) / (2 * all_pairs)


def _twice_below(needles: Array, values: Array) -> int:
    """Twice the pairs of a needle and a value below it, those of equal ones once. Both are sorted."""
    twice = 0
    for begin in range(0, len(needles), _NEEDLES):
        some = needles[begin : begin + _NEEDLES]
        twice += int(values.searchsorted(some, "left").sum()) + int(values.searchsorted(some, "right").sum())
    return twice


def area(stat_pos: npt.NDArray[np.int64], stat_neg: npt.NDArray[np.int64]) -> float:
    """The AUC of samples in buckets: how many of each class are in each, from the lowest prediction to the highest."""
    # Beyond 63 bits Python's own integers count.
    most = 2 * stat_pos.sum(dtype=np.float64) * stat_neg.sum(dtype=np.float64)
    kind: type = np.int64 if most < 2.0**62 else object
    pos: Array = stat_pos.astype(kind)
    neg: Array = stat_neg.astype(kind)
    all_pairs = int(pos.sum()) * int(neg.sum())
    if all_pairs == 0:
        return NO_PAIR
    return int((pos * (2 * np.cumsum(neg) - neg)).sum()) / (2 * all_pairs)


class Auc(Metric):
    """The AUC of predictions in buckets, which takes the same memory for any number of them.

    A prediction p is in bucket floor(p * thresholds), as in Paddle's auc operator, and predictions in the same bucket
    count as equal. With ``window`` the AUC of that many last updates is kept also (Paddle's slide_steps): see
    ``compute_window()``.
    """

    def __init__(self, thresholds: int = 1 << 12, window: int = 0) -> None:
        self._thresholds = checks.whole("thresholds", thresholds, 1, 1 << 24)
        self._window = checks.whole("window", window, 0, 1 << 20)
        self.reset()

    def reset(self) -> None:
        # Rows are buckets, column 0 holds the negative samples and column 1 the positive ones.
        self._counts = np.zeros((self._thresholds + 1, 2), np.int64)
        self._window_counts = np.zeros_like(self._counts)
        self._batches: deque[npt.NDArray[np.int32]] = deque()

    def update(self, predictions: Numbers, labels: Numbers) -> None:
        """Adds samples: predictions from 0 to 1, of shape [N], [N, 1] or [N, 2] (column 1 is the positive class), and
        labels 0 or 1."""
        predicted = inputs.probabilities("Auc", predictions)
        positive = inputs.labels("Auc", labels, len(predicted))
        # In the type of the predictions, as Paddle multiplies.
        places = 2 * (predicted * predicted.dtype.type(self._thresholds)).astype(np.int32) + positive
        counts = self._count(places)
        self._counts += counts
        if self._window:
            self._batches.append(places)
            self._window_counts += counts
            if len(self._batches) > self._window:
                self._window_counts -= self._count(self._batches.popleft())

    def compute_window(self) -> float:
        """The AUC of the last ``window`` updates of this process; before there were as many, of those there were.

        ``metrics.auc(auc.batch_stat_pos, auc.batch_stat_neg)`` is that of all workers.
        """
        return area(self.batch_stat_pos, self.batch_stat_neg)

    @property
    def samples(self) -> int:
        return int(self._counts.sum())

    @property
    def stat_pos(self) -> npt.NDArray[np.int64]:
        """How many samples with label 1 are in each of the ``thresholds`` + 1 buckets: a copy."""
        return self._counts[:, 1].copy()

    @property
    def stat_neg(self) -> npt.NDArray[np.int64]:
        """How many samples with label 0 are in each bucket: a copy."""
        return self._counts[:, 0].copy()

    @property
    def batch_stat_pos(self) -> npt.NDArray[np.int64]:
        """``stat_pos`` of the last ``window`` updates."""
        return self._of_window()[:, 1].copy()

    @property
    def batch_stat_neg(self) -> npt.NDArray[np.int64]:
        """``stat_neg`` of the last ``window`` updates."""
        return self._of_window()[:, 0].copy()

    def __repr__(self) -> str:
        return f"<Auc(thresholds={self._thresholds}, window={self._window}): {self.samples} samples>"

    def _of_window(self) -> npt.NDArray[np.int64]:
        if not self._window:
            raise InvalidArgument("this Auc has no window; create it as Auc(window=20) for that of 20 updates")
        return self._window_counts

    def _count(self, places: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        return np.bincount(places, minlength=self._counts.size).reshape(self._counts.shape)

    def _settings(self) -> dict[str, object]:
        return {"thresholds": self._thresholds}

    def _state(self) -> Sequence[Array]:
        return [self._counts]

    def _value(self, states: Sequence[Sequence[Array]]) -> float:
        counts = np.zeros_like(self._counts)
        for (part,) in states:
            counts += part
        return area(counts[:, 1], counts[:, 0])
