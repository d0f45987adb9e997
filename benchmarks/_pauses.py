"""Tells the pauses of a machine from those of a program.

A virtual machine stands still when its host gives its cores to others. A thread of real-time priority on every core,
which sleeps a millisecond at a time, sees that: nothing in the machine itself keeps all of these threads waiting at
once. It needs root, or CAP_SYS_NICE; without it, ``unavailable`` says so and no pause is seen.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import time
from typing import Any

_SLEEP = 0.001
_LATE = 0.002  # seconds; a timer alone is not later than that
_PRIORITY = 50
_LOCK_ALL = 3  # MCL_CURRENT | MCL_FUTURE: a probe waits for no page

Span = tuple[float, float]  # by time.perf_counter(), which is the same clock in every process


def _watch(core: int, late: Any) -> None:
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    ctypes.CDLL(None).mlockall(_LOCK_ALL)
    while True:
        start = time.perf_counter()
        time.sleep(_SLEEP)
        end = time.perf_counter()
        if end - start > _SLEEP + _LATE:
            late.put((core, start + _SLEEP, end))


def _allowed() -> bool:
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    except PermissionError:
        return False
    os.sched_setscheduler(0, *before)
    return True


class MachinePauses:
    """Watches from ``with`` on."""

    def __init__(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.unavailable = "" if _allowed() else "pauses of the machine are not seen: no real-time priority"
        cores = [] if self.unavailable else sorted(os.sched_getaffinity(0))
        self._late = spawn.SimpleQueue()
        self._spans: dict[int, list[Span]] = {core: [] for core in cores}
        self._probes = [spawn.Process(target=_watch, args=(core, self._late), daemon=True) for core in cores]

    def during(self, start: float, end: float) -> float:
        """For how many seconds between two times, lately past, every core stood still."""
        if not self._spans:
            return 0.0
        time.sleep(10 * _SLEEP)  # a probe that was late says so when it is on its core again
        while not self._late.empty():
            core, *span = self._late.get()
            self._spans[core].append((span[0], span[1]))
        still = [(start, end)]
        for spans in self._spans.values():
            still = [(max(a, c), min(b, d)) for a, b in still for c, d in spans if max(a, c) < min(b, d)]
        return sum(b - a for a, b in still)

    def __enter__(self) -> MachinePauses:
        for probe in self._probes:
            probe.start()
        return self

    def __exit__(self, *_: object) -> None:
        for probe in self._probes:
            probe.kill()
            probe.join()
