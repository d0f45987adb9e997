"""The AUC inside groups of samples, such as those of one user."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flota.errors import InvalidArgument
from flota.metrics import inputs
from flota.metrics.inputs import Array, Flags, Numbers
from flota.metrics.metric import Metric
from flota.metrics.ranking import NO_PAIR

# Twice the pairs of a group with so many samples fit 64 bits.
_MOST_SAMPLES = 1 << 31


class GroupedAuc(Metric):
    """The mean of the AUCs of groups, each weighted by the number of its samples.

    Samples with the same key are a group, wherever in the job they were collected. A group with samples of one class
    only has no pair to rank and is left out; 0.5 if none is left. Exact, by ranks. The samples are kept until
    ``reset()``, some 17 bytes each, and ``compute_global()`` brings those of all workers to every worker.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._kept = _Samples(np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.bool_))
        self._batches: list[_Samples] = []
        self._samples = 0
        self._ranked = self._left_out = 0

    def update(self, predictions: Numbers, labels: Numbers, keys: Numbers) -> None:
        """Adds samples: predictions on any scale, of shape [N], [N, 1] or [N, 2] (column 1 is the positive class),
        labels 0 or 1, and the key of each sample's group: a whole number of 64 bits."""
        scores = inputs.scores("GroupedAuc", "predictions", predictions)
        positive = inputs.labels("GroupedAuc", labels, len(scores))
        groups = inputs.keys("GroupedAuc", keys, len(scores))
        # A copy in any case: what was passed may be a buffer that the caller fills anew.
        scores = scores.astype(np.float32 if scores.dtype == np.float32 else np.float64)
        self._batches.append(_Samples(groups, scores, positive))
        self._samples += len(scores)

    @property
    def samples(self) -> int:
        return self._samples

    @property
    def groups(self) -> int:
        """Groups that are in the value that ``compute()`` or ``compute_global()`` gave last."""
        return self._ranked

    @property
    def groups_left_out(self) -> int:
        """Groups with one class only, which that value leaves out."""
        return self._left_out

    def _settings(self) -> dict[str, object]:
        return {}

    def _state(self) -> Sequence[Array]:
        self._kept, self._batches = _joined([self._kept, *self._batches]), []
        return self._kept

    def _value(self, states: Sequence[Sequence[Array]]) -> float:
        samples = _joined([_Samples(*state) for state in states])
        if len(samples.keys) > _MOST_SAMPLES:
            raise InvalidArgument(f"GroupedAuc: {len(samples.keys)} samples; it takes {_MOST_SAMPLES} at most")
        sizes, aucs = _auc_of_groups(samples)
        ranked = ~np.isnan(aucs)
        self._ranked, self._left_out = int(ranked.sum()), int((~ranked).sum())
        if self._ranked == 0:
            return NO_PAIR
        # Rounded once: the sum does not depend on which worker had which group.
        return math.fsum((sizes * aucs)[ranked]) / int(sizes[ranked].sum())


class _Samples(NamedTuple):
    keys: npt.NDArray[np.int64]
    scores: Array
    positive: Flags


def _joined(parts: Sequence[_Samples]) -> _Samples:
    if len(parts) == 1:
        return parts[0]
    return _Samples(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _auc_of_groups(samples: _Samples) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The number of samples of each group, and its AUC: NaN where there is one class only."""
    if len(samples.keys) == 0:
        return np.empty(0, np.int64), np.empty(0)
    order = np.lexsort((samples.scores, samples.keys))
    keys, scores, positive = (column[order] for column in samples)
    # Samples of a group with equal scores are a tie; the first of each begins it.
    begins_group = np.append(True, keys[1:] != keys[:-1])
    begins_tie = begins_group | np.append(True, scores[1:] != scores[:-1])
    ties = np.flatnonzero(begins_tie)
    groups = np.flatnonzero(begins_group[ties])
    pos = np.add.reduceat(positive.astype(np.int64), ties)
    neg = np.diff(ties, append=len(keys)) - pos
    ones, zeros = np.add.reduceat(pos, groups), np.add.reduceat(neg, groups)
    # Negative samples of the same group below each tie.
    ties_of_group = np.diff(groups, append=len(ties))
    below = np.cumsum(neg) - neg - np.repeat(np.cumsum(zeros) - zeros, ties_of_group)
    twice = np.add.reduceat(pos * (2 * below + neg), groups)
    aucs = np.full(len(groups), np.nan)
    np.divide(twice, 2 * ones * zeros, out=aucs, where=(ones > 0) & (zeros > 0))
    return ones + zeros, aucs
