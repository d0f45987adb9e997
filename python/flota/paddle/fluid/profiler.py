"""``fluid.profiler``: what takes time, by torch's profiler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from flota.errors import InvalidArgument

__all__ = ["profiler", "reset_profiler", "start_profiler", "stop_profiler"]

_ACTIVITIES = {
    "CPU": [ProfilerActivity.CPU],
    "GPU": [ProfilerActivity.CUDA],
    "All": [ProfilerActivity.CPU, ProfilerActivity.CUDA],
}
# By a script's order, the column of torch's table.
_ORDERS = {"default": None, "calls": "count", "total": "cpu_time_total", "ave": "cpu_time"}


class _Running:
    profile: Any = None
    activities: Any = None


def start_profiler(state: str, tracer_option: str = "Default") -> None:
    """Begins to record. ``state``: what is recorded: CPU, GPU or All."""
    if state not in _ACTIVITIES:
        raise InvalidArgument(f"start_profiler: state is {', '.join(_ACTIVITIES)}, not {state!r}")
    if state == "GPU" and not torch.cuda.is_available():
        raise InvalidArgument("start_profiler: torch sees no GPU here: give 'CPU'")
    if tracer_option != "Default":
        raise InvalidArgument(
            f"start_profiler: torch records its operations: leave tracer_option={tracer_option!r} out"
        )
    if _Running.profile is not None:
        raise InvalidArgument("start_profiler: it is recording already: call stop_profiler first")
    _Running.activities = [
        each for each in _ACTIVITIES[state] if each is ProfilerActivity.CPU or torch.cuda.is_available()
    ]
    _begin()


def _begin() -> None:
    _Running.profile = profile(activities=_Running.activities)
    _Running.profile.start()


def reset_profiler() -> None:
    """Forgets what was recorded, and goes on."""
    if _Running.profile is None:
        raise InvalidArgument("reset_profiler: nothing is recorded: call start_profiler first")
    _Running.profile.stop()
    _begin()


def stop_profiler(sorted_key: str | None = None, profile_path: str = "/tmp/profile") -> None:
    """Ends it, prints a table of operations, and writes what happened when to ``profile_path``, which Chrome's
    about:tracing shows. ``sorted_key``: calls, total or ave."""
    column = _column(sorted_key)
    if _Running.profile is None:
        raise InvalidArgument("stop_profiler: nothing is recorded: call start_profiler first")
    recorded, _Running.profile = _Running.profile, None
    recorded.stop()
    print(recorded.key_averages().table(sort_by=column), flush=True)
    recorded.export_chrome_trace(profile_path)


def _column(sorted_key: str | None) -> str | None:
    if (sorted_key or "default") not in _ORDERS:
        raise InvalidArgument(f"sorted_key is {', '.join(_ORDERS)} or None, not {sorted_key!r}")
    return _ORDERS[sorted_key or "default"]


@contextmanager
def profiler(
    state: str, sorted_key: str | None = None, profile_path: str = "/tmp/profile", tracer_option: str = "Default"
) -> Iterator[None]:
    """Inside it records; at the end it prints and writes what ``stop_profiler`` does."""
    _column(sorted_key)
    start_profiler(state, tracer_option)
    try:
        yield
    finally:
        stop_profiler(sorted_key, profile_path)
