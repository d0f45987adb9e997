"""The workers of the job as datasets and metrics see them: who is beside this one, and how to hear from all.

``flota.init_worker`` says who they are; before it, and without servers, a process is the one worker of its job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from flota.client import Client


class Workers(Protocol):
    @property
    def index(self) -> int:
        """This worker's place among ``count``."""

    @property
    def count(self) -> int: ...

    @property
    def client(self) -> Client | None:
        """The connection to the servers; None: there are none."""

    @property
    def in_step(self) -> bool:
        """Whether all workers make each step together, and runs are to be the same bit for bit (sync mode)."""

    @property
    def steps(self) -> int:
        """Steps that this worker has made."""

    @property
    def applied(self) -> int:
        """How many of them are in the tables for good: what the rest has learnt is lost if this process dies."""

    def gather(self, name: str, payload: bytes) -> list[bytes]:
        """Every worker's bytes, in the order of the workers, on every worker. ``name`` tells apart what is gathered:
        all must ask for the same."""

    def idle(self) -> None:
        """Before this worker waits for what others give back: the tables have all it has learnt, and until its next
        step nobody waits for it."""


class Alone:
    """A process that is the one worker of its job."""

    index = 0
    count = 1
    client = None
    in_step = False
    steps = 0
    applied = 0

    def gather(self, name: str, payload: bytes) -> list[bytes]:
        return [payload]

    def idle(self) -> None:
        """There is nobody to wait for."""


_current: Workers = Alone()


def current() -> Workers:
    return _current


def meet(workers: Workers) -> None:
    """From here on these are the workers of the job."""
    global _current
    _current = workers
