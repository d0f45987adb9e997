"""Fleet's metrics: each takes the numbers of this worker and gives the value of all, the same bits on every worker.

    errors += (predictions - labels).abs().sum(); count += len(labels)   # in each step
    flota.metrics.mae(errors, count)                                     # at the end: that of all workers

All workers make these calls, in the same order; each waits for the slowest worker until the job's deadline. A process
alone is the one worker of its job. Numbers, arrays, tensors and what has a method ``numpy()`` are taken. Whole numbers
are added as such, others as float64 in the order of the workers. Where the numbers of one worker make no sense, all
workers refuse them, so that none is left waiting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from flota.errors import InvalidArgument
from flota.metrics import inputs
from flota.metrics.exchange import exchange
from flota.metrics.inputs import Array, Numbers
from flota.metrics.ranking import area


def sum(value: Numbers) -> Any:
    """All workers' values, added element by element: a number for a number, else an array of the same shape."""
    return _plain(_added("sum", "value", _everybody("sum", value=value)["value"]))


def max(value: Numbers) -> Any:
    """The greatest of all workers' values, element by element; NaN where one is."""
    return _plain(_reduced("max", "value", _everybody("max", value=value)["value"], np.maximum))


def min(value: Numbers) -> Any:
    """The least of all workers' values, element by element; NaN where one is."""
    return _plain(_reduced("min", "value", _everybody("min", value=value)["value"], np.minimum))


def auc(stat_pos: Numbers, stat_neg: Numbers) -> float:
    """The AUC of all workers' samples, from how many with label 1 and with label 0 each worker has in each bucket, from
    the lowest prediction to the highest: arrays of shape [B] or [1, B], such as an ``Auc`` has. 0.5 where there is one
    class only, or nothing. ``roc_auc`` is the AUC of scores and labels."""
    parts = _everybody("auc", stat_pos=stat_pos, stat_neg=stat_neg)
    pos, neg = (_buckets(name, parts[name]) for name in ("stat_pos", "stat_neg"))
    if len(pos) != len(neg):
        raise InvalidArgument(f"metrics.auc: {len(pos)} buckets in stat_pos and {len(neg)} in stat_neg")
    return area(pos, neg)


def mae(abserr: Numbers, total_ins_num: Numbers) -> float:
    """The mean absolute error, from each worker's sum of absolute errors and number of samples; NaN of no sample."""
    return _ratio("mae", abserr=abserr, total_ins_num=total_ins_num)


def mse(sqrerr: Numbers, total_ins_num: Numbers) -> float:
    """The mean squared error, from each worker's sum of squared errors and number of samples; NaN of no sample."""
    return _ratio("mse", sqrerr=sqrerr, total_ins_num=total_ins_num)


def rmse(sqrerr: Numbers, total_ins_num: Numbers) -> float:
    """The square root of the mean squared error, from the same numbers as ``mse``; NaN of no sample."""
    return math.sqrt(_ratio("rmse", sqrerr=sqrerr, total_ins_num=total_ins_num))


def acc(correct: Numbers, total: Numbers) -> float:
    """The accuracy, from each worker's number of right predictions and number of samples; NaN of no sample."""
    return _ratio("acc", correct=correct, total=total)


def _everybody(what: str, **values: Numbers) -> dict[str, list[Array]]:
    """Every worker's array of each name, of int64 or float64."""
    own = [_widest(what, name, value) for name, value in values.items()]
    columns = zip(*exchange(f"metrics.{what}", own), strict=True)
    return {name: list(column) for name, column in zip(values, columns, strict=True)}


def _widest(what: str, name: str, value: Numbers) -> Array:
    array = inputs.numbers(f"metrics.{what}", name, value)
    if array.dtype == np.uint64 and (array >> np.uint64(63)).any():
        raise InvalidArgument(f"metrics.{what}: {name} has numbers of 2**63 and more; the greatest is {array.max()}")
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int64)


def _reduced(what: str, name: str, parts: Sequence[Array], by: Callable[[Array, Array], Array]) -> Array:
    for worker, part in enumerate(parts):
        if part.shape != parts[0].shape:
            raise InvalidArgument(
                f"metrics.{what}: {name} has shape {list(parts[0].shape)} on worker 0 and {list(part.shape)} on worker "
                f"{worker}; it must have the same on all"
            )
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(reduce(by, parts))


def _added(what: str, name: str, parts: Sequence[Array]) -> Array:
    added = _reduced(what, name, parts, np.add)
    if added.dtype == np.int64:
        most = _reduced(what, name, [np.abs(part.astype(np.float64)) for part in parts], np.add)
        if (most >= 2.0**63).any():
            raise InvalidArgument(f"metrics.{what}: {name} of all workers adds up to {most.max():g}: beyond 64 bits")
    return added


def _buckets(name: str, parts: Sequence[Array]) -> Array:
    for worker, part in enumerate(parts):
        if part.ndim not in (1, 2) or (part.ndim == 2 and part.shape[0] != 1):
            raise InvalidArgument(
                f"metrics.auc: {name} of worker {worker} must have shape [B] or [1, B], not {list(part.shape)}"
            )
        # False for NaN also.
        counts = (part >= 0) & (part < 2.0**63) & (part == np.floor(part))
        if not counts.all():
            raise InvalidArgument(
                f"metrics.auc: {name} of worker {worker} must be counts of samples; {int((~counts).sum())} of "
                f"{part.size} are not, such as {part[~counts][0]}"
            )
    return _added("auc", name, [part.reshape(-1).astype(np.int64) for part in parts])


def _ratio(what: str, **values: Numbers) -> float:
    """The first number by the second, both added over all workers; NaN where the second is 0."""
    added = []
    for name, parts in _everybody(what, **values).items():
        for worker, part in enumerate(parts):
            if part.size != 1 or part.reshape(-1)[0] < 0:
                raise InvalidArgument(
                    f"metrics.{what}: {name} of worker {worker} must be one number that is not negative, not "
                    f"{part.tolist()}"
                )
        added.append(_added(what, name, [part.reshape(()) for part in parts]).item())
    above, below = added
    return above / below if below != 0 else math.nan


def _plain(value: Array) -> Any:
    return value.item() if value.ndim == 0 else value
