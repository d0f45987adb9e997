"""First values of parameters. Each is an operation with its arguments, so that programs can hold it, and the
initialiser of a table's rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from flota import initializer as rows
from flota.errors import InvalidArgument
from flota.paddle.attributes import ParamAttr
from flota.paddle.dtypes import as_dtype
from flota.paddle.ops.registry import OPERATIONS, operation
from flota.paddle.ops.shape import generator

Shape = Sequence[int]


@operation
def truncated_gaussian(
    shape: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, seed: int = 0, dtype: Any = None
) -> Any:
    """Normal, drawn again outside of ``a`` and ``b`` standard deviations."""
    values = torch.empty(tuple(shape), dtype=torch.float32 if dtype is None else as_dtype(dtype))
    return torch.nn.init.trunc_normal_(values, mean, std, mean + a * std, mean + b * std, generator=generator(seed))


class Initializer(ABC):
    """What all share."""

    @abstractmethod
    def how(self, shape: Shape) -> tuple[str, dict[str, Any]]:
        """The operation that makes the values, and its arguments but for shape and type."""

    @abstractmethod
    def for_rows(self, shape: Shape) -> rows.Initializer:
        """The same for a table's rows, which are made one by one."""

    def given_rows(self, shape: Shape) -> np.ndarray | None:
        """Rows that a table begins with, where they do not follow from their ids."""
        return None

    def draw(self, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
        name, arguments = self.how(shape)
        made: torch.Tensor = OPERATIONS[name].kernel(shape=list(shape), dtype=dtype, **arguments)
        return made


class Constant(Initializer):
    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def how(self, shape: Shape) -> tuple[str, dict[str, Any]]:
        return "full", {"fill_value": self.value}

    def for_rows(self, shape: Shape) -> rows.Initializer:
        return rows.Constant(self.value)


class Uniform(Initializer):
    def __init__(self, low: float = -1.0, high: float = 1.0, seed: int = 0) -> None:
        self.low, self.high, self.seed = low, high, seed

    def limits(self, shape: Shape) -> tuple[float, float]:
        return self.low, self.high

    def how(self, shape: Shape) -> tuple[str, dict[str, Any]]:
        low, high = self.limits(shape)
        return "uniform", {"min": low, "max": high, "seed": self.seed}

    def for_rows(self, shape: Shape) -> rows.Initializer:
        return rows.Uniform(*self.limits(shape))


class Normal(Initializer):
    def __init__(self, mean: float = 0.0, std: float = 1.0, seed: int = 0) -> None:
        self.mean, self.std, self.seed = mean, std, seed

    def spread(self, shape: Shape) -> float:
        return self.std

    def how(self, shape: Shape) -> tuple[str, dict[str, Any]]:
        return "gaussian", {"mean": self.mean, "std": self.spread(shape), "seed": self.seed}

    def for_rows(self, shape: Shape) -> rows.Initializer:
        return rows.Normal(self.mean, self.spread(shape))


class TruncatedNormal(Initializer):
    def __init__(self, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, seed: int = 0) -> None:
        self.mean, self.std, self.a, self.b, self.seed = mean, std, a, b, seed

    def how(self, shape: Shape) -> tuple[str, dict[str, Any]]:
        arguments = {"mean": self.mean, "std": self.std, "a": self.a, "b": self.b, "seed": self.seed}
        return "truncated_gaussian", arguments

    def for_rows(self, shape: Shape) -> rows.Initializer:
        return rows.TruncatedNormal(self.mean, self.std, self.mean + self.a * self.std, self.mean + self.b * self.std)


def fans(shape: Shape) -> tuple[float, float]:
    """How many inputs and outputs a weight has: [in, out], or [out, in, …] of a convolution."""
    if len(shape) < 2:
        size = float(shape[0]) if shape else 1.0
        return size, size
    if len(shape) == 2:
        return float(shape[0]), float(shape[1])
    field = float(np.prod(shape[2:]))
    return shape[1] * field, shape[0] * field


class XavierUniform(Uniform):
    def __init__(self, fan_in: float | None = None, fan_out: float | None = None, gain: float = 1.0) -> None:
        super().__init__()
        self.fan_in, self.fan_out, self.gain = fan_in, fan_out, gain

    def limits(self, shape: Shape) -> tuple[float, float]:
        inputs, outputs = fans(shape)
        total = (self.fan_in or inputs) + (self.fan_out or outputs)
        limit = self.gain * math.sqrt(6.0 / total)
        return -limit, limit


class XavierNormal(Normal):
    def __init__(self, fan_in: float | None = None, fan_out: float | None = None, gain: float = 1.0) -> None:
        super().__init__()
        self.fan_in, self.fan_out, self.gain = fan_in, fan_out, gain

    def spread(self, shape: Shape) -> float:
        inputs, outputs = fans(shape)
        return self.gain * math.sqrt(2.0 / ((self.fan_in or inputs) + (self.fan_out or outputs)))


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much what an activation passes on is scaled."""
    gains = {"sigmoid": 1.0, "linear": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 0.75}
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in gains:
        raise InvalidArgument(f"there is no gain of {nonlinearity!r}; there is leaky_relu, {', '.join(gains)}")
    return gains[nonlinearity]


class KaimingUniform(Uniform):
    def __init__(self, fan_in: float | None = None, negative_slope: float = 0.0, nonlinearity: str = "relu") -> None:
        super().__init__()
        self.fan_in = fan_in
        self.gain = calculate_gain(nonlinearity, negative_slope)

    def limits(self, shape: Shape) -> tuple[float, float]:
        limit = self.gain * math.sqrt(3.0 / (self.fan_in or fans(shape)[0]))
        return -limit, limit


class KaimingNormal(Normal):
    def __init__(self, fan_in: float | None = None, negative_slope: float = 0.0, nonlinearity: str = "relu") -> None:
        super().__init__()
        self.fan_in = fan_in
        self.gain = calculate_gain(nonlinearity, negative_slope)

    def spread(self, shape: Shape) -> float:
        return self.gain / math.sqrt(self.fan_in or fans(shape)[0])


class Assign(Initializer):
    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)

    def how(self, shape: Shape) -> tuple[str, dict[str, Any]]:
        if list(self.value.shape) != list(shape):
            raise InvalidArgument(f"Assign: the parameter is {list(shape)}, and the value {list(self.value.shape)}")
        return "assign_value", {"value": self.value}

    def for_rows(self, shape: Shape) -> rows.Initializer:
        return rows.Constant(0.0)  # of ids beyond the given rows, which are set when the table is made

    def given_rows(self, shape: Shape) -> np.ndarray | None:
        if self.value.ndim != 2 or self.value.shape[0] > shape[0] or self.value.shape[1] != shape[1]:
            raise InvalidArgument(f"Assign: the table is {list(shape)}, and the value {list(self.value.shape)}")
        return self.value


@operation
def assign_value(shape: Any, dtype: Any, value: Any) -> Any:
    return torch.tensor(value, dtype=dtype).reshape(tuple(shape))


# --- for all parameters ---


class _Global:
    weight: Initializer | None = None
    bias: Initializer | None = None


def set_global_initializer(weight_init: Initializer | None, bias_init: Initializer | None = None) -> None:
    """From here on weights and biases begin by these, where a script gives no initialiser for them; None: by their
    layers' own."""
    for name, given in (("weight_init", weight_init), ("bias_init", bias_init)):
        if given is not None and not isinstance(given, Initializer):
            raise InvalidArgument(f"set_global_initializer: {name} is an initialiser or None, not {given!r}")
    _Global.weight, _Global.bias = weight_init, bias_init


def first_value(attr: ParamAttr, default: Initializer | None, is_bias: bool) -> Initializer:
    """What a parameter begins with: what the script says of it, of all, what its layer says. Statistics, which are not
    trained, are their layer's business."""
    of_all = (_Global.bias if is_bias else _Global.weight) if attr.trainable else None
    return attr.initializer or of_all or default or (Constant(0.0) if is_bias else XavierUniform())
