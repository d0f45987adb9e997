"""Convolutions and pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from flota.errors import InvalidArgument
from flota.paddle.ops.registry import operation


def _channels_first(x: torch.Tensor, data_format: str) -> tuple[torch.Tensor, bool]:
    """The value with channels before the sides that are scanned, and whether they have been last."""
    if data_format in ("NCL", "NCHW"):
        return x, False
    if data_format in ("NLC", "NHWC"):
        return x.movedim(-1, 1), True
    raise InvalidArgument(f"data_format is NCL, NCHW, NLC or NHWC, not {data_format!r}")


def _each_side(value: Any, count: int) -> list[int]:
    numbers = [value] if isinstance(value, int) else list(value)
    return [int(each) for each in (numbers * count if len(numbers) == 1 else numbers)]


def _padded(x: torch.Tensor, padding: Any, kernel: list[int], stride: list[int], value: float) -> tuple[Any, list[int]]:
    """What is still to be padded on both ends alike. ``padding``: a number, one for each side, one for each end, VALID,
    or SAME: so much that as many results come out as there are strides. Ends that differ are padded here."""
    count = len(kernel)
    if isinstance(padding, str):
        which = padding.upper()
        if which not in ("SAME", "VALID"):
            raise InvalidArgument(f"padding is SAME, VALID or numbers, not {padding!r}")
        if which == "VALID":
            return x, [0] * count
        wanted = zip(x.shape[2:], kernel, stride, strict=True)
        totals = [max((-(-size // step) - 1) * step + width - size, 0) for size, width, step in wanted]
        ends = [(total // 2, total - total // 2) for total in totals]
    elif not isinstance(padding, int) and any(not isinstance(each, int) for each in padding):
        raise InvalidArgument(f"padding of batch and channels is not known here: {padding!r}")
    else:
        numbers = _each_side(padding, count)
        if len(numbers) == count:
            return x, numbers
        if len(numbers) != 2 * count:
            raise InvalidArgument(f"padding has {count} or {2 * count} numbers, not {len(numbers)}")
        ends = [(numbers[2 * i], numbers[2 * i + 1]) for i in range(count)]
    if all(before == after for before, after in ends):
        return x, [before for before, _ in ends]
    return F.pad(x, [end for pair in reversed(ends) for end in pair], value=value), [0] * count


def _convolved(convolve: Callable[..., torch.Tensor], x: Any, weight: Any, bias: Any, given: tuple[Any, ...]) -> Any:
    stride, padding, dilation, groups, data_format = given
    x, last = _channels_first(x, data_format)
    count = x.dim() - 2
    steps, gaps = _each_side(stride, count), _each_side(dilation, count)
    reach = [(width - 1) * gap + 1 for width, gap in zip(weight.shape[2:], gaps, strict=True)]
    x, even = _padded(x, padding, reach, steps, 0.0)
    y = convolve(x, weight, None if bias is None else bias.reshape(-1), steps, even, gaps, groups)
    return y.movedim(1, -1) if last else y


@operation
def conv1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCL",
) -> Any:
    return _convolved(F.conv1d, x, weight, bias, (stride, padding, dilation, groups, data_format))


@operation
def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCHW",
) -> Any:
    return _convolved(F.conv2d, x, weight, bias, (stride, padding, dilation, groups, data_format))


def _greatest(x: Any, sizes: tuple[Any, Any, Any], ceil_mode: bool, return_mask: bool, data_format: str) -> Any:
    x, last = _channels_first(x, data_format)
    count = x.dim() - 2
    kernel = _each_side(sizes[0], count)
    stride = kernel if sizes[1] is None else _each_side(sizes[1], count)
    x, even = _padded(x, sizes[2], kernel, stride, -torch.inf)
    pool: Callable[..., Any] = F.max_pool1d if count == 1 else F.max_pool2d
    y = pool(x, kernel, stride, even, ceil_mode=ceil_mode, return_indices=return_mask)
    if not last:
        return y
    return tuple(each.movedim(1, -1) for each in y) if return_mask else y.movedim(1, -1)


@operation
def max_pool1d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
) -> Any:
    return _greatest(x, (kernel_size, stride, padding), ceil_mode, return_mask, "NCL")


@operation
def max_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
) -> Any:
    return _greatest(x, (kernel_size, stride, padding), ceil_mode, return_mask, data_format)


@operation
def avg_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: int | None = None,
    data_format: str = "NCHW",
) -> Any:
    """``exclusive``: what was padded does not count."""
    if isinstance(padding, str) or (not isinstance(padding, int) and len(padding) > 2):
        raise InvalidArgument(f"avg_pool2d: padding is a number or one for each side, not {padding!r}")
    x, last = _channels_first(x, data_format)
    y = F.avg_pool2d(x, kernel_size, stride, padding, ceil_mode, not exclusive, divisor_override)
    return y.movedim(1, -1) if last else y


@operation
def adaptive_avg_pool2d(x: Any, output_size: Any, data_format: str = "NCHW") -> Any:
    x, last = _channels_first(x, data_format)
    y = F.adaptive_avg_pool2d(x, output_size)
    return y.movedim(1, -1) if last else y


@operation
def avg_pool1d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
) -> Any:
    """``exclusive``: what was padded does not count."""
    if isinstance(padding, str) or (not isinstance(padding, int) and len(padding) > 1):
        raise InvalidArgument(f"avg_pool1d: padding is a number, not {padding!r}")
    return F.avg_pool1d(x, kernel_size, stride, padding, ceil_mode, not exclusive)


@operation
def adaptive_avg_pool1d(x: Any, output_size: Any) -> Any:
    return F.adaptive_avg_pool1d(x, output_size)


@operation
def adaptive_max_pool1d(x: Any, output_size: Any, return_mask: bool = False) -> Any:
    return F.adaptive_max_pool1d(x, output_size, return_indices=return_mask)  # type: ignore[call-overload]


@operation
def adaptive_max_pool2d(x: Any, output_size: Any, return_mask: bool = False) -> Any:
    return F.adaptive_max_pool2d(x, output_size, return_indices=return_mask)  # type: ignore[call-overload]
