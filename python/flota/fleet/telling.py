"""Tells server 0 once a second how this worker does, for whoever looks on, and does what these wish for: a trace."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from typing import Any

from flota import timeline
from flota._core import Topic
from flota.client import Client
from flota.errors import FlotaError
from flota.standing import worker

_EVERY = 1.0  # seconds
_CALL_MS = 5000
_LAST_WAIT = 2.0  # seconds
_MOST_TRACE = 1 << 20  # bytes
_MOST_STEPS = 1000


class Teller:
    """At work from here until ``close``. A server that is away, or refuses notes, disturbs nothing."""

    def __init__(self, client: Client, index: int) -> None:
        self._client = client
        self._index = index
        self._ended = threading.Event()
        self._wish = 0  # the version of the last that was heard
        self._traces: list[bytes] = []  # to be sent
        # A daemon: it may be in a call to a server that is away when the script ends.
        self._thread = threading.Thread(target=self._tell, name="flota telling", daemon=True)
        self._thread.start()

    def close(self, phase: str) -> None:
        """The last note: how this worker ended."""
        worker.phase = phase
        self._ended.set()
        self._thread.join(_LAST_WAIT)

    def _tell(self) -> None:
        while True:
            last = self._ended.wait(_EVERY)
            # The next note says all that this one would have.
            with contextlib.suppress(FlotaError, ValueError, TypeError):
                self._send()
            if last:
                return

    def _send(self) -> None:
        reply = self._post(Topic.state, json.dumps(worker.note(), allow_nan=False).encode())
        if reply.wish_version != self._wish:
            if self._wish or not self._is_old(reply.wish):
                self._fulfil(reply.wish)
            self._wish = reply.wish_version
        while self._traces:
            self._post(Topic.trace, self._traces[0])
            self._traces.pop(0)

    def _post(self, topic: Topic, note: bytes) -> Any:
        return self._client.native.post(topic, self._index, note, self._wish, _CALL_MS)

    @staticmethod
    def _is_old(wish: bytes) -> bool:
        """Of a wish that was there when this worker came: whether nobody waits for it any more."""
        try:
            return bool(json.loads(wish)["until"] < worker.note()["time"])
        except (ValueError, KeyError, TypeError):
            return True

    def _fulfil(self, wish: bytes) -> None:
        try:
            asked = json.loads(wish)["trace"]
            name, steps = str(asked["id"])[:64], int(asked["steps"])
        except (ValueError, KeyError, TypeError):
            return  # of a version that can do more
        if 1 <= steps <= _MOST_STEPS:
            timeline.trace(steps, lambda trace: self._traces.append(_packed(name, trace)))


def _packed(name: str, trace: timeline.Trace) -> bytes:
    """A trace as a note, with as many of its events as there is room for, and how many there were."""
    first = min((event.began for event in trace.events), default=0.0)
    threads = list(dict.fromkeys(event.thread for event in trace.events))
    events = [
        [event.part, round((event.began - first) * 1e6), round(event.seconds * 1e6), threads.index(event.thread)]
        for event in sorted(trace.events, key=lambda event: event.began)
    ]
    while True:
        note = {"id": name, "pid": os.getpid(), "steps": trace.steps, "threads": threads, "events": events}
        packed = json.dumps(note, separators=(",", ":")).encode()
        if len(packed) <= _MOST_TRACE:
            return packed
        events = events[: len(events) * 3 // 4]
