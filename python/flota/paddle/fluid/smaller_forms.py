"""1.x's functions that 2.x has only as several, or in another form: activations, tests, pooling, drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flota.errors import InvalidArgument
from flota.paddle.attributes import as_attr
from flota.paddle.dtypes import as_dtype
from flota.paddle.graph import names
from flota.paddle.graph.building import parameter
from flota.paddle.graph.variable import Variable
from flota.paddle.ops.registry import call, call_as
from flota.paddle.static.layers import activated
from flota.paddle.static.python_functions import py_func

__all__ = [
    "bilinear_tensor_product",
    "brelu",
    "clip_by_norm",
    "dice_loss",
    "gaussian_random_batch_size_like",
    "hard_shrink",
    "hard_swish",
    "has_inf",
    "has_nan",
    "log_softmax",
    "pool2d",
    "py_func",
    "sampling_id",
    "soft_relu",
    "softshrink",
    "tanh_shrink",
    "tril",
    "triu",
]

# --- activations ---


def brelu(x: Any, t_min: float = 0.0, t_max: float = 24.0, name: str | None = None) -> Any:
    return call("clip", x, t_min, t_max)


def soft_relu(x: Any, threshold: float = 40.0, name: str | None = None) -> Any:
    """``log(1 + exp(x))``, ``x`` no farther from 0 than the threshold."""
    return call("log1p", call("exp", call("clip", x, -threshold, threshold)))


def hard_swish(x: Any, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0, name: str | None = None) -> Any:
    """``x`` times ``x + offset`` between 0 and the threshold, divided by ``scale``."""
    return call("scale", call("multiply", x, call("clip", call("add", x, offset), 0.0, threshold)), 1.0 / scale)


def hard_shrink(x: Any, threshold: float = 0.5) -> Any:
    return call("hardshrink", x, threshold)


def softshrink(x: Any, alpha: float = 0.5) -> Any:
    return call("softshrink", x, alpha)


def tanh_shrink(x: Any, name: str | None = None) -> Any:
    return call("subtract", x, call("tanh", x))


def log_softmax(input: Any, axis: int | None = None, dtype: Any = None, name: str | None = None) -> Any:
    return call("log_softmax", input, -1 if axis is None else axis, dtype)


# --- numbers and shapes ---


def tril(input: Any, diagonal: int = 0, name: str | None = None) -> Any:
    return call("tril", input, diagonal)


def triu(input: Any, diagonal: int = 0, name: str | None = None) -> Any:
    return call("triu", input, diagonal)


def clip_by_norm(x: Any, max_norm: float, name: str | None = None) -> Any:
    """No longer than ``max_norm``."""
    length = call("sqrt", call("sum", call("square", x)))
    return call("multiply", x, call("divide", max_norm, call("clip", length, max_norm)))


def has_inf(x: Any) -> Any:
    return call("any", call("isinf", x))


def has_nan(x: Any) -> Any:
    return call("any", call("isnan", x))


def dice_loss(input: Any, label: Any, epsilon: float = 1e-5, name: str | None = None) -> Any:
    """How little probabilities of classes, [samples, …, classes], and numbers of classes overlap."""
    wanted = call("one_hot", call("squeeze", label, [-1]), int(input.shape[-1]))
    sides = list(range(1, len(input.shape)))
    both = call("sum", call("multiply", input, wanted), sides)
    either = call("add", call("sum", input, sides), call("sum", wanted, sides))
    return call("mean", 1 - both * 2 / (either + epsilon))


def gaussian_random_batch_size_like(
    input: Any,
    shape: Sequence[int],
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: Any = "float32",
) -> Any:
    """Random numbers in this shape, a side of which is that of ``input``."""
    whole: list[Any] = list(shape)
    whole[output_dim_idx] = call("shape", input)[input_dim_idx]
    return call("gaussian", whole, mean, std, seed, as_dtype(dtype))


def sampling_id(x: Any, min: float = 0.0, max: float = 1.0, seed: int = 0, dtype: Any = "float32") -> Any:
    """One number of a class for each row of chances, drawn by them."""
    if (min, max) != (0.0, 1.0) or seed:
        raise InvalidArgument(
            "sampling_id draws by the rows' chances: leave min, max and seed out; paddle.seed seeds it"
        )
    return call("squeeze", call("multinomial", x, 1), [-1])


# --- layers ---


def pool2d(
    input: Any,
    pool_size: Any = -1,
    pool_type: str = "max",
    pool_stride: Any = 1,
    pool_padding: Any = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCHW",
) -> Any:
    """The greatest (``max``) or the mean (``avg``) of each window, or of the whole. ``use_cudnn``: what computes it is
    torch's choice."""
    if pool_type not in ("max", "avg"):
        raise InvalidArgument(f"pool2d: pool_type is max or avg, not {pool_type!r}")
    if global_pooling:
        sides = [2, 3] if data_format == "NCHW" else [1, 2]
        return call("max" if pool_type == "max" else "mean", input, sides, keepdim=True)
    if pool_size == -1:
        raise InvalidArgument("pool2d: give pool_size, or global_pooling=True")
    given = input, pool_size, pool_stride, pool_padding
    if pool_type == "max":
        return call("max_pool2d", *given, ceil_mode=ceil_mode, data_format=data_format)
    return call("avg_pool2d", *given, ceil_mode=ceil_mode, exclusive=exclusive, data_format=data_format)


def bilinear_tensor_product(
    x: Variable,
    y: Variable,
    size: int,
    act: str | None = None,
    name: str | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
) -> Any:
    """``size`` numbers for each sample: ``x``, a matrix and ``y``, multiplied, for each of them."""
    layer = name or names.generate("bilinear_tensor_product")
    attr, bias = as_attr(param_attr), as_attr(bias_attr)
    if attr is None:
        raise InvalidArgument("bilinear_tensor_product: a layer needs its weight; param_attr=False would leave none")
    weight = parameter(attr, [size, int(x.shape[1]), int(y.shape[1])], x.dtype, f"{layer}.w")
    shift = None if bias is None else parameter(bias, [1, size], x.dtype, f"{layer}.b", is_bias=True)
    return activated(call_as(layer, "bilinear", x, y, weight, shift), act, layer)
