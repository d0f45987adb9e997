"""Choosing elements: by place, by a condition, by order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.paddle.dtypes import as_dtype
from flota.paddle.ops.making import sides
from flota.paddle.ops.registry import operation

# --- by place ---


@operation
def gather(x: Any, index: Any, axis: Any = None) -> Any:
    side = 0 if axis is None else int(axis)
    found = x.index_select(side, index.reshape(-1))
    return found if index.dim() else found.squeeze(side)


@operation
def gather_nd(x: Any, index: Any) -> Any:
    return x[tuple(index.long().unbind(-1))]


@operation
def index_select(x: Any, index: Any, axis: int = 0) -> Any:
    return x.index_select(axis, index)


@operation
def index_sample(x: Any, index: Any) -> Any:
    """Of each row, its own columns."""
    return torch.gather(x, 1, index.long())


@operation
def take_along_axis(arr: Any, indices: Any, axis: int, broadcast: bool = True) -> Any:
    if broadcast:
        return torch.take_along_dim(arr, indices.long(), axis)
    return torch.gather(arr, axis, indices.long())


_SCATTERED = {"add": "sum", "mul": "prod", "multiply": "prod", "mean": "mean", "amin": "amin", "amax": "amax"}


@operation
def put_along_axis(
    arr: Any,
    indices: Any,
    values: Any,
    axis: int,
    reduce: str = "assign",
    include_self: bool = True,
    broadcast: bool = True,
) -> Any:
    shape = list(indices.shape)
    if broadcast:
        shape = [arr.shape[side] if side != axis % arr.dim() else own for side, own in enumerate(shape)]
    places = indices.long().expand(shape)
    given = values.expand(shape) if isinstance(values, torch.Tensor) else torch.full(shape, values, dtype=arr.dtype)
    if reduce == "assign":
        return arr.scatter(axis, places, given)
    if reduce not in _SCATTERED:
        raise InvalidArgument(f"put_along_axis: reduce is assign, {', '.join(_SCATTERED)}, not {reduce!r}")
    return arr.scatter_reduce(axis, places, given, _SCATTERED[reduce], include_self=include_self)


@operation
def scatter(x: Any, index: Any, updates: Any, overwrite: bool = True) -> Any:
    places = index.reshape(-1).long()
    if overwrite:
        return x.index_copy(0, places, updates)
    return x.index_fill(0, places, 0).index_add(0, places, updates)


@operation
def scatter_nd_add(x: Any, index: Any, updates: Any) -> Any:
    return x.index_put(tuple(index.long().unbind(-1)), updates, accumulate=True)


@operation
def scatter_nd(index: Any, updates: Any, shape: Any) -> Any:
    nothing = updates.new_zeros(sides(shape))
    return nothing.index_put(tuple(index.long().unbind(-1)), updates, accumulate=True)


@operation
def index_add(x: Any, index: Any, axis: int, value: Any) -> Any:
    return x.index_add(axis, index, value)


@operation
def shard_index(input: Any, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1) -> Any:
    """Ids that the shard has, as its own; of all others, ``ignore_value``."""
    if not 0 <= shard_id < nshards:
        raise InvalidArgument(f"shard_index: shard_id is from 0 to {nshards - 1}, not {shard_id}")
    size = (index_num + nshards - 1) // nshards
    return torch.where(input // size == shard_id, input % size, ignore_value)


# --- by a condition ---


@operation
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None and y is None:
        return tuple(_places(condition).split(1, 1))
    if x is None or y is None:
        raise InvalidArgument("where: it takes both x and y, or neither")
    return torch.where(condition, x, y)


@operation
def nonzero(x: Any, as_tuple: bool = False) -> Any:
    found = _places(x)
    return tuple(found.split(1, 1)) if as_tuple else found


def _places(x: Any) -> Any:
    """One row for each element that is not zero. How many is not known while a program is built: as many as can be."""
    return x.new_empty(x.numel(), x.dim(), dtype=torch.int64) if x.is_meta else torch.nonzero(x)


@operation
def masked_select(x: Any, mask: Any) -> Any:
    if x.is_meta:
        return x.new_empty(x.numel())
    return torch.masked_select(x, mask)


@operation
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return x.masked_fill(mask, value)


@operation
def multiplex(inputs: Sequence[Any], index: Any) -> Any:
    """Row i is that of the input which ``index`` names for it."""
    rows = torch.arange(len(index), device=index.device)
    return torch.stack(list(inputs))[index.reshape(-1).long(), rows]


# --- by order ---


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
def kthvalue(x: Any, k: int, axis: int | None = None, keepdim: bool = False) -> Any:
    found = torch.kthvalue(x, k, -1 if axis is None else axis, keepdim)
    return found.values, found.indices


@operation
def searchsorted(sorted_sequence: Any, values: Any, out_int32: bool = False, right: bool = False) -> Any:
    return torch.searchsorted(sorted_sequence, values, out_int32=out_int32, right=right)


@operation
def bucketize(x: Any, sorted_sequence: Any, out_int32: bool = False, right: bool = False) -> Any:
    return torch.bucketize(x, sorted_sequence, out_int32=out_int32, right=right)


@operation
def unique(
    x: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: Any = "int64",
) -> Any:
    kind = as_dtype(dtype)
    if x.is_meta:
        length = x.numel() if axis is None else x.shape[axis]
        found = [x.new_empty(x.numel()) if axis is None else x]
        found += [x.new_empty(length, dtype=kind) for _ in range(return_index + return_inverse + return_counts)]
        return found[0] if len(found) == 1 else tuple(found)
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True, dim=axis)
    flat = inverse.reshape(-1)
    result = [values]
    if return_index:
        order = torch.argsort(flat, stable=True)
        result.append(order[counts.cumsum(0) - counts].to(kind))
    if return_inverse:
        result.append(flat.to(kind))
    if return_counts:
        result.append(counts.to(kind))
    return result[0] if len(result) == 1 else tuple(result)
