"""Torch tensors and numpy arrays as the core takes them: an address and a length, checked here, copied nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from flota.errors import InvalidArgument

Array: TypeAlias = torch.Tensor | npt.NDArray[np.generic]
Keys: TypeAlias = torch.Tensor | npt.NDArray[np.int64] | npt.NDArray[np.uint64] | Sequence[int]
Values: TypeAlias = torch.Tensor | npt.NDArray[np.float32] | Sequence[Sequence[float]] | Sequence[float]


def address(array: Array) -> int:
    """Where the array's first element lies."""
    if isinstance(array, torch.Tensor):
        return array.data_ptr()
    return int(array.__array_interface__["data"][0])


def as_keys(keys: Keys) -> Array:
    """Keys as a contiguous row of 64-bit integers. Any int64 is a valid key; duplicates are legal."""
    if isinstance(keys, torch.Tensor):
        if keys.dtype != torch.int64:
            raise InvalidArgument(f"keys must be torch.int64, not {keys.dtype}; convert them with keys.long()")
        _refuse_shape(keys.shape, "keys")
        return _on_cpu(keys, "keys").contiguous()
    if isinstance(keys, np.ndarray):
        if keys.dtype not in (np.int64, np.uint64):
            raise InvalidArgument(f"keys must be int64 or uint64, not {keys.dtype}; convert them with .astype('int64')")
        _refuse_shape(keys.shape, "keys")
        return np.ascontiguousarray(keys)
    try:
        return torch.tensor(keys, dtype=torch.int64).reshape(-1) if len(keys) == 0 else _from_list(keys)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InvalidArgument(f"keys must be whole numbers of 64 bits: {error}") from error


def _from_list(keys: Sequence[int]) -> torch.Tensor:
    for key in keys:
        if not _is_whole(key):
            raise TypeError(f"{key!r} is not a whole number")
    return torch.tensor(keys, dtype=torch.int64)


def _is_whole(key: object) -> bool:
    return isinstance(key, (int, np.integer)) and not isinstance(key, bool)


def as_values(values: Values, shape: tuple[int, ...], what: str) -> Array:
    """Gradients or weights as contiguous float32 of exactly this shape."""
    if isinstance(values, torch.Tensor):
        if values.dtype != torch.float32:
            raise InvalidArgument(f"{what} must be torch.float32, not {values.dtype}; convert them with .float()")
        _refuse_other_shape(tuple(values.shape), shape, what)
        return _on_cpu(values, what).detach().contiguous()
    if isinstance(values, np.ndarray):
        if values.dtype != np.float32:
            raise InvalidArgument(f"{what} must be float32, not {values.dtype}; convert them with .astype('float32')")
        _refuse_other_shape(values.shape, shape, what)
        return np.ascontiguousarray(values)
    try:
        tensor = torch.tensor(values, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidArgument(f"{what} must be numbers of shape {list(shape)}: {error}") from error
    if tensor.numel() == 0:
        tensor = tensor.reshape(shape) if 0 in shape else tensor
    _refuse_other_shape(tuple(tensor.shape), shape, what)
    return tensor


def output_like(keys: Array, shape: tuple[int, ...], out: Array | None) -> Array:
    """An array for the answer: the caller's, or a new one of the keys' own library."""
    if out is None:
        return torch.empty(shape) if isinstance(keys, torch.Tensor) else np.empty(shape, dtype=np.float32)
    if isinstance(out, torch.Tensor):
        if out.dtype != torch.float32 or out.requires_grad or not out.is_contiguous():
            raise InvalidArgument("out must be a contiguous torch.float32 tensor that requires no gradient")
        _on_cpu(out, "out")
    elif out.dtype != np.float32 or not out.flags.c_contiguous or not out.flags.writeable:
        raise InvalidArgument("out must be a contiguous, writable float32 array")
    _refuse_other_shape(tuple(out.shape), shape, "out")
    return out


def _on_cpu(tensor: torch.Tensor, what: str) -> torch.Tensor:
    if tensor.device.type != "cpu":
        raise InvalidArgument(f"{what} must be in main memory, not on {tensor.device}; move them with .cpu()")
    return tensor


def _refuse_shape(shape: Sequence[int], what: str) -> None:
    if len(shape) != 1:
        raise InvalidArgument(
            f"{what} must have one dimension, not shape {list(shape)}; flatten them with .reshape(-1)"
        )


def _refuse_other_shape(shape: tuple[int, ...], wanted: tuple[int, ...], what: str) -> None:
    if shape != wanted:
        raise InvalidArgument(f"{what} must have shape {list(wanted)}, not {list(shape)}")
