"""``paddle.core``, as far as scripts reach into it."""

from __future__ import annotations


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
