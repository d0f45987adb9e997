"""How far this worker is ahead of the others."""

from __future__ import annotations

from flota.communicator.remote import Job
from flota.timeline import span


class Clock:
    """Counts this worker's steps at the first server, which knows all workers' and lets nobody run too far ahead.

    Workers that wait for each other outside of a step leave their group; those who train on afterwards form a new one,
    and count from 0.
    """

    def __init__(self, job: Job, max_staleness: int, rests: bool = False) -> None:
        self._job = job
        self._behind = max_staleness
        self._groups = 0
        self._steps = 0
        self._rests = rests  # one that begins when others have: it counts on from where they are

    def advance(self) -> tuple[int, int]:
        """At the end of a step: waits until no worker is further behind than allowed. Returns how many steps every
        worker has finished, and how many it must have."""
        if self._rests:
            # The others have gone on meanwhile: it counts on from where they are.
            self._steps = max(self._steps, self._tell(rest=True))
            self._rests = False
        self._steps += 1
        return self._tell(), max(self._steps - self._behind, 0)

    def rest(self) -> None:
        """Nobody waits for this worker until its next step. It stays in its group."""
        self._tell(rest=True)
        self._rests = True

    def leave(self) -> None:
        self._tell(leave=True)
        self._groups += 1
        self._steps = 0
        self._rests = False

    def _tell(self, leave: bool = False, rest: bool = False) -> int:
        job = self._job
        group = f"flota/clock/{self._groups}"
        with span("wait"), job.client.saying_where():
            return job.client.native.advance(
                group, self._steps, self._behind, job.rank, job.world, leave, job.client.time(None), rest
            )
