"""A worker that was started again: how it comes back to where it was.

Its script runs from the top. What it had done before is in the tables, so until it is where it was, steps compute and
send nothing, and rows are looked at without being made. Data sets do not repeat: they go on where they were, and the
worker is there at once.
"""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flota import _core
from flota.client import Client
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import RemoteTables
from flota.errors import FlotaError
from flota.workers import Epoch, GoesOn, Where

_NOTE_SECONDS = 1.0
_NOTE_STEPS = 64
WAY_SECONDS = 2.0  # between two signs of life on the way
_ENDED = 64  # epochs that are told
_MOST_BYTES = 64 << 10

Place = tuple[int, int]  # group, and step in it


@dataclass(frozen=True)
class Restart:
    """This worker was started again. ``count``: how often; ``steps``: how many of its steps the tables have."""

    count: int
    steps: int
    _skip: Callable[[], None] = field(repr=False, compare=False)

    def skip(self) -> int:
        """For a loop that does not want to compute those steps once more: the next step is the one after them. Returns
        their number."""
        self._skip()
        return self.steps


class Notes:
    """Tells server 0 how many steps the tables have, now and then."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._told = 0
        self._when = time.monotonic()

    def steps(self, applied: int) -> None:
        late = time.monotonic() - self._when >= _NOTE_SECONDS
        if applied > self._told and (late or applied - self._told >= _NOTE_STEPS):
            self.tell(applied)

    def tell(self, applied: int, reached: int = 0, target: int = 0) -> None:
        self._client.native.note_steps(applied, reached, target, self._client.time(None))
        self._told, self._when = applied, time.monotonic()


class Way:
    """The way back, in modes in which workers step by themselves: so many steps are not made again."""

    def __init__(self, tables: RemoteTables, optimizer: DistributedOptimizer, rejoined: _core.Rejoined) -> None:
        self._tables = tables
        # Weak: the optimizer has the communicator, and a model that is given up must go at once.
        self._optimizer: DistributedOptimizer = weakref.proxy(optimizer)
        self._notes = Notes(tables.job.client)
        self.target = rejoined.steps if rejoined.starts > 1 else 0
        self._heard = time.monotonic()
        set_creating(tables, not self.returning)
        if rejoined.starts > 1:
            self._notes.tell(rejoined.steps, 0, max(self.target, 0))

    @property
    def returning(self) -> bool:
        return self._optimizer.steps < self.target

    def passes(self, step: int) -> bool:
        """Whether this step, the so manieth, was made before."""
        if step > self.target:
            return False
        if step == self.target:
            self._arrive()
        elif time.monotonic() - self._heard > WAY_SECONDS:
            self._heard = time.monotonic()
            self._notes.tell(self.target, step, self.target)
        return True

    def skip(self) -> int:
        """Goes there at once; returns how many steps there are then."""
        if self.returning:
            self._optimizer.steps = self.target
            self._arrive()
        return self._optimizer.steps

    def note(self, applied: int) -> None:
        self._notes.steps(applied)

    def _arrive(self) -> None:
        set_creating(self._tables, True)
        self._notes.tell(self.target)


def set_creating(tables: RemoteTables, creates: bool) -> None:
    """Whether rows that are pulled are made. On the way they are looked at only: some may have gone since."""
    for trained in tables.sparse:
        trained.store.creates = creates
        trained.store.forget_ahead()


class Journey:
    """A worker's way through the steps of sync training: what is told of it with every step, and what was told before
    the worker was started again."""

    def __init__(self, client: Client, last: _core.Finished | None) -> None:
        self._client = client
        told: dict[str, Any] = json.loads(last.position) if last is not None and last.position else {}
        # Epochs that are over for this worker, and where it was then.
        self._ended = [((name, number), Where(*there)) for name, number, there in told.get("ended", [])]
        self._open = [
            GoesOn(name, number, marks, lanes, Where(*there))
            for name, number, marks, lanes, there in told.get("open", [])
        ]
        self.arrivals: dict[str, int] = told.get("arrivals", {})
        self._encoded = ""
        self._encode_ended()

    def ended(self, epoch: Epoch) -> Where | None:
        return next((there for one, there in self._ended if one == (epoch.name, epoch.number)), None)

    def goes_on(self, epoch: Epoch) -> GoesOn | None:
        return next((one for one in self._open if (one.name, one.number) == (epoch.name, epoch.number)), None)

    def forget_open(self) -> None:
        """The worker has made another step: its data sets stand elsewhere."""
        self._open.clear()

    def end(self, epoch: Epoch, there: Where) -> None:
        if self.ended(epoch) is None:
            self._ended = [*self._ended, ((epoch.name, epoch.number), there)][-_ENDED:]
            self._encode_ended()

    def position(self, open_epochs: list[GoesOn]) -> bytes:
        """Where the worker stands, for a step that is being finished."""
        there = json.dumps([list(one) for one in open_epochs]), json.dumps(self._client.native.arrivals)
        text = f'{{"open":{there[0]},"arrivals":{there[1]},"ended":{self._encoded}}}'
        if len(text) > _MOST_BYTES and self._ended:
            self._ended = self._ended[len(self._ended) // 2 + 1 :]
            self._encode_ended()
            return self.position(open_epochs)
        return text.encode()

    def _encode_ended(self) -> None:
        self._encoded = json.dumps([[*one, there] for one, there in self._ended])


def not_the_same(rank: int, what: str) -> FlotaError:
    return FlotaError(
        f"worker {rank} was started again, and its script did not do what it did before: {what}. A script that is to "
        "be started again must do the same in the same order: seed what is random, and let nothing depend on time"
    )
