"""Making tensors, and giving them other shapes and orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from flota.paddle.dtypes import as_dtype, default_dtype
from flota.paddle.ops.registry import operation


def sides(shape: Any) -> list[int]:
    """A shape, whose sides may be tensors."""
    if isinstance(shape, torch.Tensor):
        return [int(side) for side in shape.reshape(-1)]
    if isinstance(shape, int):
        return [shape]
    return [int(side) for side in shape]


def _type(dtype: Any) -> torch.dtype:
    return default_dtype() if dtype is None else as_dtype(dtype)


# --- making ---


@operation
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    value = fill_value.item() if isinstance(fill_value, torch.Tensor) else fill_value
    return torch.full(sides(shape), value, dtype=_type(dtype))


@operation
def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Any:
    return torch.full_like(x, fill_value, dtype=None if dtype is None else as_dtype(dtype))


@operation
def ones(shape: Any, dtype: Any = None) -> Any:
    return torch.ones(sides(shape), dtype=_type(dtype))


@operation
def zeros(shape: Any, dtype: Any = None) -> Any:
    return torch.zeros(sides(shape), dtype=_type(dtype))


@operation
def ones_like(x: Any, dtype: Any = None) -> Any:
    return torch.ones_like(x, dtype=None if dtype is None else as_dtype(dtype))


@operation
def zeros_like(x: Any, dtype: Any = None) -> Any:
    return torch.zeros_like(x, dtype=None if dtype is None else as_dtype(dtype))


@operation
def arange(start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    begin, stop = (0, start) if end is None else (start, end)
    numbers = [each.item() if isinstance(each, torch.Tensor) else each for each in (begin, stop, step)]
    whole = all(isinstance(each, int) for each in numbers)
    kind = (torch.int64 if whole else default_dtype()) if dtype is None else as_dtype(dtype)
    return torch.arange(*numbers, dtype=kind)


@operation
def linspace(start: Any, stop: Any, num: int, dtype: Any = None) -> Any:
    return torch.linspace(start, stop, num, dtype=_type(dtype))


@operation
def eye(num_rows: int, num_columns: int | None = None, dtype: Any = None) -> Any:
    return torch.eye(num_rows, num_columns or num_rows, dtype=_type(dtype))


@operation
def assign(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.clone()
    array = np.asarray(x)
    kind = torch.float32 if array.dtype == np.float64 else None
    return torch.tensor(array, dtype=kind)


# --- random ---


@operation
def uniform(shape: Any, dtype: Any = None, min: float = -1.0, max: float = 1.0, seed: int = 0) -> Any:
    return torch.rand(sides(shape), dtype=_type(dtype), generator=generator(seed)) * (max - min) + min


@operation
def gaussian(shape: Any, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: Any = None) -> Any:
    return torch.randn(sides(shape), dtype=_type(dtype), generator=generator(seed)) * std + mean


@operation
def rand(shape: Any, dtype: Any = None) -> Any:
    return torch.rand(sides(shape), dtype=_type(dtype))


@operation
def randn(shape: Any, dtype: Any = None) -> Any:
    return torch.randn(sides(shape), dtype=_type(dtype))


@operation
def randint(low: int = 0, high: int | None = None, shape: Any = (1,), dtype: Any = None) -> Any:
    begin, end = (0, low) if high is None else (low, high)
    return torch.randint(begin, end, sides(shape), dtype=torch.int64 if dtype is None else as_dtype(dtype))


@operation
def randperm(n: int, dtype: Any = "int64") -> Any:
    return torch.randperm(n, dtype=as_dtype(dtype))


def generator(seed: int) -> torch.Generator | None:
    """A generator of its own where a script gives a seed; 0: torch's."""
    return torch.Generator().manual_seed(seed) if seed else None


# --- other shapes ---


@operation
def shape(input: Any) -> Any:
    return torch.tensor(list(input.shape), dtype=torch.int32, device="cpu")


@operation
def numel(x: Any) -> Any:
    return torch.tensor(x.numel(), dtype=torch.int64, device="cpu")


@operation
def cast(x: Any, dtype: Any) -> Any:
    return x.to(as_dtype(dtype))


@operation
def reshape(x: Any, shape: Any) -> Any:
    wanted = sides(shape)
    # 0 stands for the side that is there.
    return x.reshape([x.shape[i] if side == 0 else side for i, side in enumerate(wanted)])


@operation
def flatten(x: Any, start_axis: int = 0, stop_axis: int = -1) -> Any:
    return x.flatten(start_axis, stop_axis)


@operation
def flatten_to_matrix(x: Any, axis: int = 1) -> Any:
    """1.x: the first ``axis`` sides are rows, the others columns."""
    rows = int(np.prod(x.shape[:axis])) if axis else 1
    return x.reshape(rows, -1)


@operation
def transpose(x: Any, perm: Sequence[int]) -> Any:
    return x.permute(*perm)


@operation
def t(input: Any) -> Any:
    return input.t()


@operation
def unsqueeze(x: Any, axis: Any) -> Any:
    for each in sides(axis):
        x = x.unsqueeze(each)
    return x


@operation
def squeeze(x: Any, axis: Any = None) -> Any:
    if axis is None or axis == []:
        return x.squeeze()
    return x.squeeze(tuple(sides(axis)))


