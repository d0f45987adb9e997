"""The workers of the job as datasets and metrics see them: who is beside this one, and how to hear from all.

``flota.init_worker`` says who they are; before it, and without servers, a process is the one worker of its job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from flota.client import Client


@dataclass
class Epoch:
    """What is handed out: the pieces of one pass over a data set."""

    name: str
    number: int
    pieces: int


class GoesOn(NamedTuple):
    """An epoch that a worker was in when it was started again, as it stood before the batch at hand: the script has to
    do once more what it does with that one, beside its step.

    ``marks``: for each thread that reads, its last piece, how many samples of it were trained, and whether it is done.
    ``lanes``: the threads in the order of their turns. ``where``: the worker was at that time.
    """

    name: str
    number: int
    marks: list[tuple[int, int, bool]]
    lanes: list[int]
    where: Where


class Where(NamedTuple):
    """A worker's place in its script: its group of steps, the step in it, steps trained in all, and how often it was at
    each barrier."""

    group: int
    step: int
    trained: int
    arrivals: dict[str, int]


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

    def gather_by_rank(self, name: str, payload: bytes) -> dict[int, bytes]:
        """The same by the workers' indices. Where workers come and go, in two such calls not all need be the same."""

    def leaves(self) -> bool:
        """Whether this worker is to leave the job: it takes no more data."""

    def fixed_by(self, what: str) -> None:
        """From here on each worker's part of the data goes by ``count``: it may not change any more."""

    def begin_epoch(self, epoch: Epoch) -> GoesOn | bool:
        """A pass that trains begins. True: it is new; False: it was over before this worker was started again; else
        where it goes on."""

    def end_epoch(self, epoch: Epoch) -> None:
        """It is over for this worker."""

    def where(self) -> Where | None:
        """Where this worker is, if that is to be told with its steps."""

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

    def gather_by_rank(self, name: str, payload: bytes) -> dict[int, bytes]:
        return {0: payload}

    def leaves(self) -> bool:
        return False

    def fixed_by(self, what: str) -> None:
        """There are no others."""

    def begin_epoch(self, epoch: Epoch) -> GoesOn | bool:
        return True

    def end_epoch(self, epoch: Epoch) -> None:
        """Nobody asks."""

    def where(self) -> Where | None:
        return None

    def idle(self) -> None:
        """There is nobody to wait for."""


_current: Workers = Alone()


def current() -> Workers:
    return _current


def meet(workers: Workers) -> None:
    """From here on these are the workers of the job."""
    global _current
    _current = workers
