"""Whether operations compute at once or are recorded."""

from __future__ import annotations

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


def disable_static() -> None:
    _Chosen.by_script = True
    Mode.kind = Tensor


def meant_static() -> None:
    """A script that declares a program's inputs, and has not said which mode it wants, means this one."""
    if not _Chosen.by_script:
        enable_static()


def in_dynamic_mode() -> bool:
    return Mode.kind is Tensor
