"""1.x's layers over sequences that have weights."""

from __future__ import annotations

from typing import Any

from flota.errors import InvalidArgument
from flota.paddle.attributes import as_attr
from flota.paddle.graph import names
from flota.paddle.graph.building import parameter
from flota.paddle.graph.variable import ParameterVariable, Variable
from flota.paddle.initializer import XavierUniform
from flota.paddle.ops.registry import call_as
from flota.paddle.static.layers import activated

__all__ = ["dynamic_gru", "dynamic_lstm", "sequence_conv"]


def _weight(layer: str, attr: Any, shape: list[int], dtype: Any) -> ParameterVariable:
    given = as_attr(attr)
    if given is None:
        raise InvalidArgument(f"{layer}: a layer needs its weight; param_attr=False would leave none")
    return parameter(given, shape, dtype, f"{layer}.w", XavierUniform())


def _bias(layer: str, attr: Any, shape: list[int], dtype: Any) -> ParameterVariable | None:
    given = as_attr(attr)
    return None if given is None else parameter(given, shape, dtype, f"{layer}.b", is_bias=True)


def dynamic_gru(
    input: Variable,
    size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    candidate_activation: str = "tanh",
    h_0: Any = None,
    origin_mode: bool = False,
) -> Any:
    """The hidden state after each value of sequences whose rows, of ``3 * size`` numbers, an ``fc`` has made."""
    layer = names.generate("gru")
    weight = _weight(layer, param_attr, [size, 3 * size], input.dtype)
    bias = _bias(layer, bias_attr, [1, 3 * size], input.dtype)
    given = h_0, is_reverse, gate_activation, candidate_activation, origin_mode
    return call_as(layer, "dynamic_gru", input, weight, bias, *given)


def dynamic_lstm(
    input: Variable,
    size: int,
    h_0: Any = None,
    c_0: Any = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    dtype: Any = "float32",
    name: str | None = None,
) -> Any:
    """The hidden state and the cell after each value of sequences whose rows an ``fc`` has made. They have ``size``
    numbers, four times as many as the hidden state."""
    if size % 4:
        raise InvalidArgument(f"dynamic_lstm: size is four times the hidden state's, not {size}")
    if (h_0 is None) != (c_0 is None):
        raise InvalidArgument("dynamic_lstm: give h_0 and c_0, or neither")
    layer = name or names.generate("lstm")
    hidden = size // 4
    weight = _weight(layer, param_attr, [hidden, size], dtype)
    if as_attr(bias_attr) is None:
        raise InvalidArgument("dynamic_lstm: it needs its bias; bias_attr=False would leave none")
    bias = _bias(layer, bias_attr, [1, (7 if use_peepholes else 4) * hidden], dtype)
    given = h_0, c_0, use_peepholes, is_reverse, gate_activation, cell_activation, candidate_activation
    return call_as(layer, "dynamic_lstm", input, weight, bias, *given)


def sequence_conv(
    input: Variable,
    num_filters: int,
    filter_size: int = 3,
    filter_stride: int = 1,
    padding: bool = True,
    padding_start: int | None = None,
    bias_attr: Any = None,
    param_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Any:
    """A convolution along each sequence, over ``filter_size`` values. ``padding_start``: where the first of them is,
    seen from the value; else the value is in the middle. Beyond the ends there are zeros."""
    if filter_stride != 1:
        raise InvalidArgument(f"sequence_conv: filter_stride is 1, not {filter_stride}")
    if padding is not True:
        raise InvalidArgument("sequence_conv: beyond a sequence's ends there are zeros: leave padding out")
    layer = name or names.generate("sequence_conv")
    start = -(filter_size // 2) if padding_start is None else padding_start
    weight = _weight(layer, param_attr, [filter_size * input.shape[1], num_filters], input.dtype)
    result = call_as(layer, "sequence_conv", input, weight, start, filter_size)
    bias = _bias(layer, bias_attr, [num_filters], input.dtype)
    return activated(result if bias is None else call_as(layer, "add", result, bias), act, layer)
