"""This worker's part in a job whose workers come and go: how many there are, and whether it is asked to leave."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from flota._core import TeamMode, TeamPart, TeamReply
from flota.client import Client
from flota.data.reading import reads
from flota.strategy import Async, Geo, Mode

# Seconds between two questions to server 0 while nothing else tells. The least that a scale takes to be heard of.
_LOOK_SECONDS = 1.0


def mode_of(mode: Mode) -> TeamMode:
    if isinstance(mode, Async):
        return TeamMode.asynchronous
    return TeamMode.geo if isinstance(mode, Geo) else TeamMode.synchronous


class Membership:
    """Of a worker of an async job. What it says changes in calls of the thread that asks, never in between.

    ``late``: the worker was none of those that the job began with.
    """

    def __init__(self, client: Client, rank: int, world: int) -> None:
        self._client = client
        self._rank = rank
        told = self._join(world)
        self.late: bool = told.late
        self.workers: int = told.workers
        self._wanted: int = told.wanted
        self._heard = time.monotonic()
        self._go: Callable[[], None] | None = None

    def _join(self, world: int) -> TeamReply:
        return self._client.native.team(
            TeamPart.join, self._client.time(None), self._rank, world, TeamMode.asynchronous
        )

    def when_asked(self, go: Callable[[], None]) -> None:
        """What ends this worker's part, and its script."""
        self._go = go

    @property
    def asked_to_leave(self) -> bool:
        """As far as it was heard."""
        return self._rank >= self._wanted

    def look(self) -> bool:
        """Asks, if that was not done for a while; whether this worker is to leave."""
        if not self.asked_to_leave and time.monotonic() - self._heard > _LOOK_SECONDS:
            self._heard = time.monotonic()
            told = self._client.native.team(TeamPart.ask, self._client.time(None))
            if told.workers == 0:
                # A server that has kept nothing was started in place of the first: it is told who there is.
                told = self._join(self.workers)
            self.workers, self._wanted = told.workers, told.wanted
        return self.asked_to_leave

    def gathered(self, workers: int) -> None:
        """So many were there when all workers were; each of them has heard the same."""
        self.workers = workers

    def pin(self, why: str) -> None:
        """From here on each worker's part of the data goes by the number of workers. Waits for those that are to leave,
        so that all who come here see the same number."""
        told = self._client.native.team(TeamPart.pin, self._client.time(None), self._rank, why=why)
        self.workers, self._wanted = told.workers, told.wanted

    def go_if_asked(self) -> None:
        """Between two steps, or before this worker waits for others: it leaves if it is to, and does not return. In the
        middle of a data set it does not; that ends first. Nor in a thread beside the script's."""
        if not self.look() or reads() or threading.current_thread() is not threading.main_thread():
            return
        if self._go is not None:
            self._go()

    def leave(self) -> None:
        """Says goodbye."""
        self._client.native.team(TeamPart.leave, self._client.time(None), self._rank)
