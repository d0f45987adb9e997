"""Metrics, and looking at values while a program runs."""

from __future__ import annotations

import ctypes
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.paddle.dtypes import name_of
from flota.paddle.ops.registry import FUNCTIONS, operation


@operation
def accuracy(input: Any, label: Any, k: int = 1) -> Any:
    """The part of the samples whose label is among the ``k`` classes of the greatest scores."""
    best = torch.topk(input, k, -1).indices
    return (best == label.reshape(-1, 1)).any(-1).to(torch.float32).mean()


@operation
def auc(
    input: Any,
    label: Any,
    stat_pos: Any,
    stat_neg: Any,
    curve: str = "ROC",
    num_thresholds: int = 4095,
    slide_steps: int = 0,
) -> Any:
    """The area under the curve, and the new counts.

    ``input``: the probability of a click, in the last column. ``stat_pos``, ``stat_neg``: how many clicked and others
    there have been in each of ``num_thresholds + 1`` buckets of probability, int64: [1, buckets] of all batches; or,
    with ``slide_steps``, [slide_steps, buckets] of that many last ones, each in its own row.
    """
    counts = _counted(_batch_counts(input, label, num_thresholds), stat_pos, stat_neg, slide_steps)
    return _area_of(*counts, curve), *counts


# The same in three steps: a program that nobody asks for the area only counts.


@operation
def auc_batch(input: Any, label: Any, num_thresholds: int = 4095) -> Any:
    """How many clicked, and how many others, a batch has in each bucket: [2, buckets]."""
    return _batch_counts(input, label, num_thresholds)


@operation
def auc_counts(batch: Any, stat_pos: Any, stat_neg: Any, slide_steps: int = 0) -> Any:
    """The new counts of all batches; or of so many last ones, in the place of the old ones, if that is on the host."""
    if slide_steps and stat_pos.device.type == stat_neg.device.type == "cpu":
        return _slid(stat_pos, batch[0]), _slid(stat_neg, batch[1])
    return _counted(batch, stat_pos, stat_neg, slide_steps)


@operation
def auc_area(stat_pos: Any, stat_neg: Any, curve: str = "ROC") -> Any:
    return _area_of(stat_pos, stat_neg, curve)


def _batch_counts(input: torch.Tensor, label: torch.Tensor, num_thresholds: int) -> torch.Tensor:
    places = (input[..., -1].detach().reshape(-1) * num_thresholds).to(torch.int64).clamp_(0, num_thresholds)
    if places.is_meta:
        return torch.zeros(2, num_thresholds + 1, dtype=torch.int64, device="meta")
    buckets = places.add_(label.reshape(-1) <= 0, alpha=num_thresholds + 1)
    return torch.bincount(buckets, minlength=2 * (num_thresholds + 1)).reshape(2, num_thresholds + 1)


def _counted(
    batch: torch.Tensor, stat_pos: torch.Tensor, stat_neg: torch.Tensor, slide_steps: int
) -> tuple[torch.Tensor, torch.Tensor]:
    if not slide_steps:
        return stat_pos + batch[0], stat_neg + batch[1]
    return torch.cat([stat_pos[1:], batch[:1]]), torch.cat([stat_neg[1:], batch[1:]])


def _slid(stat: torch.Tensor, newest: torch.Tensor) -> torch.Tensor:
    """All rows one up, and the newest as the last. Fresh memory for a window of many steps, in every step, would cost
    more than the counting."""
    stat = stat.contiguous()
    row = stat.shape[1] * stat.element_size()
    ctypes.memmove(stat.data_ptr(), stat.data_ptr() + row, (stat.shape[0] - 1) * row)
    stat[-1] = newest
    return stat


def _area_of(stat_pos: torch.Tensor, stat_neg: torch.Tensor, curve: str) -> torch.Tensor:
    if curve not in ("ROC", "PR"):
        raise InvalidArgument(f"auc: curve is ROC or PR, not {curve!r}")
    above = [each.sum(0).flip(0).cumsum(0).to(torch.float64) for each in (stat_pos, stat_neg)]
    return _area(above[0], above[1], curve)


def _area(positives: torch.Tensor, negatives: torch.Tensor, curve: str) -> torch.Tensor:
    """``positives``, ``negatives``: how many there are above each threshold, from the highest. Without any of one kind
    there is no curve, and the area is 0."""
    start = positives.new_zeros(1)
    if curve == "ROC":
        across, up = torch.cat([start, negatives]), torch.cat([start, positives])
        whole = negatives[-1] * positives[-1]
    else:
        across = torch.cat([start, positives])
        taken = positives + negatives
        up = torch.cat([start + 1, torch.where(taken > 0, positives / taken.clamp(min=1), 1.0)])
        whole = positives[-1] * (negatives[-1] > 0)
    area = torch.trapezoid(up, across)
    return torch.where(whole > 0, area / whole.clamp(min=1), 0.0)


_NUMBERS = itertools.count()  # of the calls of Print
_TIMES: Counter[int] = Counter()  # how often each has printed


@operation(effect=True, known_as="print")
def _printed(
    input: Any,
    first_n: int = -1,
    message: str | None = None,
    summarize: int = 20,
    variable: str = "",
    shows: Sequence[str] = ("shape", "dtype"),
    print_phase: str = "both",
    number: int = -1,
) -> Any:
    if input.is_meta:
        return input.clone()

    def show(value: torch.Tensor, what: str) -> None:
        head = " ".join(each for each in (f"Variable: {variable}" if variable else "", message, what) if each)
        facts = {"shape": list(value.shape), "dtype": name_of(value.dtype)}
        flat = value.detach().reshape(-1)
        lines = [f"{which}: {facts[which]}" for which in shows]
        lines.append(f"data: {(flat if summarize < 0 else flat[:summarize]).tolist()}")
        print("\n  - ".join([head, *lines]), flush=True)

    _TIMES[number] += 1
    result = input.clone()
    if first_n > 0 and _TIMES[number] > first_n:
        return result
    if print_phase != "backward":
        show(result, "")
    if print_phase != "forward" and result.requires_grad:
        result.register_hook(lambda gradient: show(gradient, "(gradient)"))
    return result


def Print(  # noqa: N802 (so scripts call it)
    input: Any,
    first_n: int = -1,
    message: str | None = None,
    summarize: int = 20,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_tensor_layout: bool = True,
    print_tensor_lod: bool = True,
    print_phase: str = "both",
) -> Any:
    """Prints the value when it is computed, and its gradient, the first ``first_n`` times (-1: always); returns the
    value. ``summarize``: how many elements; -1: all. There is one layout, which is not printed, and sequences are
    printed as their values."""
    phase = print_phase.lower()
    if phase not in ("forward", "backward", "both"):
        raise InvalidArgument(f"Print: print_phase is forward, backward or both, not {print_phase!r}")
    shows = [which for which, shown in (("shape", print_tensor_shape), ("dtype", print_tensor_type)) if shown]
    name = str(getattr(input, "name", "")) if print_tensor_name else ""
    return _printed(input, first_n, message, summarize, name, shows, phase, next(_NUMBERS))


FUNCTIONS["print"] = Print
