"""Arithmetic and comparisons."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from flota.errors import InvalidArgument
from flota.paddle.ops.registry import FUNCTIONS, call_as, into, operation


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
def floor_divide(x: Any, y: Any, axis: int = -1) -> Any:
    x, y = _tensors(*align(x, y, axis))
    return x // y


@operation
def mod(x: Any, y: Any, axis: int = -1) -> Any:
    return torch.remainder(*_tensors(*align(x, y, axis)))


@operation
def remainder(x: Any, y: Any) -> Any:
    return torch.remainder(*_tensors(x, y))


FUNCTIONS["floor_mod"] = mod


@operation(known_as="pow")
def pow_(x: Any, y: Any, axis: int = -1) -> Any:
    return torch.pow(*_tensors(*align(x, y, axis)))


@operation
def maximum(x: Any, y: Any, axis: int = -1) -> Any:
    return torch.maximum(*align(x, y, axis))


@operation
def minimum(x: Any, y: Any, axis: int = -1) -> Any:
    return torch.minimum(*align(x, y, axis))


@operation
def fmax(x: Any, y: Any) -> Any:
    """The greater; of a number and none, the number."""
    return torch.fmax(x, y)


@operation
def fmin(x: Any, y: Any) -> Any:
    return torch.fmin(x, y)


@operation
def atan2(x: Any, y: Any) -> Any:
    return torch.atan2(x, y)


@operation
def lerp(x: Any, y: Any, weight: Any) -> Any:
    return torch.lerp(x, y, weight)


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
    if act is None:
        return result
    if act not in _ACTIVATIONS:
        raise InvalidArgument(f"scale: act is {', '.join(_ACTIVATIONS)}, not {act!r}")
    return _ACTIVATIONS[act](result)


_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "softmax": partial(F.softmax, dim=-1),
}


@operation(known_as="increment")
def _increment(x: Any, value: float = 1.0) -> Any:
    return x + (value if x.is_floating_point() else int(value))


def increment(x: Any, value: float = 1.0, name: str | None = None) -> Any:
    """Adds to ``x`` itself, and returns it."""
    return into(call_as(name, "increment", x, value), x)


FUNCTIONS["increment"] = increment


@operation
def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    return torch.clamp(x, min, max)


def _each(name: str, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """An operation on each element."""

    def kernel(x: Any) -> Any:
        return function(x)

    kernel.__name__ = kernel.__qualname__ = name
    kernel.__doc__ = function.__doc__ if function.__module__ == __name__ else f"``torch.{name}``."
    return operation(kernel)


def _rounded(x: torch.Tensor) -> torch.Tensor:
    """Halves away from zero; torch's go to the even number."""
    whole = torch.trunc(x)
    return whole + torch.where((x - whole).abs() >= 0.5, torch.sign(x), 0.0)


abs_ = _each("abs", torch.abs)
acos = _each("acos", torch.acos)
asin = _each("asin", torch.asin)
atan = _each("atan", torch.atan)
ceil = _each("ceil", torch.ceil)
cos = _each("cos", torch.cos)
cosh = _each("cosh", torch.cosh)
erf = _each("erf", torch.erf)
exp = _each("exp", torch.exp)
expm1 = _each("expm1", torch.expm1)
floor = _each("floor", torch.floor)
isfinite = _each("isfinite", torch.isfinite)
isinf = _each("isinf", torch.isinf)
isnan = _each("isnan", torch.isnan)
log = _each("log", torch.log)
log10 = _each("log10", torch.log10)
log1p = _each("log1p", torch.log1p)
log2 = _each("log2", torch.log2)
neg = _each("neg", torch.neg)
reciprocal = _each("reciprocal", torch.reciprocal)
round_ = _each("round", _rounded)
rsqrt = _each("rsqrt", torch.rsqrt)
sign = _each("sign", torch.sign)
sin = _each("sin", torch.sin)
sinh = _each("sinh", torch.sinh)
sqrt = _each("sqrt", torch.sqrt)
square = _each("square", torch.square)
tan = _each("tan", torch.tan)


@operation
def trunc(input: Any) -> Any:
    return torch.trunc(input)


@operation
def nan_to_num(x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    return torch.nan_to_num(x, nan, posinf, neginf)


@operation
def logit(x: Any, eps: float | None = None) -> Any:
    return torch.logit(x, eps)


@operation
def stanh(x: Any, scale_a: float = 0.67, scale_b: float = 1.7159) -> Any:
    return scale_b * torch.tanh(scale_a * x)


def _compared(name: str, function: Callable[[Any, Any], torch.Tensor]) -> Any:
    def kernel(x: Any, y: Any) -> Any:
        return function(x, y)

    kernel.__name__ = kernel.__qualname__ = name
    kernel.__doc__ = f"``torch.{function.__name__}``."
    return operation(kernel)


def _decided(name: str, function: Callable[[Any, Any], torch.Tensor]) -> Any:
    compute = _compared(name, function)

    def decided(x: Any, y: Any, out: Any = None, name: str | None = None) -> Any:
        """``out``: what becomes it."""
        return into(compute(x, y, name=name), out)

    FUNCTIONS[name] = decided
    return decided


def _negated(name: str, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    compute = _each(name, function)

    def negated(x: Any, out: Any = None, name: str | None = None) -> Any:
        """``out``: what becomes it."""
        return into(compute(x, name=name), out)

    FUNCTIONS[name] = negated
    return negated


equal = _compared("equal", torch.eq)
not_equal = _compared("not_equal", torch.ne)
less_than = _compared("less_than", torch.lt)
less_equal = _compared("less_equal", torch.le)
greater_than = _compared("greater_than", torch.gt)
greater_equal = _compared("greater_equal", torch.ge)
logical_not = _negated("logical_not", torch.logical_not)
bitwise_not = _negated("bitwise_not", torch.bitwise_not)
logical_and = _decided("logical_and", torch.logical_and)
logical_or = _decided("logical_or", torch.logical_or)
logical_xor = _decided("logical_xor", torch.logical_xor)
bitwise_and = _decided("bitwise_and", torch.bitwise_and)
bitwise_or = _decided("bitwise_or", torch.bitwise_or)
bitwise_xor = _decided("bitwise_xor", torch.bitwise_xor)


@operation
def equal_all(x: Any, y: Any) -> Any:
    """Whether all elements are equal: one truth value."""
    return (x == y).all() if x.shape == y.shape else torch.zeros((), dtype=torch.bool, device=x.device)


@operation
def allclose(x: Any, y: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    return torch.isclose(x, y, float(rtol), float(atol), equal_nan).all()


@operation
def isclose(x: Any, y: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    return torch.isclose(x, y, float(rtol), float(atol), equal_nan)
