"""``fluid.layers``: 1.x's names and arguments for what 2.x has elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flota.paddle.dtypes import as_dtype
from flota.paddle.fluid import forms, readers, sampled_layers, sequence_layers, smaller_forms
from flota.paddle.graph.building import create_global_var
from flota.paddle.graph.building import data as data_v2
from flota.paddle.graph.variable import Variable
from flota.paddle.names import not_there
from flota.paddle.nn.parameter import create_parameter
from flota.paddle.ops.metrics import Print
from flota.paddle.ops.registry import FUNCTIONS, call, into
from flota.paddle.optimizer import lr
from flota.paddle.static import nn
from flota.paddle.static.metrics import accuracy, auc
from flota.paddle.static.nn import activated, sequence_pool

__all__ = [
    "Print",
    "accuracy",
    "auc",
    "cast",
    "concat",
    "create_global_var",
    "create_parameter",
    "cross_entropy",
    "data",
    "elementwise_add",
    "elementwise_div",
    "elementwise_floordiv",
    "elementwise_max",
    "elementwise_min",
    "elementwise_mod",
    "elementwise_mul",
    "elementwise_pow",
    "elementwise_sub",
    "embedding",
    "fc",
    "fill_constant",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "reshape",
    "sequence_pool",
    "sums",
]

# Functions whose names and arguments have stayed.
_SAME = frozenset(
    """
    abs acos asin atan bpr_loss ceil clip cos cos_sim cosh diag equal erf exp eye floor gather_nd gelu greater_equal
    greater_than huber_loss is_empty isfinite label_smooth less_equal less_than linspace lod_reset log log_loss
    logical_and logical_not logical_or logical_xor margin_rank_loss matmul maxout mean mul multiplex not_equal
    npair_loss rank rank_loss reciprocal relu relu6 round rsqrt scale scatter_nd scatter_nd_add selu
    sequence_enumerate sequence_mask sequence_reshape sequence_slice shape shard_index sigmoid
    sigmoid_cross_entropy_with_logits sign sin sinh slice smooth_l1 softmax_with_cross_entropy softplus softsign sqrt
    square square_error_cost stack stanh strided_slice tanh teacher_student_sigmoid_loss thresholded_relu transpose
    unstack where
    """.split()  # noqa: SIM905 (one word a function, in as few lines as they need)
)

# Where the others are.
_MODULES = (forms, smaller_forms, nn, readers, sequence_layers, sampled_layers)
_RATES = frozenset(name for name in lr.__all__ if name.endswith("_decay")) | {"linear_lr_warmup"}


def __getattr__(name: str) -> Any:
    for module in _MODULES:
        if name in module.__all__:
            return getattr(module, name)
    if name in _SAME and name in FUNCTIONS:
        return FUNCTIONS[name]
    if name in _RATES:
        return getattr(lr, name)
    raise AttributeError(not_there("fluid.layers", name, __dir__()))


def __dir__() -> list[str]:
    listed = (each for module in _MODULES for each in module.__all__)
    return sorted({*__all__, *listed, *(name for name in _SAME if name in FUNCTIONS), *_RATES})


def data(
    name: str,
    shape: Sequence[int],
    append_batch_size: bool = True,
    dtype: Any = "float32",
    lod_level: int = 0,
    type: Any = None,
    stop_gradient: bool = True,
) -> Variable:
    """An input. ``shape`` is that of one sample, unless it says where the batch is."""
    whole = [-1, *shape] if append_batch_size and min(shape, default=0) >= 0 else list(shape)
    made = data_v2(name, whole, dtype, lod_level)
    made.stop_gradient = stop_gradient
    return made


def fc(
    input: Any,
    size: int,
    num_flatten_dims: int = 1,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Any:
    return nn.fc(input, size, num_flatten_dims, param_attr, bias_attr, act, name)


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Any:
    """A row for each id; a last side of one becomes the row's."""
    return nn.embedding(input, size, is_sparse, is_distributed, padding_idx, param_attr, dtype, squeezes=True)


def cross_entropy(input: Any, label: Any, soft_label: bool = False, ignore_index: int = -100) -> Any:
    """Of probabilities, for each sample."""
    return call("cross_entropy_of_probabilities", input, label, soft_label, ignore_index)


def concat(input: Any, axis: int = 0, name: str | None = None) -> Any:
    return call("concat", input, axis)


def cast(x: Any, dtype: Any) -> Any:
    return call("cast", x, as_dtype(dtype))


def reshape(x: Any, shape: Any, actual_shape: Any = None, act: str | None = None, inplace: bool = False) -> Any:
    return activated(call("reshape", x, shape if actual_shape is None else actual_shape), act)


def sums(input: Any, out: Any = None) -> Any:
    return into(call("add_n", input), out)


def fill_constant(shape: Any, dtype: Any, value: Any, force_cpu: bool = False, out: Any = None) -> Any:
    return into(call("full", shape, value, as_dtype(dtype)), out)


def reduce_sum(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    return call("sum", input, dim, None, keep_dim)


def reduce_mean(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    return call("mean", input, dim, keep_dim)


def reduce_max(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    return call("max", input, dim, keep_dim)


def reduce_min(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    return call("min", input, dim, keep_dim)


def reduce_prod(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    return call("prod", input, dim, keep_dim)


def reduce_all(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    return call("all", input, dim, keep_dim)


def reduce_any(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    return call("any", input, dim, keep_dim)


def elementwise_add(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    return activated(call("add", x, y, axis), act)


def elementwise_sub(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    return activated(call("subtract", x, y, axis), act)


def elementwise_mul(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    return activated(call("multiply", x, y, axis), act)


def elementwise_div(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    return activated(call("divide", x, y, axis), act)


def elementwise_max(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    return activated(call("maximum", x, y, axis), act)


def elementwise_min(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    return activated(call("minimum", x, y, axis), act)


def elementwise_pow(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    return activated(call("pow", x, y, axis), act)


def elementwise_mod(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    return activated(call("mod", x, y, axis), act)


def elementwise_floordiv(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    return activated(call("floor_divide", x, y, axis), act)
