"""Activations."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from flota.errors import InvalidArgument
from flota.paddle.ops.functional import channels_last
from flota.paddle.ops.making import type_or_none
from flota.paddle.ops.registry import operation


@operation
def relu(x: Any) -> Any:
    return torch.relu(x)


@operation
def relu6(x: Any) -> Any:
    return F.relu6(x)


@operation
def sigmoid(x: Any) -> Any:
    return torch.sigmoid(x)


@operation
def log_sigmoid(x: Any) -> Any:
    return F.logsigmoid(x)


@operation
def hardsigmoid(x: Any, slope: float = 0.1666667, offset: float = 0.5) -> Any:
    return torch.clamp(x * slope + offset, 0, 1)


@operation
def tanh(x: Any) -> Any:
    return torch.tanh(x)


@operation
def hardtanh(x: Any, min: float = -1.0, max: float = 1.0) -> Any:
    return F.hardtanh(x, min, max)


@operation
def softmax(x: Any, axis: int = -1, dtype: Any = None) -> Any:
    return torch.softmax(x, axis, dtype=type_or_none(dtype))


@operation
def log_softmax(x: Any, axis: int = -1, dtype: Any = None) -> Any:
    return torch.log_softmax(x, axis, dtype=type_or_none(dtype))


@operation
def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    return F.leaky_relu(x, negative_slope)


@operation
def prelu(x: Any, weight: Any, data_format: str = "NCHW") -> Any:
    if weight.numel() > 1 and channels_last(data_format):
        return torch.where(x > 0, x, x * weight.reshape(-1))
    return F.prelu(x, weight.reshape(-1))


@operation
def elu(x: Any, alpha: float = 1.0) -> Any:
    return F.elu(x, alpha)


@operation
def selu(x: Any, scale: float = 1.0507009873554805, alpha: float = 1.6732632423543772) -> Any:
    return scale * F.elu(x, alpha)


@operation
def gelu(x: Any, approximate: bool = False) -> Any:
    return F.gelu(x, approximate="tanh" if approximate else "none")


@operation
def softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    return F.softplus(x, beta, threshold)


@operation
def softsign(x: Any) -> Any:
    return F.softsign(x)


@operation
def swish(x: Any) -> Any:
    return F.silu(x)


@operation
def silu(x: Any) -> Any:
    return F.silu(x)


@operation
def mish(x: Any) -> Any:
    return F.mish(x)


@operation
def hardswish(x: Any) -> Any:
    return F.hardswish(x)


@operation
def glu(x: Any, axis: int = -1) -> Any:
    return F.glu(x, axis)


@operation
def celu(x: Any, alpha: float = 1.0) -> Any:
    return F.celu(x, alpha)


@operation
def softshrink(x: Any, threshold: float = 0.5) -> Any:
    return F.softshrink(x, threshold)


@operation
def hardshrink(x: Any, threshold: float = 0.5) -> Any:
    return F.hardshrink(x, threshold)


@operation
def tanhshrink(x: Any) -> Any:
    return F.tanhshrink(x)


@operation
def thresholded_relu(x: Any, threshold: float = 1.0) -> Any:
    return torch.where(x > threshold, x, 0.0)


@operation
def maxout(x: Any, groups: int, axis: int = 1) -> Any:
    """The greatest of each ``groups`` channels that stand beside each other."""
    side = axis % x.dim()
    if x.shape[side] % groups:
        raise InvalidArgument(f"maxout: {x.shape[side]} channels do not part into groups of {groups}")
    return x.unflatten(side, (-1, groups)).amax(side + 1)


@operation
def gumbel_softmax(x: Any, temperature: float = 1.0, hard: bool = False, axis: int = -1) -> Any:
    """A soft choice by chance, or with ``hard`` one whose gradient is the soft one's."""
    return F.gumbel_softmax(x, temperature, hard, dim=axis)
