"""``paddle.core``, as far as scripts reach into it."""

from __future__ import annotations

from enum import IntEnum


class EOFException(Exception):
    """A loader's pass is over."""


class CPUPlace:
    """The CPU."""

    def __repr__(self) -> str:
        return "Place(cpu)"


class CUDAPlace:
    """A GPU."""

    def __init__(self, device: int = 0) -> None:
        self.device = device

    def __repr__(self) -> str:
        return f"Place(gpu:{self.device})"


class VarType(IntEnum):
    """Kinds of variables. Programs here have the first alone; scripts that leave the others out find none."""

    LOD_TENSOR = 7
    SELECTED_ROWS = 8
    FEED_MINIBATCH = 9
    FETCH_LIST = 10
    READER = 15
    RAW = 17


class VarDesc:
    """Where scripts find ``VarType``."""

    VarType = VarType
