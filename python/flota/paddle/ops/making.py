"""Making tensors: of given numbers, and of random ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from flota.errors import InvalidArgument
from flota.paddle.dtypes import as_dtype, default_dtype
from flota.paddle.ops.registry import FUNCTIONS, call_as, into, operation


def sides(shape: Any) -> list[int]:
    """A shape, whose sides may be tensors."""
    if isinstance(shape, torch.Tensor):
        return [int(side) for side in shape.reshape(-1)]
    if isinstance(shape, int):
        return [shape]
    return [int(side) for side in shape]


def type_or_none(dtype: Any) -> torch.dtype | None:
    return None if dtype is None else as_dtype(dtype)


def _type(dtype: Any) -> torch.dtype:
    return default_dtype() if dtype is None else as_dtype(dtype)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value


# --- given numbers ---


@operation
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    if isinstance(fill_value, torch.Tensor):
        return fill_value.reshape(()).to(_type(dtype)).expand(sides(shape)).clone()
    return torch.full(sides(shape), fill_value, dtype=_type(dtype))


@operation
def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Any:
    return torch.full_like(x, fill_value, dtype=type_or_none(dtype))


@operation
def ones(shape: Any, dtype: Any = None) -> Any:
    return torch.ones(sides(shape), dtype=_type(dtype))


@operation
def zeros(shape: Any, dtype: Any = None) -> Any:
    return torch.zeros(sides(shape), dtype=_type(dtype))


@operation
def empty(shape: Any, dtype: Any = None) -> Any:
    return torch.empty(sides(shape), dtype=_type(dtype))


@operation
def ones_like(x: Any, dtype: Any = None) -> Any:
    return torch.ones_like(x, dtype=type_or_none(dtype))


@operation
def zeros_like(x: Any, dtype: Any = None) -> Any:
    return torch.zeros_like(x, dtype=type_or_none(dtype))


@operation
def empty_like(x: Any, dtype: Any = None) -> Any:
    return torch.empty_like(x, dtype=type_or_none(dtype))


@operation
def fill_constant_batch_size_like(
    input: Any, shape: Any, dtype: Any, value: Any, input_dim_idx: int = 0, output_dim_idx: int = 0
) -> Any:
    """1.x: of this shape, but for the side that is the batch's."""
    wanted = sides(shape)
    wanted[output_dim_idx] = input.shape[input_dim_idx]
    return torch.full(wanted, value, dtype=as_dtype(dtype))


@operation
def arange(start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    begin, stop = (0, start) if end is None else (start, end)
    numbers = [_number(each) for each in (begin, stop, step)]
    whole = all(isinstance(each, int) for each in numbers)
    kind = (torch.int64 if whole else default_dtype()) if dtype is None else as_dtype(dtype)
    return torch.arange(*numbers, dtype=kind)


@operation
def linspace(start: Any, stop: Any, num: Any, dtype: Any = None) -> Any:
    return torch.linspace(_number(start), _number(stop), int(num), dtype=_type(dtype))


@operation
def eye(num_rows: int, num_columns: int | None = None, dtype: Any = None) -> Any:
    return torch.eye(num_rows, num_rows if num_columns is None else num_columns, dtype=_type(dtype))


@operation(known_as="meshgrid")
def _meshgrid(args: Any) -> Any:
    return list(torch.meshgrid(*args, indexing="ij"))


def meshgrid(*args: Any, name: str | None = None) -> Any:
    """Of several, or of one list of them."""
    return _meshgrid(list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else list(args))


FUNCTIONS["meshgrid"] = meshgrid


@operation(known_as="assign")
def assigned(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.clone()
    array = np.asarray(x)
    kind = torch.float32 if array.dtype == np.float64 else None
    return torch.tensor(array, dtype=kind)


def assign(x: Any, output: Any = None, name: str | None = None) -> Any:
    """A copy; ``output``: what becomes it."""
    return into(call_as(name, "assign", x), output)


FUNCTIONS["assign"] = assign


# --- random ones ---


def generator(seed: int) -> torch.Generator | None:
    """A generator of its own where a script gives a seed; 0: torch's."""
    # While a program is built there are no numbers: torch refuses a generator for them.
    meta = torch.get_default_device().type == "meta"
    return torch.Generator("cpu").manual_seed(seed) if seed and not meta else None


@operation
def uniform(shape: Any, dtype: Any = None, min: float = -1.0, max: float = 1.0, seed: int = 0) -> Any:
    return torch.rand(sides(shape), dtype=_type(dtype), generator=generator(seed)) * (max - min) + min


@operation
def gaussian(shape: Any, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: Any = None) -> Any:
    return torch.randn(sides(shape), dtype=_type(dtype), generator=generator(seed)) * std + mean


@operation
def normal(mean: Any = 0.0, std: Any = 1.0, shape: Any = None) -> Any:
    """``mean`` and ``std`` are numbers, or tensors whose shape the result has."""
    given = [each for each in (mean, std) if isinstance(each, torch.Tensor)]
    if not given:
        return torch.randn(sides([1] if shape is None else shape), dtype=default_dtype()) * std + mean
    if shape is not None:
        raise InvalidArgument("normal: the shape is that of mean or std; give no other")
    return torch.randn_like(given[0]) * std + mean


@operation
def rand(shape: Any, dtype: Any = None) -> Any:
    return torch.rand(sides(shape), dtype=_type(dtype))


@operation
def randn(shape: Any, dtype: Any = None) -> Any:
    return torch.randn(sides(shape), dtype=_type(dtype))


@operation
def standard_normal(shape: Any, dtype: Any = None) -> Any:
    return torch.randn(sides(shape), dtype=_type(dtype))


@operation
def randint(low: int = 0, high: int | None = None, shape: Any = (1,), dtype: Any = None) -> Any:
    begin, end = (0, low) if high is None else (low, high)
    return torch.randint(begin, end, sides(shape), dtype=torch.int64 if dtype is None else as_dtype(dtype))


@operation
def randperm(n: int, dtype: Any = "int64") -> Any:
    return torch.randperm(n, dtype=as_dtype(dtype))


@operation
def bernoulli(x: Any) -> Any:
    return torch.bernoulli(x)


@operation
def multinomial(x: Any, num_samples: int = 1, replacement: bool = False) -> Any:
    return torch.multinomial(x, num_samples, replacement)
