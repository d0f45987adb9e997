"""Normalisation layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from flota.errors import InvalidArgument
from flota.paddle.attributes import ParamAttr
from flota.paddle.dtypes import get_default_dtype
from flota.paddle.graph.program import default_main_program
from flota.paddle.graph.variable import Variable
from flota.paddle.initializer import Constant
from flota.paddle.nn.common import named
from flota.paddle.nn.layer import Layer
from flota.paddle.ops.registry import call


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
    name: str | None = None,
) -> Any:
    """Normalised by the batch in training, else by the running mean and variance, which a batch moves."""
    normalised, mean, variance = call(
        "batch_norm",
        x,
        running_mean,
        running_var,
        weight,
        bias,
        training=training,
        momentum=momentum,
        epsilon=epsilon,
        data_format=data_format,
        use_global_stats=use_global_stats,
    )
    if training if use_global_stats is None else not use_global_stats:
        _keep(running_mean, mean)
        _keep(running_var, variance)
    return normalised


def _keep(statistic: Any, new: Any) -> None:
    if isinstance(statistic, Variable):
        default_main_program().record_into("assign", {"x": new}, statistic)
    else:
        statistic.set_value(new)


class _BatchNormBase(Layer):
    """What all batch normalisation shares. ``momentum``: how much of the running statistics a batch leaves."""

    sides: ClassVar[Sequence[int]] = ()  # how many an input may have; any, if none are named
    _is_test = False

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._dtype = get_default_dtype()
        self._num_features, self._momentum, self._epsilon = num_features, momentum, epsilon
        self._data_format, self._use_global_stats, self._name = data_format, use_global_stats, name
        self._make(weight_attr, bias_attr, ParamAttr(trainable=False), ParamAttr(trainable=False))

    def _make(self, weight: Any, bias: Any, mean: ParamAttr, variance: ParamAttr) -> None:
        shape = [self._num_features]
        self.weight = self.create_parameter(shape, weight, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(shape, bias, is_bias=True)
        self._mean = self.create_parameter(shape, mean, default_initializer=Constant(0.0))
        self._variance = self.create_parameter(shape, variance, default_initializer=Constant(1.0))

    def forward(self, input: Any) -> Any:
        self._check(input)
        return batch_norm(
            input,
            self._mean,
            self._variance,
            self.weight,
            self.bias,
            training=self.training and not self._is_test,
            momentum=self._momentum,
            epsilon=self._epsilon,
            data_format=self._data_format,
            use_global_stats=self._use_global_stats,
        )

    def _check(self, input: Any) -> None:
        if self.sides and len(input.shape) not in self.sides:
            wanted = " or ".join(map(str, self.sides))
            raise InvalidArgument(f"{type(self).__name__}: inputs have {wanted} sides, not {list(input.shape)}")

    def extra_repr(self) -> str:
        said = f"num_features={self._num_features}, momentum={self._momentum}, epsilon={self._epsilon}"
        if self._data_format != "NCHW":
            said += f", data_format={self._data_format}"
        return named(said, self._name)


class BatchNorm1D(_BatchNormBase):
    """Of [batch, channels] and [batch, channels, length]."""

    sides = (2, 3)

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCL",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        if data_format not in ("NC", "NCL", "NLC"):
            raise InvalidArgument(f"BatchNorm1D: data_format is NC, NCL or NLC, not {data_format!r}")
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, use_global_stats, name)


class BatchNorm2D(_BatchNormBase):
    """Of [batch, channels, height, width]."""

    sides = (4,)


class BatchNorm(_BatchNormBase):
    """1.x's, of any number of sides, with an activation. ``in_place`` is a matter of memory, which torch decides."""

    def __init__(
        self,
        num_channels: int,
        act: str | None = None,
        is_test: bool = False,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        dtype: Any = "float32",
        data_layout: str = "NCHW",
        in_place: bool = False,
        moving_mean_name: str | None = None,
        moving_variance_name: str | None = None,
        do_model_average_for_mean_and_var: bool = True,
        use_global_stats: bool = False,
        trainable_statistics: bool = False,
    ) -> None:
        Layer.__init__(self, dtype=dtype)
        self._num_features, self._momentum, self._epsilon = num_channels, momentum, epsilon
        self._data_format, self._act, self._is_test = data_layout, act, is_test
        # With ``trainable_statistics`` a batch is normalised by itself in evaluation, too.
        self._use_global_stats = True if use_global_stats else False if trainable_statistics else None
        averaged = do_model_average_for_mean_and_var
        mean, variance = (
            ParamAttr(name=name, trainable=False, do_model_average=averaged)
            for name in (moving_mean_name, moving_variance_name)
        )
        self._make(param_attr, bias_attr, mean, variance)

    def forward(self, input: Any) -> Any:
        normalised = super().forward(input)
        return normalised if self._act is None else call(self._act, normalised)

    def extra_repr(self) -> str:
        return ""


class LayerNorm(Layer):
    """Each sample by its own mean and variance over the last sides, ``normalized_shape``."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._dtype = get_default_dtype()
        self._normalized_shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        self._epsilon, self._name = epsilon, name
        size = 1
        for side in self._normalized_shape:
            size *= side
        self.weight = self.create_parameter([size], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([size], bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        return call("layer_norm", input, self._normalized_shape, self.weight, self.bias, epsilon=self._epsilon)

    def extra_repr(self) -> str:
        return named(f"normalized_shape={self._normalized_shape}, epsilon={self._epsilon}", self._name)
