"""Where the time of a worker's steps goes.

    with timeline.span("pull"):
        rows = table.pull(keys)

The parts are ``PARTS``: waiting for data to be read, for rows, for a push to be taken, for other workers, and the
backward pass. What none of them has is the forward pass, with all that a script does between its steps. A span within
another is not part of the outer one's time. Spans of threads that make no steps, such as those that read ahead, count
in no sum.

A span costs half a microsecond. While steps are traced, each is kept with its beginning. Several may trace at once;
each gets all the steps that it asked for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

PARTS = ("read", "pull", "forward", "backward", "push", "wait")

MOST_STEPS = 1000  # of one trace
_MOST_EVENTS = 8192  # of one trace: a note to server 0 has room for so many
_MOST_TRACES = 4  # that are asked for and have not begun


@dataclass(frozen=True)
class Event:
    """A span of a traced step; ``part`` is "step" for the step itself."""

    part: str
    began: float  # seconds, on the clock of time.perf_counter
    seconds: float
    thread: str
    ident: int  # of the thread: several may have one name


@dataclass(eq=False)
class Trace:
    """Some steps, from the end of the one before them on, and what other threads do meanwhile."""

    steps: int  # that are wanted
    done: Callable[[Trace], None]
    events: list[Event] = field(default_factory=list)
    began: float = 0.0
    made: int = 0  # whole steps; less than ``steps`` where there was no room for all, or it was ended early
    missed: int = 0  # spans for which there was no room

    def add(self, part: str, began: float, seconds: float) -> None:
        if len(self.events) < _MOST_EVENTS:
            self._keep(part, began, seconds)
        else:
            self.missed += 1

    def step(self, began: float, seconds: float) -> bool:
        """A whole step is over. Returns whether the trace is. A step that lacks spans is none."""
        if not self.missed:
            self._keep("step", began, seconds)
            self.made += 1
        return self.missed > 0 or self.made >= self.steps

    def _keep(self, part: str, began: float, seconds: float) -> None:
        thread = threading.current_thread()
        self.events.append(Event(part, began, seconds, thread.name, thread.ident or 0))


class _Here(threading.local):
    """Of one thread."""

    def __init__(self) -> None:
        self.stack: list[span] = []
        self.seconds: dict[str, float] = {}
        self.steps = False  # whether it makes steps
        self.stepped: float | None = None  # when the last one was over


_here = _Here()
_stepping: list[dict[str, float]] = []  # the sums of threads that make steps
_began = time.perf_counter()
_asked: list[Trace] = []  # they begin with the next step
_traces: tuple[Trace, ...] = ()  # at work; another tuple takes its place, so that spans look without the lock
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
        # What is read within a reading is told by the outer one.
        if _traces and not (here.stack and here.stack[-1].part == self.part):
            for trace in _traces:
                trace.add(self.part, self._began, seconds)


def stepped() -> None:
    """A step of this thread is over."""
    here = _here
    if not here.steps:
        here.steps = True
        with _lock:
            _stepping.append(here.seconds)
    now = time.perf_counter()
    if _asked or _traces:
        _trace_step(here.stepped, now)
    here.stepped = now


def _trace_step(last: float | None, now: float) -> None:
    global _traces
    ended: list[Trace] = []
    with _lock:
        for each in _traces:
            # A step of another thread may have begun before the trace did.
            if last is not None and last >= each.began and each.step(last, now - last):
                ended.append(each)
        for each in _asked:
            each.began = now
        _traces = (*(each for each in _traces if each not in ended), *_asked)
        _asked.clear()
    for each in ended:
        each.done(each)


def trace(steps: int, done: Callable[[Trace], None], *, at_once: bool = False) -> Trace:
    """Keeps the next whole steps with all their spans, and calls ``done`` with them, in the thread that made the last
    one. ``at_once``: a step of this thread begins now; else the first is the one after that which is being made. Of too
    many that were asked for and have not begun, the oldest is forgotten."""
    global _traces
    made = Trace(steps, done, began=time.perf_counter())
    with _lock:
        if at_once:
            _here.stepped = made.began
            _traces = (*_traces, made)
        else:
            _asked.append(made)
            del _asked[:-_MOST_TRACES]
    return made


def end(made: Trace) -> None:
    """Ends a trace with the whole steps that it has. ``done`` is called no more, unless it is just being called."""
    global _traces
    with _lock:
        _traces = tuple(each for each in _traces if each is not made)
        _asked[:] = [each for each in _asked if each is not made]


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
