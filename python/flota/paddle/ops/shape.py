"""Giving tensors other shapes and orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from flota.errors import InvalidArgument
from flota.paddle.dtypes import as_dtype
from flota.paddle.ops.making import generator as generator
from flota.paddle.ops.making import sides
from flota.paddle.ops.registry import operation


@operation
def shape(input: Any) -> Any:
    return torch.tensor(list(input.shape), dtype=torch.int32, device="cpu")


@operation
def numel(x: Any) -> Any:
    return torch.tensor(x.numel(), dtype=torch.int64, device="cpu")


@operation
def rank(input: Any) -> Any:
    """How many sides there are."""
    return torch.tensor(input.dim(), dtype=torch.int32, device="cpu")


@operation
def is_empty(x: Any) -> Any:
    return torch.tensor(x.numel() == 0, device="cpu")


@operation
def cast(x: Any, dtype: Any) -> Any:
    return x.to(as_dtype(dtype))


@operation
def reshape(x: Any, shape: Any) -> Any:
    if isinstance(shape, list) and 0 not in shape and set(map(type, shape)) == {int}:
        return x.reshape(shape)
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
def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    return torch.moveaxis(x, source, destination)


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


# --- joining and cutting ---


@operation
def concat(x: Any, axis: Any = 0) -> Any:
    return torch.cat(list(x), int(axis))


@operation
def stack(x: Any, axis: int = 0) -> Any:
    return torch.stack(list(x), axis)


@operation
def unstack(x: Any, axis: int = 0, num: int | None = None) -> Any:
    if num is not None and num != x.shape[axis]:
        raise InvalidArgument(f"unstack: there are {x.shape[axis]} parts, not {num}")
    return list(x.unbind(axis))


@operation
def unbind(input: Any, axis: int = 0) -> Any:
    return list(input.unbind(axis))


@operation
def split(x: Any, num_or_sections: Any, axis: Any = 0) -> Any:
    axis = int(axis)
    if isinstance(num_or_sections, int):
        if x.shape[axis] % num_or_sections:
            raise InvalidArgument(f"split: a side of {x.shape[axis]} has no {num_or_sections} equal parts")
        return list(x.split(x.shape[axis] // num_or_sections, axis))
    parts = sides(num_or_sections)
    if -1 in parts:
        rest = x.shape[axis] - sum(part for part in parts if part >= 0)
        parts = [rest if part < 0 else part for part in parts]
    return list(x.split(parts, axis))


@operation
def chunk(x: Any, chunks: int, axis: Any = 0) -> Any:
    if x.shape[int(axis)] % chunks:
        raise InvalidArgument(f"chunk: a side of {x.shape[int(axis)]} has no {chunks} equal parts")
    return list(x.chunk(chunks, int(axis)))


@operation(known_as="slice")
def slice_(input: Any, axes: Sequence[int], starts: Any, ends: Any) -> Any:
    for axis, start, end in zip(axes, sides(starts), sides(ends), strict=True):
        size = input.shape[axis]
        begin = min(max(start + size if start < 0 else start, 0), size)
        stop = min(max(end + size if end < 0 else end, 0), size)
        input = input.narrow(axis, begin, max(stop - begin, 0))
    return input


@operation
def strided_slice(x: Any, axes: Sequence[int], starts: Any, ends: Any, strides: Any) -> Any:
    index = [slice(None)] * x.dim()
    for axis, start, end, stride in zip(axes, sides(starts), sides(ends), sides(strides), strict=True):
        index[axis] = slice(start, end, stride)
    return _item(x, tuple(index))


@operation
def getitem(x: Any, index: Any) -> Any:
    several = isinstance(index, tuple) or (isinstance(index, list) and any(not isinstance(each, int) for each in index))
    return _item(x, tuple(index) if several else (index,))


def _item(x: Any, index: tuple[Any, ...]) -> Any:
    if any(isinstance(each, slice) and each.step is not None and each.step < 0 for each in index):
        x, index = _forwards(x, index)
    if x.is_meta and len(index) == 1 and isinstance(index[0], torch.Tensor) and index[0].dtype == torch.bool:
        # How many there will be is not known: as many as there can be.
        mask = index[0]
        return x.new_empty(mask.numel(), *x.shape[mask.dim() :])
    return x[index]


def _forwards(x: Any, index: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The same choice without negative steps, which torch does not know: those sides are reversed first."""
    taken = sum(each is not None and each is not Ellipsis for each in index)
    axis, result = 0, list[Any]()
    for each in index:
        if isinstance(each, slice) and each.step is not None and each.step < 0:
            places = range(*each.indices(x.shape[axis]))
            last = x.shape[axis] - 1
            x = x.flip(axis)
            stop = last - places[-1] + 1 if len(places) else 0
            result.append(slice(last - places[0] if len(places) else 0, stop, -each.step))
        else:
            result.append(each)
        axis += x.dim() - taken if each is Ellipsis else each is not None
    return x, tuple(result)


@operation
def tile(x: Any, repeat_times: Any) -> Any:
    return x.tile(tuple(sides(repeat_times)))


@operation
def tile_as(x: Any, target: Any) -> Any:
    """1.x's ``expand_as``: repeated until it has the target's sides."""
    if x.dim() != target.dim() or any(whole % side for whole, side in zip(target.shape, x.shape, strict=True)):
        raise InvalidArgument(f"expand_as: {list(x.shape)}, repeated, is not {list(target.shape)}")
    return x.tile(tuple(whole // side for whole, side in zip(target.shape, x.shape, strict=True)))


@operation
def expand(x: Any, shape: Any) -> Any:
    return x.expand(*sides(shape))


@operation
def broadcast_to(x: Any, shape: Any) -> Any:
    return x.expand(*sides(shape))


@operation
def expand_as(x: Any, y: Any) -> Any:
    return x.expand_as(y)


@operation
def repeat_interleave(x: Any, repeats: Any, axis: int | None = None) -> Any:
    if x.is_meta and isinstance(repeats, torch.Tensor):
        raise InvalidArgument("repeat_interleave: in a program the number of repeats must be known while it is built")
    return torch.repeat_interleave(x, repeats, axis)


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


@operation
def diag(x: Any, offset: int = 0, padding_value: float = 0) -> Any:
    made = torch.diag(x, offset)
    if x.dim() == 2 or padding_value == 0:
        return made
    return torch.where(torch.diag(torch.ones_like(x, dtype=torch.bool), offset), made, padding_value)


@operation
def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return torch.diagonal(x, offset, axis1, axis2)


@operation
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    return torch.diag_embed(input, offset, dim1, dim2)


@operation
def sequence_mask(x: Any, maxlen: Any = None, dtype: Any = "int64") -> Any:
    """For each length, as many ones, and then zeros."""
    # While a program is built the longest is not known: a number that depends on the batch.
    longest = x.numel() if x.is_meta else int(x.max()) if x.numel() else 0
    width = longest if maxlen is None else int(maxlen)
    return (torch.arange(width, device=x.device) < x.unsqueeze(-1)).to(as_dtype(dtype))
