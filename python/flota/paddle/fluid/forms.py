"""Functions of tensors in 1.x's form: by other arguments, or with other results, than those of the same name in 2.x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flota.errors import InvalidArgument
from flota.paddle.dtypes import as_dtype
from flota.paddle.graph.building import kept
from flota.paddle.graph.program import default_main_program
from flota.paddle.ops.registry import FUNCTIONS, call, into

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "assign",
    "autoincreased_step_counter",
    "cumsum",
    "dropout",
    "elu",
    "expand",
    "expand_as",
    "fill_constant_batch_size_like",
    "flatten",
    "gather",
    "gaussian_random",
    "hard_sigmoid",
    "increment",
    "kldiv_loss",
    "l2_normalize",
    "leaky_relu",
    "logsigmoid",
    "mse_loss",
    "one_hot",
    "ones",
    "ones_like",
    "pad",
    "pow",
    "range",
    "reverse",
    "scatter",
    "sequence_expand",
    "size",
    "softmax",
    "split",
    "squeeze",
    "sum",
    "swish",
    "topk",
    "uniform_random",
    "uniform_random_batch_size_like",
    "unsqueeze",
    "zeros",
    "zeros_like",
]

# --- making ---


def ones(shape: Any, dtype: Any, force_cpu: bool = False) -> Any:
    """``force_cpu``: where it is made; here, as in all of these, it is the CPU."""
    return call("ones", shape, as_dtype(dtype))


def zeros(shape: Any, dtype: Any, force_cpu: bool = False, name: str | None = None) -> Any:
    return call("zeros", shape, as_dtype(dtype))


def ones_like(x: Any, out: Any = None) -> Any:
    return into(call("ones_like", x), out)


def zeros_like(x: Any, out: Any = None) -> Any:
    return into(call("zeros_like", x), out)


def fill_constant_batch_size_like(
    input: Any,
    shape: Sequence[int],
    dtype: Any,
    value: Any,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    force_cpu: bool = False,
) -> Any:
    """One value in this shape, a side of which is that of ``input``."""
    whole: list[Any] = list(shape)
    whole[output_dim_idx] = call("shape", input)[input_dim_idx]
    return call("full", whole, value, as_dtype(dtype))


def range(start: Any, end: Any, step: Any, dtype: Any, name: str | None = None) -> Any:
    return call("arange", start, end, step, as_dtype(dtype))


def uniform_random(
    shape: Any, dtype: Any = "float32", min: float = -1.0, max: float = 1.0, seed: int = 0, name: str | None = None
) -> Any:
    return call("uniform", shape, as_dtype(dtype), min, max, seed)


def uniform_random_batch_size_like(
    input: Any,
    shape: Sequence[int],
    dtype: Any = "float32",
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
) -> Any:
    """Random numbers in this shape, a side of which is that of ``input``."""
    whole: list[Any] = list(shape)
    whole[output_dim_idx] = call("shape", input)[input_dim_idx]
    return call("uniform", whole, as_dtype(dtype), min, max, seed)


def gaussian_random(
    shape: Any, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: Any = "float32", name: str | None = None
) -> Any:
    return call("gaussian", shape, mean, std, seed, as_dtype(dtype))


def assign(input: Any, output: Any = None) -> Any:
    return FUNCTIONS["assign"](input, output)


def increment(x: Any, value: float = 1.0, in_place: bool = True) -> Any:
    return FUNCTIONS["increment"](x, value) if in_place else call("add", x, value)


def autoincreased_step_counter(counter_name: str | None = None, begin: int = 1, step: int = 1) -> Any:
    """How often the program was run: ``begin`` in the first run, and ``step`` more in each other. One of the same name
    is the same, and counts once."""
    name = counter_name or "@STEP_COUNTER@"
    known = default_main_program().variables.get(name)
    return known if known is not None else increment(kept(name, [1], as_dtype("int64"), begin - step), step)


# --- shapes ---


def size(input: Any) -> Any:
    """How many numbers there are."""
    return call("numel", input)


def squeeze(input: Any, axes: Sequence[int], name: str | None = None) -> Any:
    return call("squeeze", input, axes)


def unsqueeze(input: Any, axes: Any, name: str | None = None) -> Any:
    return call("unsqueeze", input, axes)


def split(input: Any, num_or_sections: Any, dim: int = -1, name: str | None = None) -> Any:
    return call("split", input, num_or_sections, dim)


def expand(x: Any, expand_times: Any, name: str | None = None) -> Any:
    """As often along each side."""
    return call("tile", x, expand_times)


def expand_as(x: Any, target_tensor: Any, name: str | None = None) -> Any:
    """As often along each side as the target's has it."""
    return call("tile_as", x, target_tensor)


