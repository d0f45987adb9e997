"""Arithmetic, comparisons and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from flota.paddle.dtypes import as_dtype
from flota.paddle.ops.registry import operation

Axis = int | list[int] | tuple[int, ...] | None


def align(x: Any, y: Any, axis: int) -> tuple[Any, Any]:
    """1.x: the sides of ``y`` stand beside those of ``x`` from ``axis`` on; -1: at the end."""
    if axis == -1 or not isinstance(y, torch.Tensor) or not isinstance(x, torch.Tensor) or y.dim() >= x.dim():
        return x, y
    return x, y.reshape(*y.shape, *[1] * (x.dim() - axis - y.dim()))


def _tensors(x: Any, y: Any) -> tuple[Any, Any]:
    """A plain number takes the tensor's type, unless that would cut it."""
    if isinstance(x, torch.Tensor) and isinstance(y, float) and not x.is_floating_point():
        return x.to(torch.float32), y
    if isinstance(y, torch.Tensor) and isinstance(x, float) and not y.is_floating_point():
        return x, y.to(torch.float32)
    return x, y


def _is_whole(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and not x.is_floating_point()


@operation
def add(x: Any, y: Any, axis: int = -1) -> Any:
    x, y = _tensors(*align(x, y, axis))
    return x + y


@operation
def subtract(x: Any, y: Any, axis: int = -1) -> Any:
    x, y = _tensors(*align(x, y, axis))
    return x - y


@operation
def multiply(x: Any, y: Any, axis: int = -1) -> Any:
    x, y = _tensors(*align(x, y, axis))
    return x * y


@operation
def divide(x: Any, y: Any, axis: int = -1) -> Any:
    x, y = align(x, y, axis)
    if _is_whole(x) and _is_whole(y):
        return torch.div(x, y, rounding_mode="trunc")
    x, y = _tensors(x, y)
    return x / y


@operation
def floor_divide(x: Any, y: Any) -> Any:
    return torch.floor_divide(x, y) if isinstance(x, torch.Tensor) else torch.floor_divide(torch.as_tensor(x), y)


@operation
def mod(x: Any, y: Any) -> Any:
    return torch.remainder(x, y)


@operation(known_as="pow")
def pow_(x: Any, y: Any) -> Any:
    return torch.pow(x, y)


@operation
def maximum(x: Any, y: Any) -> Any:
    return torch.maximum(x, y)


@operation
def minimum(x: Any, y: Any) -> Any:
    return torch.minimum(x, y)


@operation
def add_n(inputs: Any) -> Any:
    if isinstance(inputs, torch.Tensor):
        return inputs
    total = inputs[0]
    for each in inputs[1:]:
        total = total + each
    return total


@operation
def scale(x: Any, scale: Any = 1.0, bias: float = 0.0, bias_after_scale: bool = True, act: str | None = None) -> Any:
    result = x * scale + bias if bias_after_scale else (x + bias) * scale
    result = result if x.is_floating_point() else result.to(x.dtype)
    return result if act is None else getattr(torch, act)(result)


@operation
def matmul(x: Any, y: Any, transpose_x: bool = False, transpose_y: bool = False, alpha: float = 1.0) -> Any:
    x = x.mT if transpose_x and x.dim() > 1 else x
    y = y.mT if transpose_y and y.dim() > 1 else y
    product = torch.matmul(x, y)
    return product if alpha == 1.0 else product * alpha


@operation
def mul(x: Any, y: Any, x_num_col_dims: int = 1, y_num_col_dims: int = 1) -> Any:
    """Both as matrices: the first so many sides are rows, the rest columns."""
    left = x.flatten(x_num_col_dims).flatten(0, x_num_col_dims - 1)
    right = y.flatten(y_num_col_dims).flatten(0, y_num_col_dims - 1)
    product = left @ right
    return product.reshape(*x.shape[:x_num_col_dims], *y.shape[y_num_col_dims:])


@operation
def bmm(x: Any, y: Any) -> Any:
    return torch.bmm(x, y)


@operation
def mm(input: Any, mat2: Any) -> Any:
    return torch.matmul(input, mat2)


@operation
def dot(x: Any, y: Any) -> Any:
    return (x * y).sum(-1)


@operation
def einsum(equation: str, *operands: Any) -> Any:
    return torch.einsum(equation, *operands)


@operation
def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    return torch.clamp(x, min, max)


def _each(name: str, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """An operation on each element."""

    def kernel(x: Any) -> Any:
        return function(x)

    kernel.__name__ = kernel.__qualname__ = name
    kernel.__doc__ = f"``torch.{name}``."
    return operation(kernel)


abs_ = _each("abs", torch.abs)
ceil = _each("ceil", torch.ceil)
cos = _each("cos", torch.cos)
erf = _each("erf", torch.erf)
exp = _each("exp", torch.exp)
floor = _each("floor", torch.floor)
isfinite = _each("isfinite", torch.isfinite)
isinf = _each("isinf", torch.isinf)
isnan = _each("isnan", torch.isnan)
log = _each("log", torch.log)
log10 = _each("log10", torch.log10)
log1p = _each("log1p", torch.log1p)
log2 = _each("log2", torch.log2)
logical_not = _each("logical_not", torch.logical_not)
reciprocal = _each("reciprocal", torch.reciprocal)
round_ = _each("round", torch.round)
rsqrt = _each("rsqrt", torch.rsqrt)
sign = _each("sign", torch.sign)
sin = _each("sin", torch.sin)
sqrt = _each("sqrt", torch.sqrt)
square = _each("square", torch.square)


def _compared(name: str, function: Callable[[Any, Any], torch.Tensor]) -> Any:
    def kernel(x: Any, y: Any) -> Any:
        return function(x, y)

    kernel.__name__ = kernel.__qualname__ = name
    kernel.__doc__ = f"``torch.{function.__name__}``."
    return operation(kernel)


equal = _compared("equal", torch.eq)
not_equal = _compared("not_equal", torch.ne)
less_than = _compared("less_than", torch.lt)
less_equal = _compared("less_equal", torch.le)
greater_than = _compared("greater_than", torch.gt)
greater_equal = _compared("greater_equal", torch.ge)
logical_and = _compared("logical_and", torch.logical_and)
logical_or = _compared("logical_or", torch.logical_or)
logical_xor = _compared("logical_xor", torch.logical_xor)


# --- reductions ---


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


@operation(known_as="max")
def max_(x: Any, axis: Axis = None, keepdim: bool = False) -> Any:
    return torch.amax(x, _sides(x, axis), keepdim)


@operation(known_as="min")
def min_(x: Any, axis: Axis = None, keepdim: bool = False) -> Any:
    return torch.amin(x, _sides(x, axis), keepdim)


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
    return torch.linalg.vector_norm(x, 2 if p == "fro" else p, _sides(x, axis), keepdim)
