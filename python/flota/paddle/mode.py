"""Whether operations compute at once or are recorded."""

from __future__ import annotations

from flota.paddle.graph.variable import Variable
from flota.paddle.ops.registry import Mode
from flota.paddle.tensor import Tensor

Mode.kind = Tensor


def enable_static() -> None:
    Mode.kind = Variable


def disable_static() -> None:
    Mode.kind = Tensor


def in_dynamic_mode() -> bool:
    return Mode.kind is Tensor
