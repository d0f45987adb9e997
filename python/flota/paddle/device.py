"""``paddle.device``: where numbers are computed, and what draws random ones. It is the CPU: so scripts that choose by
``is_compiled_with_cuda()`` choose it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.paddle.core import CPUPlace, CUDAPlace
from flota.paddle.names import public

__all__ = [
    "cpu_places",
    "cuda_places",
    "device_guard",
    "get_device",
    "get_rng_state",
    "is_compiled_with_cuda",
    "is_compiled_with_custom_device",
    "is_compiled_with_rocm",
    "is_compiled_with_xpu",
    "seed",
    "set_device",
    "set_rng_state",
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


def get_rng_state(device: str | None = None) -> list[torch.Tensor]:
    """Where the drawing of random numbers is, for ``set_rng_state``: one state, the CPU's."""
    _check_generator("get_rng_state", device)
    return [torch.get_rng_state()]


def set_rng_state(state_list: Sequence[torch.Tensor], device: str | None = None) -> None:
    """From here on the same numbers are drawn as after ``get_rng_state`` gave it."""
    _check_generator("set_rng_state", device)
    if len(state_list) != 1:
        raise InvalidArgument(f"set_rng_state takes what get_rng_state gave, which is one state, not {len(state_list)}")
    torch.set_rng_state(state_list[0])


def _check_generator(who: str, device: str | None) -> None:
    if device not in (None, "cpu"):
        raise InvalidArgument(f"{who}: the CPU draws the numbers: give 'cpu', not {device!r}")


__getattr__, __dir__ = public("flota.paddle.device", "paddle.device", {})
