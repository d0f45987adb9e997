"""Metrics of an order: is what was clicked ranked above what was not?"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flota.errors import InvalidArgument


def auc(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """The chance that a sample with label 1 scores higher than one with label 0; equal scores count half.

    Exact: by the ranks of all scores, not by buckets. ``scores`` may be on any scale (logits will do), ``labels`` are 0
    or 1, and both must occur; tensors, arrays and lists of the same length are taken.
    """
    scores, labels = _flat("scores", scores), _flat("labels", labels)
    if len(scores) != len(labels):
        raise InvalidArgument(f"auc: {len(scores)} scores and {len(labels)} labels; each score needs its label")
    if np.isnan(scores).any():
        raise InvalidArgument(f"auc: {int(np.isnan(scores).sum())} of {len(scores)} scores are NaN")
    positive = labels == 1
    if not (positive | (labels == 0)).all():
        raise InvalidArgument("auc: labels must be 0 or 1")
    ones, zeros = int(positive.sum()), int((~positive).sum())
    if ones == 0 or zeros == 0:
        raise InvalidArgument(f"auc: all {len(labels)} labels are the same; there must be some of 0 and some of 1")
    _, group, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    # Twice the mean rank of a group of equal scores, counted from 1: whole numbers, so that their sum is exact.
    twice_rank = 2 * np.cumsum(sizes) - sizes + 1
    twice_sum = int(twice_rank[group[positive]].sum())
    return (twice_sum - ones * (ones + 1)) / (2 * ones * zeros)


def _flat(name: str, values: Any) -> npt.NDArray[Any]:
    detach = getattr(values, "detach", None)
    array: npt.NDArray[Any] = np.asarray(values if detach is None else detach().cpu()).reshape(-1)
    if array.dtype.kind not in "fiub":
        raise InvalidArgument(f"auc: {name} must be numbers, not {array.dtype}")
    return array
