"""Activations as layers."""

from __future__ import annotations

from typing import Any

from flota.paddle.initializer import Constant
from flota.paddle.nn.layer import Layer
from flota.paddle.ops.registry import call


class _Activation(Layer):
    """An operation by its name, with the layer's ``options``, which are also what the layer's text says."""

    operation: str

    def __init__(self, name: str | None = None, **options: Any) -> None:
        super().__init__()
        self._options = options
        self._name = name

    def forward(self, x: Any) -> Any:
        return call(self.operation, x, **self._options)

    def extra_repr(self) -> str:
        said = [f"{key}={value}" for key, value in self._options.items()]
        return ", ".join([*said, *([f"name={self._name}"] if self._name else [])])


class ReLU(_Activation):
    operation = "relu"

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)


class Sigmoid(_Activation):
    operation = "sigmoid"

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)


class Tanh(_Activation):
    operation = "tanh"

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)


class Swish(_Activation):
    operation = "swish"

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)


class Silu(_Activation):
    operation = "silu"

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)


class LeakyReLU(_Activation):
    operation = "leaky_relu"

    def __init__(self, negative_slope: float = 0.01, name: str | None = None) -> None:
        super().__init__(name, negative_slope=negative_slope)


class ELU(_Activation):
    operation = "elu"

    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None:
        super().__init__(name, alpha=alpha)


class GELU(_Activation):
    operation = "gelu"

    def __init__(self, approximate: bool = False, name: str | None = None) -> None:
        super().__init__(name, approximate=approximate)


class Softplus(_Activation):
    operation = "softplus"

    def __init__(self, beta: float = 1, threshold: float = 20, name: str | None = None) -> None:
        super().__init__(name, beta=beta, threshold=threshold)


class Softmax(_Activation):
    operation = "softmax"

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(name, axis=axis)


class LogSoftmax(_Activation):
    operation = "log_softmax"

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(name, axis=axis)


class PReLU(Layer):
    """Negative values times a weight that is learnt: one, or one for each channel."""

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        weight_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._said = f"num_parameters={num_parameters}, data_format={data_format}, init={init}"
        self._data_format = data_format
        self._weight = self.create_parameter([num_parameters], weight_attr, default_initializer=Constant(init))

    def forward(self, x: Any) -> Any:
        return call("prelu", x, self._weight, data_format=self._data_format)

    def extra_repr(self) -> str:
        return f"{self._said}, dtype={self._dtype}"
