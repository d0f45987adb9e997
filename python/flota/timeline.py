"""Where the time of a worker's steps goes.

    with timeline.span("pull"):
        rows = table.pull(keys)

The parts are ``PARTS``: waiting for data to be read, for rows, for a push to be taken, for other workers, and the
backward pass. What none of them has is the forward pass, with all that a script does between its steps. A span within
another is not part of the outer one's time. Spans of threads that make no steps, such as those that read ahead, count
in no sum.

A span costs half a microsecond. While steps are traced, each is kept with its beginning.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

PARTS = ("read", "pull", "forward", "backward", "push", "wait")

_MOST_EVENTS = 8192  # of one trace: a note to server 0 has room for so many


@dataclass
class Event:
    """A span of a traced step; ``part`` is "step" for the step itself."""

    part: str
    began: float  # seconds, on the clock of time.perf_counter
    seconds: float
    thread: str


@dataclass
class Trace:
    """Some steps, from the end of the one before them on."""

    steps: int
    done: Callable[[Trace], None]
    events: list[Event] = field(default_factory=list)
    left: int = 0

    def add(self, part: str, began: float, seconds: float) -> None:
        if len(self.events) < _MOST_EVENTS:
            self.events.append(Event(part, began, seconds, threading.current_thread().name))


class _Here(threading.local):
    """Of one thread."""

    def __init__(self) -> None:
        self.stack: list[span] = []
        self.seconds: dict[str, float] = {}
        self.steps = False  # whether it makes steps


_here = _Here()
_stepping: list[dict[str, float]] = []  # the sums of threads that make steps
_began = time.perf_counter()
_last_step: float | None = None
_asked: Trace | None = None
_trace: Trace | None = None
_lock = threading.Lock()


class span:  # noqa: N801 (it reads as a word of the language)
    """A part of a step, as long as it is entered."""

    __slots__ = ("_began", "_inner", "part")

    def __init__(self, part: str) -> None:
        self.part = part

    def __enter__(self) -> None:
        _here.stack.append(self)
        self._inner = 0.0
        self._began = time.perf_counter()

    def __exit__(self, *_: Any) -> None:
        seconds = time.perf_counter() - self._began
        here = _here
        here.stack.pop()
        if here.stack:
            here.stack[-1]._inner += seconds
        here.seconds[self.part] = here.seconds.get(self.part, 0.0) + seconds - self._inner
        if _trace is not None:
            _trace.add(self.part, self._began, seconds)


def stepped() -> None:
    """A step of this thread is over."""
    global _last_step, _trace, _asked
    if not _here.steps:
        _here.steps = True
        with _lock:
            _stepping.append(_here.seconds)
    now = time.perf_counter()
    if _asked is not None or _trace is not None:
        _trace_step(now)
    _last_step = now


def _trace_step(now: float) -> None:
    global _trace, _asked
    done = None
    with _lock:
        if _trace is not None:
            if _last_step is not None:
                _trace.add("step", _last_step, now - _last_step)
            _trace.left -= 1
            if _trace.left <= 0:
                done, _trace = _trace, None
        elif _asked is not None:
            _trace, _asked = _asked, None
            _trace.left = _trace.steps
    if done is not None:
        done.done(done)


def trace(steps: int, done: Callable[[Trace], None]) -> None:
    """Keeps the next whole steps with all their spans, and calls ``done`` with them, in the thread that made the last
    one. One that was asked for before and has not begun is forgotten."""
    global _asked
    with _lock:
        _asked = Trace(steps, done)


def seconds() -> dict[str, float]:
    """By part, of all threads that make steps, since the process began; and "whole", which is what they had together.
    ``forward`` is what is left."""
    with _lock:
        threads = list(_stepping)
    sums = dict.fromkeys(PARTS, 0.0)
    for each in threads:
        for part, spent in list(each.items()):
            sums[part] = sums.get(part, 0.0) + spent
    whole = (time.perf_counter() - _began) * len(threads)
    sums["forward"] = max(0.0, whole - sum(sums.values()))
    return {**sums, "whole": whole}
