"""``paddle.core``, as far as scripts reach into it."""

from __future__ import annotations

from enum import IntEnum

from flota.paddle.names import public


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


def get_cuda_device_count() -> int:
    """How many GPUs scripts spread over by themselves: none, for ``is_compiled_with_cuda()`` says the CPU."""
    return 0


_HERE = "flota.paddle"

# What needs torch is looked up on first use.
_PUBLIC = {
    **dict.fromkeys(
        ("is_compiled_with_cuda", "is_compiled_with_rocm", "is_compiled_with_xpu", "is_compiled_with_custom_device"),
        f"{_HERE}.device",
    ),
    "LoDTensor": f"{_HERE}.lod",
    "Scope": f"{_HERE}.graph.scope",
}

__getattr__, __dir__ = public(f"{_HERE}.core", "paddle.core", _PUBLIC)
