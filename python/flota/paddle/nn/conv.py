"""Convolutions and pools as layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from flota.errors import InvalidArgument
from flota.paddle.dtypes import get_default_dtype
from flota.paddle.initializer import Normal
from flota.paddle.nn.layer import Layer
from flota.paddle.ops.registry import call

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Layer):
    """What convolutions share; the weight is [out, in / groups, …]."""

    operation: ClassVar[str]
    side_count: ClassVar[int]
    formats: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: Any = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__()
        self._dtype = get_default_dtype()
        if in_channels % groups or out_channels % groups:
            raise InvalidArgument(f"{in_channels} and {out_channels} channels are not in {groups} equal groups")
        if padding_mode not in _PADDING_MODES:
            raise InvalidArgument(f"padding_mode is one of {', '.join(_PADDING_MODES)}, not {padding_mode!r}")
        if data_format not in self.formats:
            raise InvalidArgument(f"data_format is {' or '.join(self.formats)}, not {data_format!r}")
        self._data_format = data_format
        self._in_channels, self._out_channels, self._groups = in_channels, out_channels, groups
        self._kernel_size, self._stride, self._dilation = map(self._each_side, (kernel_size, stride, dilation))
        self._padding, self._padding_mode = padding, padding_mode
        first = Normal(0.0, math.sqrt(2.0 / (in_channels * math.prod(self._kernel_size))))
        shape = [out_channels, in_channels // groups, *self._kernel_size]
        self.weight = self.create_parameter(shape, weight_attr, default_initializer=first)
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)
        if self.weight is None:
            raise InvalidArgument(f"{type(self).__name__}: a layer needs its weight; weight_attr=False leaves none")

    def _each_side(self, value: int | Sequence[int]) -> list[int]:
        return [value] * self.side_count if isinstance(value, int) else list(value)

    def forward(self, x: Any) -> Any:
        padding = self._padding
        if self._padding_mode != "zeros":
            x, padding = self._padded(x), 0
        return call(
            self.operation,
            x,
            self.weight,
            self.bias,
            stride=self._stride,
            padding=padding,
            dilation=self._dilation,
            groups=self._groups,
            data_format=self._data_format,
        )

    def _padded(self, x: Any) -> Any:
        if isinstance(self._padding, str):
            raise InvalidArgument(f"padding_mode={self._padding_mode!r} needs padding in numbers")
        ends = [end for side in reversed(self._each_side(self._padding)) for end in (side, side)]
        return call("pad", x, ends, mode=self._padding_mode, data_format=self._data_format)

    def extra_repr(self) -> str:
        said = f"{self._in_channels}, {self._out_channels}, kernel_size={self._kernel_size}"
        ones = [1] * self.side_count
        said += f", stride={self._stride}" if self._stride != ones else ""
        said += f", padding={self._padding}" if self._padding != 0 else ""
        said += f", padding_mode={self._padding_mode}" if self._padding_mode != "zeros" else ""
        said += f", dilation={self._dilation}" if self._dilation != ones else ""
        said += f", groups={self._groups}" if self._groups != 1 else ""
        return f"{said}, data_format={self._data_format}"


class Conv1D(_Convolution):
    operation = "conv1d"
    side_count = 1
    formats = ("NCL", "NLC")

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: Any = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCL",
    ) -> None:
        scanned = (kernel_size, stride, padding, dilation)
        super().__init__(in_channels, out_channels, *scanned, groups, padding_mode, weight_attr, bias_attr, data_format)


class Conv2D(_Convolution):
    operation = "conv2d"
    side_count = 2
    formats = ("NCHW", "NHWC")


class MaxPool2D(Layer):
    """The greatest of each window; ``return_mask``: and where it was."""

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.ksize, self.stride, self.padding = kernel_size, stride, padding
        self.return_mask, self.ceil_mode, self.data_format = return_mask, ceil_mode, data_format

    def forward(self, x: Any) -> Any:
        return call(
            "max_pool2d",
            x,
            self.ksize,
            stride=self.stride,
            padding=self.padding,
            return_mask=self.return_mask,
            ceil_mode=self.ceil_mode,
            data_format=self.data_format,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.ksize}, stride={self.stride}, padding={self.padding}"


class AvgPool2D(Layer):
    """The mean of each window; ``exclusive``: without what was padded."""

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: int | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.ksize, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.exclusive, self.divisor = ceil_mode, exclusive, divisor_override
        self.data_format = data_format

    def forward(self, x: Any) -> Any:
        return call(
            "avg_pool2d",
            x,
            self.ksize,
            stride=self.stride,
            padding=self.padding,
            ceil_mode=self.ceil_mode,
            exclusive=self.exclusive,
            divisor_override=self.divisor,
            data_format=self.data_format,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.ksize}, stride={self.stride}, padding={self.padding}"
