"""``paddle.device``: where numbers are computed, and what draws random ones. It is the CPU: so scripts that choose by
``is_compiled_with_cuda()`` choose it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.paddle.core import CPUPlace, CUDAPlace

__all__ = [
    "cpu_places",
    "cuda_places",
    "device_guard",
    "get_device",
    "is_compiled_with_cuda",
    "is_compiled_with_custom_device",
    "is_compiled_with_rocm",
    "is_compiled_with_xpu",
    "seed",
    "set_device",
]


def set_device(device: str) -> CPUPlace:
    """The place of this name, which is "cpu"."""
    if device != "cpu":
        raise InvalidArgument(f"set_device: programs run on the CPU: give 'cpu', not {device!r}")
    return CPUPlace()


def get_device() -> str:
    return "cpu"


def is_compiled_with_cuda() -> bool:
    return False


def is_compiled_with_rocm() -> bool:
    return False


def is_compiled_with_xpu() -> bool:
    return False


def is_compiled_with_custom_device(device_type: str) -> bool:
    return False


def cpu_places(device_count: int | None = None) -> list[CPUPlace]:
    """One place: a program is run by one process, and a job has as many of those as it has workers."""
    if device_count not in (None, 1):
        raise InvalidArgument(f"cpu_places: a process has one place, not {device_count}: start more workers")
    return [CPUPlace()]


def cuda_places(device_ids: Any = None) -> list[CUDAPlace]:
    raise InvalidArgument("cuda_places: programs run on the CPU: use cpu_places()")


@contextmanager
def device_guard(device: str | None = None) -> Iterator[None]:
    """Inside, operations are meant for this device; all run on the CPU."""
    if device not in (None, "cpu"):
        raise InvalidArgument(f"device_guard: programs run on the CPU: give 'cpu', not {device!r}")
    yield


def seed(seed: int) -> torch.Generator:
    """From here on random numbers follow from ``seed``."""
    return torch.manual_seed(int(seed))
