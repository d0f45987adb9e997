"""Reductions: many elements become one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.paddle.dtypes import as_dtype
from flota.paddle.ops.registry import operation

Axis = int | list[int] | tuple[int, ...] | None


def _sides(x: torch.Tensor, axis: Axis) -> tuple[int, ...]:
    """The sides that are reduced; all of them unless some are named."""
    if axis is None or (isinstance(axis, (list, tuple)) and not axis):
        return tuple(range(x.dim()))
    return tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)


@operation(known_as="sum")
def sum_(x: Any, axis: Axis = None, dtype: Any = None, keepdim: bool = False) -> Any:
    return torch.sum(x, _sides(x, axis), keepdim, dtype=None if dtype is None else as_dtype(dtype))


@operation
def mean(x: Any, axis: Axis = None, keepdim: bool = False) -> Any:
    return torch.mean(x, _sides(x, axis), keepdim)


class _Extreme(torch.autograd.Function):
    """The greatest or least elements. Where several are, each has the whole gradient; torch would share it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x == found)
        return found.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (chosen,) = ctx.saved_tensors
        return gradients[0] * chosen, None


def _extreme(x: torch.Tensor, axis: Axis, keepdim: bool, reduce: Callable[..., torch.Tensor]) -> torch.Tensor:
    sides = _sides(x, axis)
    if not (x.requires_grad and torch.is_grad_enabled()):
        return reduce(x, sides, keepdim)
    found: torch.Tensor = _Extreme.apply(x, reduce(x.detach(), sides, True))  # type: ignore[no-untyped-call]
    return found if keepdim else found.squeeze(sides)


@operation(known_as="max")
def max_(x: Any, axis: Axis = None, keepdim: bool = False) -> Any:
    return _extreme(x, axis, keepdim, torch.amax)


@operation(known_as="min")
def min_(x: Any, axis: Axis = None, keepdim: bool = False) -> Any:
    return _extreme(x, axis, keepdim, torch.amin)


@operation
def amax(x: Any, axis: Axis = None, keepdim: bool = False) -> Any:
    return torch.amax(x, _sides(x, axis), keepdim)


@operation
def amin(x: Any, axis: Axis = None, keepdim: bool = False) -> Any:
    return torch.amin(x, _sides(x, axis), keepdim)


@operation
def std(x: Any, axis: Axis = None, unbiased: bool = True, keepdim: bool = False) -> Any:
    return torch.std(x, _sides(x, axis), correction=int(unbiased), keepdim=keepdim)


@operation
def var(x: Any, axis: Axis = None, unbiased: bool = True, keepdim: bool = False) -> Any:
    return torch.var(x, _sides(x, axis), correction=int(unbiased), keepdim=keepdim)


@operation
def median(x: Any, axis: int | None = None, keepdim: bool = False) -> Any:
    """Of an even number of elements, the mean of the two in the middle; torch takes the lower."""
    ordered = torch.sort(x.flatten() if axis is None else x, 0 if axis is None else axis).values
    ordered = ordered.movedim(0 if axis is None else axis, -1)
    count = ordered.shape[-1]
    found = (ordered[..., (count - 1) // 2] + ordered[..., count // 2]) / 2
    if not keepdim:
        return found
    return found.reshape([1] * x.dim()) if axis is None else found.unsqueeze(axis)


@operation
def count_nonzero(x: Any, axis: Axis = None, keepdim: bool = False) -> Any:
    return torch.sum(x != 0, _sides(x, axis), keepdim)


@operation
def prod(x: Any, axis: Axis = None, keepdim: bool = False, dtype: Any = None) -> Any:
    kind = None if dtype is None else as_dtype(dtype)
    for side in sorted((each % max(x.dim(), 1) for each in _sides(x, axis)), reverse=True):
        x = torch.prod(x, side, keepdim, dtype=kind)
    return x


@operation
def cumsum(x: Any, axis: int | None = None, dtype: Any = None) -> Any:
    kind = None if dtype is None else as_dtype(dtype)
    return torch.cumsum(x.flatten() if axis is None else x, axis or 0, dtype=kind)


@operation
def cumprod(x: Any, dim: int | None = None, dtype: Any = None) -> Any:
    kind = None if dtype is None else as_dtype(dtype)
    return torch.cumprod(x.flatten() if dim is None else x, dim or 0, dtype=kind)


@operation(known_as="all")
def all_(x: Any, axis: Axis = None, keepdim: bool = False) -> Any:
    return torch.all(x, _sides(x, axis), keepdim) if x.dim() else x.bool()


@operation(known_as="any")
def any_(x: Any, axis: Axis = None, keepdim: bool = False) -> Any:
    return torch.any(x, _sides(x, axis), keepdim) if x.dim() else x.bool()


@operation
def logsumexp(x: Any, axis: Axis = None, keepdim: bool = False) -> Any:
    return torch.logsumexp(x, _sides(x, axis), keepdim)


@operation
def norm(x: Any, p: Any = "fro", axis: Axis = None, keepdim: bool = False) -> Any:
    if isinstance(p, str) and p != "fro":
        raise InvalidArgument(f"norm: p is 'fro' or a number, not {p!r}")
    return torch.linalg.vector_norm(x, 2 if p == "fro" else p, _sides(x, axis), keepdim)


@operation
def dist(x: Any, y: Any, p: float = 2) -> Any:
    return torch.linalg.vector_norm(x - y, p)


@operation
def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Each element less the one before it, ``n`` times."""
    return torch.diff(x, n, axis, prepend, append)


@operation
def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number is there. How many there are is not known while a program is built."""
    if x.is_meta:
        kind = torch.int64 if weights is None else weights.dtype
        return x.new_empty(max(x.numel(), minlength), dtype=kind)
    return torch.bincount(x, weights, minlength)


@operation
def histogram(input: Any, bins: int = 100, min: int = 0, max: int = 0) -> Any:
    """How many numbers are in each of ``bins`` equal parts; without ends, from the least to the greatest."""
    if input.is_meta:
        return input.new_empty(bins, dtype=torch.int64)
    return torch.histc(input.to(torch.float64), bins, min, max).to(torch.int64)
