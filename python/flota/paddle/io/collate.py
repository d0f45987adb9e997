"""Batches of samples: the same structure, with an array of all samples' values in each place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np
import torch

from flota.errors import InvalidArgument
from flota.paddle.tensor import Tensor


def default_collate_fn(batch: Sequence[Any]) -> Any:
    """Arrays and tensors are stacked, numbers become an array, texts stay a list; the fields of tuples, lists and
    mappings are each a batch."""
    first = batch[0]
    if isinstance(first, (np.ndarray, np.generic)):
        return _stacked([np.asarray(each) for each in batch])
    if isinstance(first, (Tensor, torch.Tensor)):
        values = [each.value if isinstance(each, Tensor) else each for each in batch]
        return Tensor(torch.stack(values))
    if isinstance(first, Number):
        return np.array(batch)
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, Mapping):
        return {key: default_collate_fn([each[key] for each in batch]) for key in first}
    if isinstance(first, Sequence):
        if any(len(each) != len(first) for each in batch):
            raise InvalidArgument(
                f"the samples of a batch have different numbers of fields, from {min(map(len, batch))} to "
                f"{max(map(len, batch))}: give arrays, or a collate_fn that pads"
            )
        return [default_collate_fn(field) for field in zip(*batch, strict=True)]
    raise InvalidArgument(
        f"a sample is an array, a tensor, a number, a text, or a list, tuple or mapping of them, not {first!r}"
    )


def _stacked(arrays: Sequence[Any]) -> Any:
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise InvalidArgument(
            f"the samples of a batch have different shapes, such as {' and '.join(map(str, sorted(shapes)[:2]))}: give "
            "a collate_fn that pads"
        )
    return np.stack(arrays)


def as_tensors(batch: Any) -> Any:
    """Its arrays as tensors, which may share their memory; a tuple becomes a list, and what is no array stays."""

    def tensor(value: Any) -> Any:
        found = _torch_tensor(value)
        return Tensor(found) if isinstance(found, torch.Tensor) else found

    return _each(batch, tensor)


def as_torch(batch: Any) -> Any:
    """The same with torch's tensors, which go from a worker's process to the loop through shared memory."""
    return _each(batch, _torch_tensor)


def as_arrays(batch: Any) -> Any:
    """The same with arrays, which go through a pipe."""
    return _each(batch, lambda value: value.numpy() if isinstance(value, (Tensor, torch.Tensor)) else value)


def _each(batch: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(batch, Mapping):
        return {key: _each(value, change) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return [_each(value, change) for value in batch]
    return change(batch)


def _torch_tensor(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.value
    if isinstance(value, np.ndarray) and value.dtype.kind in "bfiuc":
        return torch.from_numpy(np.require(value, requirements=["C", "W"]))
    return value
