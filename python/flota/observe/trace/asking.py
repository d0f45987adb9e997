"""Asks workers of a running job for a trace, and gathers what they answer.

A wish is a note on server 0, in place of the last one. It is posted again until all have answered, so that of several
who ask at the same time each is heard: workers know a wish by its id and make each trace once.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from flota import _core
from flota._core import Topic
from flota.errors import FlotaError, InvalidArgument, ServerUnavailable
from flota.launch.saying import clock
from flota.observe.looking import Looker, connect
from flota.observe.sight import Server, Sight, Worker
from flota.observe.trace.clocks import Heard
from flota.observe.trace.notes import read

MOST_UNNAMED = 16  # workers that are asked where none are named: more is nothing that a person looks at
_EVERY = 0.2  # seconds between two looks for answers
_LOOK = 1.0  # and between two looks at how all are: workers tell it once a second
_AGAIN = 2.0  # seconds after which the wish is said again
_MARGIN = 3.0  # seconds that the workers' answers may take, of the whole
_MILLISECOND = 0.001  # server 0 tells ages in them


@dataclass
class Gathered:
    """What came of it."""

    asked: list[int]
    unasked: int = 0  # workers beyond MOST_UNNAMED
    heard: dict[int, Heard] = field(default_factory=dict)
    missing: dict[int, str] = field(default_factory=dict)  # workers without an answer, and why
    servers: list[Server] = field(default_factory=list)  # with what they did meanwhile


def gather(
    servers: Sequence[str], steps: int, workers: Sequence[int] | None, timeout: float, answer_time: float
) -> Gathered:
    """Returns when all have answered, or cannot any more, or ``timeout`` seconds are over. ``answer_time``: seconds
    that a server may take to answer."""
    until = time.monotonic() + timeout
    with contextlib.ExitStack() as stack:
        looker, beside = Looker(servers, timeout=answer_time), Looker(servers, timeout=answer_time)
        stack.callback(looker.close)
        stack.callback(beside.close)
        before = looker.look()
        beside.look()
        if not before.servers[0].alive:
            raise ServerUnavailable(f"server 0, which knows the workers, does not answer: {before.servers[0].error}")
        found = _chosen(before, workers)
        wish = _Wish(servers, steps, found.asked, until, int(answer_time * 1000))
        seen, looked = before, time.monotonic()
        while set(found.asked) - set(found.heard) and time.monotonic() < until:
            wish.say()
            wish.hear(found)
            if not any(_may_answer(seen, worker) for worker in found.asked if worker not in found.heard):
                wish.hear(found)
                break
            time.sleep(_EVERY)
            if time.monotonic() - looked > _LOOK:
                seen, looked = looker.look(), time.monotonic()
        if late := [worker for worker in found.asked if worker not in found.heard]:
            seen = looker.look()
            found.missing = {worker: _why(worker, before, seen) for worker in late}
        found.servers = beside.look().servers
    return found


def _chosen(sight: Sight, workers: Sequence[int] | None) -> Gathered:
    known = {worker.index: worker for worker in sight.workers}
    if workers is None:
        there = [index for index, worker in known.items() if _trains(worker)]
        if not there:
            raise InvalidArgument(
                "no worker of this job is there to be traced: it has not begun or has ended, or its workers have "
                "FLOTA_OBSERVE=0"
            )
        return Gathered(there[:MOST_UNNAMED], len(there[MOST_UNNAMED:]))
    if unknown := [worker for worker in workers if worker not in known]:
        raise InvalidArgument(
            f"worker {unknown[0]} has told nothing: those that have are {', '.join(map(str, known)) or 'none'}"
        )
    return Gathered(sorted(set(workers)))


def _trains(worker: Worker) -> bool:
    return not worker.silent and worker.note.get("phase") != "finished"


def _may_answer(sight: Sight, index: int) -> bool:
    """Also while server 0 is away: it comes back without the workers' notes."""
    worker = next((worker for worker in sight.workers if worker.index == index), None)
    return worker is None or not sight.servers[0].alive or _trains(worker)


def _why(index: int, before: Sight, now: Sight) -> str:
    first, last = (next((w for w in sight.workers if w.index == index), None) for sight in (before, now))
    if not now.servers[0].alive:
        return f"server 0 does not answer: {now.servers[0].error}"
    if last is None or first is None:
        return "it has told nothing since server 0 was started again"
    if last.note.get("phase") == "finished":
        return "it has finished"
    if last.silent:
        return f"it has said nothing for {clock(last.age)}"
    step = last.note.get("step")
    if step == first.note.get("step"):
        return f"it made no step in this time: it is at step {step} ({last.note.get('phase')})"
    return f"it is at step {step}, and made no whole one since it heard of this: give --timeout more seconds"


class _Wish:
    """One wish, on its way to all workers, and their answers on the way back."""

    def __init__(self, servers: Sequence[str], steps: int, workers: Sequence[int], until: float, time_ms: int) -> None:
        self._client = connect(servers)
        self._id = uuid.uuid4().hex
        self._steps = steps
        self._workers = list(workers)
        self._until = until
        self._time_ms = time_ms
        self._said = -_AGAIN
        self._version: int | None = None  # of the newest note that is known

    def say(self) -> None:
        now = time.monotonic()
        if now - self._said < _AGAIN:
            return
        left = max(self._until - now, 0.1)
        asked = {
            "id": self._id, "steps": self._steps, "workers": self._workers,
            "seconds": round(max(left - _MARGIN, left / 2), 1),
        }  # fmt: skip
        wish = json.dumps({"until": round(time.time() + left, 1), "trace": asked}, separators=(",", ":")).encode()
        try:
            version = self._client.post(Topic.wish, 0, wish, 0, self._time_ms).wish_version
        except FlotaError:
            # A server that is away may come back; one that refuses will again.
            if self._version is None:
                raise
            return
        # Server 0 counts anew after it was started again.
        if self._version is None or version < self._version:
            self._version = version
        self._said = now

    def hear(self, found: Gathered) -> None:
        """Takes the answers that have come since."""
        assert self._version is not None
        with contextlib.suppress(FlotaError):
            while True:
                began = time.perf_counter()
                notes = self._client.observe(0, _core.OBSERVE_TRACES, self._version, self._time_ms).notes
                trip = time.perf_counter() - began
                now = time.time()
                for note in notes:
                    self._version = max(self._version, note.version)
                    trace = read(note.rank, note.bytes)
                    if trace is not None and trace.name == self._id and note.rank in self._workers and trace.steps:
                        arrived = now - note.age_ms / 1000
                        found.heard[note.rank] = Heard(trace, arrived, trip + _MILLISECOND)
                if not notes:
                    return
