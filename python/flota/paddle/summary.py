"""``paddle.summary``: a table of a model's layers and parameters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.paddle.mode import in_dynamic_mode
from flota.paddle.nn.layer import Layer
from flota.paddle.static.input_spec import InputSpec
from flota.paddle.tensor import Tensor, to_tensor

_WIDTHS = (22, 24, 20, 12)


def summary(net: Layer, input_size: Any = None, dtypes: Any = None, input: Any = None) -> dict[str, int]:
    """Calls the model once, as after training, and prints its innermost layers in the order in which they compute.

    ``input_size``: the input's shape or ``InputSpec``, or a list of those for several; -1 and None are a batch of one.
    ``dtypes``: their types, float32 unless said. ``input``: the input itself instead.
    """
    if not in_dynamic_mode():
        raise InvalidArgument("summary computes eagerly: call it after paddle.disable_static()")
    given = _given(input) if input is not None else _made(input_size, dtypes)
    lines = _lines(net, given)
    parameters = [*net.parameters(), *net.buffers()]
    total = _numbers(parameters)
    trained = _numbers(each for each in parameters if not each.stop_gradient)
    _print(lines, {"Total params": total, "Trainable params": trained, "Non-trainable params": total - trained})
    return {"total_params": total, "trainable_params": trained}


def _numbers(parameters: Iterable[Any]) -> int:
    return sum(math.prod(each.shape) for each in parameters)


def _given(input: Any) -> list[Any]:
    return list(input) if isinstance(input, (list, tuple)) else [input]


def _made(input_size: Any, dtypes: Any) -> list[Any]:
    if input_size is None:
        raise InvalidArgument("summary: give input_size or input")
    one = isinstance(input_size, InputSpec) or all(side is None or isinstance(side, int) for side in input_size)
    sizes = [input_size] if one else list(input_size)
    kinds = [dtypes] * len(sizes) if dtypes is None or isinstance(dtypes, str) else list(dtypes)
    if len(kinds) != len(sizes):
        raise InvalidArgument(f"summary: there are {len(sizes)} inputs and {len(kinds)} dtypes")
    return [_ones(size, kind) for size, kind in zip(sizes, kinds, strict=True)]


def _ones(size: Any, kind: Any) -> Any:
    shape, own = (size.shape, size.dtype) if isinstance(size, InputSpec) else (size, "float32")
    sides = [1 if side is None or side < 0 else side for side in shape]
    return to_tensor(torch.ones(sides), dtype=own if kind is None else kind)


def _lines(net: Layer, given: Sequence[Any]) -> list[tuple[str, str, str, str]]:
    lines: list[tuple[str, str, str, str]] = []
    counts: Counter[str] = Counter()

    def note(layer: Layer, inputs: Any, outputs: Any) -> None:
        kind = type(layer).__name__
        counts[kind] += 1
        size = _numbers([*layer.parameters(), *layer.buffers()])
        lines.append((f"{kind}-{counts[kind]}", str(_shapes(inputs)), str(_shapes(outputs)), f"{size:,}"))

    inner = [layer for layer in net.sublayers(include_self=True) if not layer.sublayers()]
    hooks = [layer.register_forward_post_hook(note) for layer in inner]
    modes = [(layer, layer.training) for layer in net.sublayers(include_self=True)]
    net.eval()
    try:
        with torch.no_grad():
            net(*given)
    finally:
        for hook in hooks:
            hook.remove()
        for layer, training in modes:
            layer.training = training
    return lines


def _shapes(values: Any) -> Any:
    if isinstance(values, (list, tuple)):
        return [_shapes(each) for each in values]
    return values.shape if isinstance(values, Tensor) else []


def _print(lines: Sequence[tuple[str, str, str, str]], sums: dict[str, int]) -> None:
    rows = [("Layer (type)", "Input Shape", "Output Shape", "Param #"), *lines]
    widths = [max(width, *(len(row[i]) + 2 for row in rows)) for i, width in enumerate(_WIDTHS)]
    text = ["".join(cell.center(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    thin, thick = "-" * sum(widths), "=" * sum(widths)
    totals = [f"{name}: {number:,}" for name, number in sums.items()]
    print("\n".join([thin, text[0], thick, *text[1:], thick, *totals, thin]))
