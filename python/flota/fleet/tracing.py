"""Traces that somebody who looks on wishes for: heard as notes, made by ``flota.timeline``, told as notes.

A wish is JSON, ``{"until": 1767225600.0, "trace": {"id": "5f3c…", "steps": 20, "seconds": 27.0, "workers": [0, 1]}}``:
the next whole steps, as many as are made in so many seconds from when it is heard; without ``workers``, of all of them.
``until`` is when nobody waits for it any more, for workers that come later. Whoever wishes says it again and again
until he has all answers, so that two who wish at the same time are both served: a worker knows a wish by its id, makes
the trace once, and posts it again when it is wished for again.
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import dataclass
from typing import Any

from flota import timeline
from flota.standing import worker

_MOST_SECONDS = 600.0
_MOST_WISHES = 4  # that are kept
_MOST_THREADS = 64
_MOST_NAME = 64  # characters
_MOST_BYTES = 1 << 20  # of a note
_KEPT = 60.0  # seconds that a trace stays with the server and here


@dataclass(eq=False)
class _Wish:
    name: str
    trace: timeline.Trace
    until: float  # on the monotonic clock
    whole: bool = False
    step: int = 0  # the last that was made
    due: bool = True  # to be posted
    asked: float = 0.0  # when it was last wished for


class Tracer:
    """One worker's. All calls come from one thread; traces are finished by those that train."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._wishes: list[_Wish] = []  # the oldest first
        self._posting: _Wish | None = None
        self._there = False  # whether the server has one
        self.trip = 0.0  # seconds that the last note took to the server and back

    def wish(self, wish: bytes, *, first: bool) -> None:
        """Begins what is asked for. ``first``: the wish was there when this worker came, and may be an old one. What is
        no wish, or one of a version that can do more, is passed over."""
        try:
            said = json.loads(wish)
            asked = said["trace"]
            name, steps = str(asked["id"])[:_MOST_NAME], int(asked["steps"])
            seconds = min(float(asked.get("seconds", 30.0)), _MOST_SECONDS)
            ours = self._index in asked.get("workers", [self._index])
            old = first and float(said["until"]) < time.time()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            return
        if old or not ours or not 1 <= steps <= timeline.MOST_STEPS or not seconds > 0:
            return
        known = next((each for each in self._wishes if each.name == name), None)
        if known is None:
            known = self._begin(name, steps, seconds)
        known.due, known.asked = True, time.monotonic()

    def _begin(self, name: str, steps: int, seconds: float) -> _Wish:
        def done(_: timeline.Trace) -> None:
            made.step = worker.step
            made.whole = True

        # Not the trace's own thread of things: it may be done before there is a wish.
        made = _Wish(name, timeline.Trace(0, done), time.monotonic() + seconds)
        self._wishes.append(made)
        made.trace = timeline.trace(steps, done)
        for old in self._wishes[:-_MOST_WISHES]:
            timeline.end(old.trace)
        del self._wishes[:-_MOST_WISHES]
        return made

    def next_note(self, *, last: bool = False) -> bytes | None:
        """The next trace that is there to be told. ``last``: of those that are being made, what there is. Where nobody
        has asked for a while, nothing is kept, neither here nor by the server."""
        now = time.monotonic()
        for each in self._wishes:
            if not each.whole and (last or now > each.until):
                timeline.end(each.trace)
                each.step, each.whole = worker.step, True
        self._wishes = [each for each in self._wishes if not each.whole or now - each.asked < _KEPT]
        self._posting = next((each for each in self._wishes if each.whole and each.due), None)
        if self._posting is not None:
            return packed(self._posting.name, self._posting.trace, self._posting.step, self.trip)
        return b"{}" if self._there and not self._wishes else None

    def posted(self) -> None:
        """The server has what ``next_note`` gave."""
        self._there = self._posting is not None
        if self._posting is not None:
            self._posting.due = False

    def close(self) -> None:
        for each in self._wishes:
            timeline.end(each.trace)


def packed(name: str, trace: timeline.Trace, step: int, trip: float) -> bytes:
    """A trace as a note. Times of spans are microseconds since the first of them, which ``began`` has on the clock of
    this host; beginnings and ends are rounded, not durations, so that what is within another span stays within it."""
    note = describe(name, trace, step)
    note["posted"], note["trip"] = time.time(), round(trip, 6)
    text = json.dumps(note, separators=(",", ":")).encode()
    if len(text) > _MOST_BYTES:
        text = json.dumps({**note, "events": [], "steps": 0}, separators=(",", ":")).encode()
    return text


def describe(name: str, trace: timeline.Trace, step: int) -> dict[str, Any]:
    """The same as plain data, without when it was posted."""
    found = sorted(trace.events, key=lambda event: (event.began, -event.seconds))
    first = found[0].began if found else time.perf_counter()
    threads = {event.ident: event.thread for event in found}
    # Those that make steps before the others, where there are too many.
    stepping = {event.ident for event in found if event.part == "step"}
    order = sorted(threads, key=lambda ident: ident not in stepping)[:_MOST_THREADS]
    places = {ident: place for place, ident in enumerate(order)}

    def microseconds(seconds: float) -> int:
        return round((seconds - first) * 1e6)

    events = []
    for event in found:
        if event.ident in places:
            began = microseconds(event.began)
            events.append([event.part, began, microseconds(event.began + event.seconds) - began, places[event.ident]])
    return {
        "id": name,
        "pid": os.getpid(),
        "host": socket.gethostname()[:_MOST_NAME],
        "mode": worker.mode,
        "steps": trace.made,
        "asked": trace.steps,
        "step": step,
        "began": time.time() - (time.perf_counter() - first),
        "missed": trace.missed,
        "threads": [threads[ident][:_MOST_NAME] for ident in order],
        "events": events,
    }
