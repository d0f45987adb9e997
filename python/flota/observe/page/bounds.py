"""How many may be connected at a time, and for how long without asking for anything."""

from __future__ import annotations

import asyncio
import time

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 96
SILENCE = 5.0  # seconds from a connection's beginning until its first request is there whole


class Bounded(H11Protocol):
    """uvicorn's protocol, for a page that strangers may reach. One connection too many sends the oldest away that waits
    for no answer; where all do, itself."""

    _began = 0.0
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._began = time.monotonic()
        self._patience = self.loop.call_later(SILENCE, self._end_if_silent)
        if len(self.connections) > MOST_CONNECTIONS:
            idle = [one for one in self.connections if isinstance(one, Bounded) and one.is_idle]
            min(idle, key=lambda one: one._began, default=self).transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        cycle: object = self.cycle  # None before the first request, whatever uvicorn's types say
        return cycle is None or bool(getattr(cycle, "response_complete", True))

    def _end_if_silent(self) -> None:
        cycle: object = self.cycle
        if cycle is None:
            self.transport.close()
