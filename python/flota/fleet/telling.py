"""Tells server 0 once a second how this worker does, for whoever looks on, and does what these wish for: a trace."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import Any

from flota._core import Topic
from flota.client import Client
from flota.errors import FlotaError
from flota.fleet.tracing import Tracer
from flota.standing import worker

_EVERY = 1.0  # seconds
_CALL_MS = 5000
_LAST_WAIT = 2.0  # seconds


class Teller:
    """At work from here until ``close``. A server that is away, or refuses notes, disturbs nothing."""

    def __init__(self, client: Client, index: int) -> None:
        self._client = client
        self._index = index
        self._ended = threading.Event()
        self._wish = 0  # the version of the last that was heard
        self._tracer = Tracer(index)
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
                self._send_trace(last=last)
            if last:
                self._tracer.close()
                return

    def _send(self) -> None:
        note = json.dumps(worker.note(), allow_nan=False).encode()
        began = time.perf_counter()
        reply = self._post(Topic.state, note)
        self._tracer.trip = time.perf_counter() - began
        if reply.wish_version != self._wish:
            self._tracer.wish(reply.wish, first=self._wish == 0)
            self._wish = reply.wish_version

    def _send_trace(self, *, last: bool) -> None:
        """One a second, so that whoever asked for it has time to see it before another takes its place."""
        note = self._tracer.next_note(last=last)
        if note is not None:
            self._post(Topic.trace, note)
            self._tracer.posted()

    def _post(self, topic: Topic, note: bytes) -> Any:
        return self._client.native.post(topic, self._index, note, self._wish, _CALL_MS)
