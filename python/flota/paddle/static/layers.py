"""Layers of ``paddle.static.nn`` that normalise, convolve and activate."""

from __future__ import annotations

import math
from typing import Any

from flota.errors import InvalidArgument
from flota.paddle.attributes import ParamAttr, as_attr
from flota.paddle.graph import names
from flota.paddle.graph.building import parameter
from flota.paddle.graph.variable import ParameterVariable, Variable
from flota.paddle.initializer import Constant, Initializer, Normal
from flota.paddle.nn.norm import batch_norm as normalised
from flota.paddle.ops.registry import OPERATIONS, call, call_as


def activated(x: Any, activation: str | None, name: str | None = None) -> Any:
    """The activation of this name. ``name``: the layer that has it."""
    if activation is None:
        return x
    if activation not in OPERATIONS:
        raise InvalidArgument(f"there is no activation {activation!r}")
    return call_as(name, activation, x)


def _made(
    layer: str, attr: Any, shape: list[int], x: Variable, first: Initializer | None = None, is_bias: bool = False
) -> ParameterVariable | None:
    given = as_attr(attr)
    if given is None:
        return None
    return parameter(given, shape, x.dtype, f"{layer}.{'b' if is_bias else 'w'}", first, is_bias=is_bias)


def layer_norm(
    input: Variable,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Any:
    """Each sample by the mean and variance of its sides from ``begin_norm_axis`` on."""
    layer = name or names.generate("layer_norm")
    sides = list(input.shape[begin_norm_axis:])
    size = math.prod(sides)
    if any(side < 0 for side in sides):
        raise InvalidArgument(f"layer_norm: {input.name} {list(input.shape)} has sides that the batch decides")
    weight = _made(layer, param_attr, [size], input, Constant(1.0)) if scale else None
    bias = _made(layer, bias_attr, [size], input, is_bias=True) if shift else None
    return activated(call_as(layer, "layer_norm", input, sides, weight, bias, epsilon=epsilon), act, layer)


def batch_norm(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
) -> Any:
    """Normalised by the batch in training, else by the running mean and variance. ``in_place`` is a matter of memory,
    which torch decides."""
    layer = name or names.generate("batch_norm")
    width = [int(input.shape[1 if data_layout == "NCHW" or len(input.shape) == 2 else -1])]
    weight = _made(layer, param_attr, width, input, Constant(1.0))
    bias = _made(layer, bias_attr, width, input, is_bias=True)
    mean, variance = (
        _made(layer, _statistic(own, do_model_average_for_mean_and_var), width, input, Constant(first))
        for own, first in ((moving_mean_name, 0.0), (moving_variance_name, 1.0))
    )
    shared = True if use_global_stats else None
    result = normalised(
        input, mean, variance, weight, bias, not is_test, momentum, epsilon, data_layout, use_global_stats=shared
    )
    return activated(result, act, layer)


def _statistic(name: str | None, averaged: bool) -> ParamAttr:
    return ParamAttr(name=name, trainable=False, do_model_average=averaged)


def conv2d(
    input: Variable,
    num_filters: int,
    filter_size: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Any:
    """``use_cudnn``: what computes it is torch's choice."""
    layer = name or names.generate("conv2d")
    channels = int(input.shape[1 if data_format == "NCHW" else -1])
    sizes = [filter_size] * 2 if isinstance(filter_size, int) else list(filter_size)
    first = Normal(0.0, math.sqrt(2.0 / (math.prod(sizes) * channels)))
    weight = _made(layer, param_attr, [num_filters, channels // (groups or 1), *sizes], input, first)
    if weight is None:
        raise InvalidArgument("conv2d: a layer needs its weight; param_attr=False would leave none")
    bias = _made(layer, bias_attr, [num_filters], input, is_bias=True)
    given = (stride, padding, dilation, groups or 1, data_format)
    return activated(call_as(layer, "conv2d", input, weight, bias, *given), act, layer)


def prelu(x: Variable, mode: str, param_attr: Any = None, data_format: str = "NCHW", name: str | None = None) -> Any:
    """Negative values times a weight that is learnt: one for ``all``, one for each ``channel``, or for each
    ``element``."""
    layer = name or names.generate("prelu")
    channel = [1, *x.shape[1:2], 1, 1] if data_format == "NCHW" else [1, 1, 1, x.shape[-1]]
    shapes = {"all": [1], "channel": channel, "element": [1, *x.shape[1:]]}
    if mode not in shapes:
        raise InvalidArgument(f"prelu: mode is all, channel or element, not {mode!r}")
    weight = _made(layer, param_attr, shapes[mode], x, Constant(0.25))
    if mode == "element":
        return call("where", call("greater_than", x, 0.0), x, call("multiply", x, weight))
    return call_as(layer, "prelu", x, weight, data_format=data_format)
