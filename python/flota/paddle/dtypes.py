"""Types of numbers by the names that scripts use. A type is torch's own."""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np
import torch

from flota.errors import InvalidArgument

NAMES: dict[str, torch.dtype] = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
    "complex64": torch.complex64,
    "complex128": torch.complex128,
}
_NAME_OF = {dtype: name for name, dtype in NAMES.items()}
_SHORT = {"float": "float32", "int": "int64", "double": "float64", "half": "float16", "long": "int64"}


def as_dtype(dtype: Any) -> torch.dtype:
    """The type that a name, a torch or numpy type, or Python's ``float`` and ``int`` stand for."""
    if isinstance(dtype, torch.dtype):
        return dtype
    if isinstance(dtype, str):
        name = _SHORT.get(dtype, dtype.removeprefix("paddle."))
    else:
        try:
            name = np.dtype(dtype).name
        except TypeError:
            raise InvalidArgument(f"{dtype!r} is no type of numbers") from None
        name = {"float64": "float32"}.get(name, name) if dtype is float else name
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        raise InvalidArgument(f"there is no type {dtype!r}" + (f": did you mean {near[0]!r}?" if near else ""))
    return NAMES[name]


def name_of(dtype: torch.dtype) -> str:
    return _NAME_OF[dtype]


class _Default:
    dtype = torch.float32


def set_default_dtype(d: Any) -> None:
    wanted = as_dtype(d)
    if not wanted.is_floating_point:
        raise InvalidArgument(f"the default type must be one of real numbers, not {d!r}")
    _Default.dtype = wanted


def get_default_dtype() -> str:
    return name_of(_Default.dtype)


def default_dtype() -> torch.dtype:
    return _Default.dtype
