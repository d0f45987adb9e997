"""Whether operations compute at once or are recorded."""

from __future__ import annotations

from typing import Any

from flota.errors import InvalidArgument
from flota.paddle.core import CPUPlace
from flota.paddle.first_mode import FirstMode
from flota.paddle.graph.variable import Variable
from flota.paddle.ops.registry import Mode
from flota.paddle.tensor import Tensor

Mode.kind = Variable if FirstMode.static else Tensor


class _Chosen:
    by_script = FirstMode.static


def enable_static() -> None:
    _Chosen.by_script = True
    Mode.kind = Variable


def disable_static(place: Any = None) -> None:
    """From here on operations compute at once, on the CPU."""
    if place is not None and not isinstance(place, CPUPlace):
        raise InvalidArgument(f"disable_static: eager operations compute on the CPU, not on {place}: leave place out")
    _Chosen.by_script = True
    Mode.kind = Tensor


def meant_static() -> None:
    """A script that declares a program's inputs, and has not said which mode it wants, means this one."""
    if not _Chosen.by_script:
        enable_static()


def in_dynamic_mode() -> bool:
    return Mode.kind is Tensor