def flatten(x: Any, axis: int = 1, name: str | None = None) -> Any:
    """A matrix: the first ``axis`` sides are its rows."""
    return call("flatten_to_matrix", x, axis)


def reverse(x: Any, axis: Any) -> Any:
    return call("flip", x, axis)


def pad(x: Any, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None) -> Any:
    return call("pad", x, paddings, "constant", pad_value)


def gather(input: Any, index: Any, overwrite: bool = True) -> Any:
    """``overwrite`` is a matter of the gradient's making: rows that are taken twice have the sum."""
    return call("gather", input, index)


def scatter(input: Any, index: Any, updates: Any, name: str | None = None, overwrite: bool = True) -> Any:
    return call("scatter", input, index, updates, overwrite)


def one_hot(input: Any, depth: int, allow_out_of_range: bool = False) -> Any:
    """A last side of one becomes the classes'."""
    if allow_out_of_range:
        raise InvalidArgument("one_hot: allow_out_of_range is not known here; clip the ids first")
    flat = call("squeeze", input, [-1]) if input.shape[-1] == 1 else input
    return call("one_hot", flat, depth)


def sequence_expand(x: Any, y: Any, ref_level: int = -1, name: str | None = None) -> Any:
    """Row i of ``x``, as often as sequence i of ``y`` is long."""
    if x.lod_level or ref_level not in (-1, 0):
        raise InvalidArgument("sequence_expand: x has one row for each sequence of y, and sequences have one level")
    return call("sequence_expand_as", x, y)


# --- numbers ---


def sum(x: Any) -> Any:
    """Of all the inputs, element by element."""
    return call("add_n", x)


def pow(x: Any, factor: Any = 1.0, name: str | None = None) -> Any:
    return call("pow", x, factor)


def cumsum(x: Any, axis: int | None = None, exclusive: bool = False, reverse: bool = False) -> Any:
    """``exclusive``: without the element itself. ``reverse``: from the end."""
    along = -1 if axis is None else axis
    ordered = call("flip", x, along) if reverse else x
    total = call("cumsum", ordered, along)
    total = call("subtract", total, ordered) if exclusive else total
    return call("flip", total, along) if reverse else total


def l2_normalize(x: Any, axis: int, epsilon: float = 1e-12, name: str | None = None) -> Any:
    squares = call("sum", call("square", x), 0 if len(x.shape) == 1 else axis, None, True)
    return call("divide", x, call("sqrt", call("add", squares, epsilon)))


def topk(input: Any, k: Any, name: str | None = None) -> Any:
    return call("topk", input, k)


def argmax(x: Any, axis: int = 0) -> Any:
    return call("argmax", x, axis)


def argmin(x: Any, axis: int = 0) -> Any:
    return call("argmin", x, axis)


def argsort(input: Any, axis: int = -1, descending: bool = False, name: str | None = None) -> Any:
    """The elements in order, and the places where they were."""
    return call("sort", input, axis, descending), call("argsort", input, axis, descending)


# --- activations and losses ---


def softmax(input: Any, use_cudnn: bool = False, name: str | None = None, axis: int = -1) -> Any:
    """``use_cudnn``: what computes it is torch's choice."""
    return call("softmax", input, axis)


def leaky_relu(x: Any, alpha: float = 0.02, name: str | None = None) -> Any:
    return call("leaky_relu", x, alpha)


def logsigmoid(x: Any, name: str | None = None) -> Any:
    return call("log_sigmoid", x)


def elu(x: Any, alpha: float = 1.0, name: str | None = None) -> Any:
    return call("elu", x, alpha)


def swish(x: Any, beta: float = 1.0, name: str | None = None) -> Any:
    return call("multiply", x, call("sigmoid", call("scale", x, beta)))


def hard_sigmoid(x: Any, slope: float = 0.2, offset: float = 0.5, name: str | None = None) -> Any:
    return call("hardsigmoid", x, slope, offset)


def dropout(
    x: Any,
    dropout_prob: float,
    is_test: bool = False,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Any:
    """As drawn in training; when the program is for testing, all values smaller by the part that is dropped, unless
    ``upscale_in_train`` has made up for it."""
    if seed is not None:
        raise InvalidArgument("dropout: a seed of its own is not known here; seed the whole by paddle.seed")
    modes = {"downgrade_in_infer": "downscale_in_infer", "upscale_in_train": "upscale_in_train"}
    if dropout_implementation not in modes:
        raise InvalidArgument(f"dropout_implementation is {' or '.join(modes)}, not {dropout_implementation!r}")
    return call("dropout", x, dropout_prob, None, not is_test, modes[dropout_implementation])


def mse_loss(input: Any, label: Any) -> Any:
    return call("mse_loss", input, label)


def kldiv_loss(x: Any, target: Any, reduction: str = "mean", name: str | None = None) -> Any:
    return call("kl_div", x, target, reduction)