@operation
def concat(x: Any, axis: Any = 0) -> Any:
    return torch.cat(list(x), int(axis))


@operation
def stack(x: Any, axis: int = 0) -> Any:
    return torch.stack(list(x), axis)


@operation
def unstack(x: Any, axis: int = 0, num: int | None = None) -> Any:
    return list(x.unbind(axis))


@operation
def unbind(input: Any, axis: int = 0) -> Any:
    return list(input.unbind(axis))


@operation
def split(x: Any, num_or_sections: Any, axis: Any = 0) -> Any:
    axis = int(axis)
    if isinstance(num_or_sections, int):
        return list(x.split(x.shape[axis] // num_or_sections, axis))
    parts = sides(num_or_sections)
    if -1 in parts:
        rest = x.shape[axis] - sum(part for part in parts if part >= 0)
        parts = [rest if part < 0 else part for part in parts]
    return list(x.split(parts, axis))


@operation
def slice(input: Any, axes: Sequence[int], starts: Any, ends: Any) -> Any:
    for axis, start, end in zip(axes, sides(starts), sides(ends), strict=True):
        size = input.shape[axis]
        begin = min(max(start + size if start < 0 else start, 0), size)
        stop = min(max(end + size if end < 0 else end, 0), size)
        input = input.narrow(axis, begin, max(stop - begin, 0))
    return input


@operation
def getitem(x: Any, index: Any) -> Any:
    return x[tuple(index) if isinstance(index, list) and any(not isinstance(each, int) for each in index) else index]


@operation
def tile(x: Any, repeat_times: Any) -> Any:
    return x.tile(tuple(sides(repeat_times)))


@operation
def expand(x: Any, shape: Any) -> Any:
    return x.expand(*sides(shape))


@operation
def expand_as(x: Any, y: Any) -> Any:
    return x.expand_as(y)


@operation
def flip(x: Any, axis: Any) -> Any:
    return x.flip(sides(axis))


@operation
def roll(x: Any, shifts: Any, axis: Any = None) -> Any:
    return torch.roll(x, shifts, axis)


@operation
def tril(x: Any, diagonal: int = 0) -> Any:
    return torch.tril(x, diagonal)


@operation
def triu(x: Any, diagonal: int = 0) -> Any:
    return torch.triu(x, diagonal)


# --- choosing ---


@operation
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    return torch.where(condition, x, y)


@operation
def gather(x: Any, index: Any, axis: Any = 0) -> Any:
    return x.index_select(int(axis), index.reshape(-1))


@operation
def gather_nd(x: Any, index: Any) -> Any:
    return x[tuple(index.long().unbind(-1))]


@operation
def index_select(x: Any, index: Any, axis: int = 0) -> Any:
    return x.index_select(axis, index)


@operation
def scatter(x: Any, index: Any, updates: Any, overwrite: bool = True) -> Any:
    places = index.reshape(-1).long()
    if overwrite:
        return x.index_copy(0, places, updates)
    return x.index_fill(0, places, 0).index_add(0, places, updates)


@operation
def masked_select(x: Any, mask: Any) -> Any:
    if x.is_meta:
        return x.new_empty(x.numel())
    return torch.masked_select(x, mask)


@operation
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return x.masked_fill(mask, value)


@operation
def take_along_axis(arr: Any, indices: Any, axis: int) -> Any:
    return torch.take_along_dim(arr, indices, axis)


@operation
def argmax(x: Any, axis: int | None = None, keepdim: bool = False, dtype: Any = "int64") -> Any:
    return torch.argmax(x, axis, keepdim).to(as_dtype(dtype))


@operation
def argmin(x: Any, axis: int | None = None, keepdim: bool = False, dtype: Any = "int64") -> Any:
    return torch.argmin(x, axis, keepdim).to(as_dtype(dtype))


@operation
def argsort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    return torch.argsort(x, dim=axis, descending=descending, stable=True)


@operation
def sort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    return torch.sort(x, dim=axis, descending=descending, stable=True).values


@operation
def topk(x: Any, k: Any, axis: int | None = None, largest: bool = True, sorted: bool = True) -> Any:
    found = torch.topk(x, int(k), -1 if axis is None else axis, largest, sorted)
    return found.values, found.indices


@operation
def unique(
    x: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None
) -> Any:
    if x.is_meta:
        found = [x.new_empty(x.numel()) if axis is None else x]
        found += [x.new_empty(x.numel(), dtype=torch.int64)] * (return_index + return_inverse + return_counts)
        return found[0] if len(found) == 1 else tuple(found)
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True, dim=axis)
    result = [values]
    if return_index:
        flat = inverse.reshape(-1)
        order = torch.argsort(flat, stable=True)
        result.append(order[torch.cat([counts.new_zeros(1), counts.cumsum(0)[:-1]])])
    if return_inverse:
        result.append(inverse.reshape(-1))
    if return_counts:
        result.append(counts)
    return result[0] if len(result) == 1 else tuple(result)


@operation
def nonzero(x: Any, as_tuple: bool = False) -> Any:
    if x.is_meta:
        found = x.new_empty(x.numel(), x.dim(), dtype=torch.int64)
    else:
        found = torch.nonzero(x)
    return tuple(found.split(1, 1)) if as_tuple else found
