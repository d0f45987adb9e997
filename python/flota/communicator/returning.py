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
from typing import Any, NamedTuple

from flota import _core, report
from flota.client import Client
from flota.communicator.journey import MOST_BYTES, Epochs
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import RemoteTables
from flota.errors import FlotaError
from flota.workers import Epoch, GoesOn, Where

_NOTE_SECONDS = 1.0
_NOTE_STEPS = 64
WAY_SECONDS = 2.0  # between two signs of life on the way

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


def last_saved(rejoined: _core.Rejoined) -> str | None:
    """The last save of a line of base and deltas that this worker has told of before it was started again."""
    saved: str | None = _told(rejoined).get("saved")
    return saved


def _told(rejoined: _core.Rejoined) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(rejoined.position) if rejoined.position else {}
    return told


class Notes:
    """Tells server 0 how many steps the tables have, where the worker is in its script then, and what it saved last."""

    def __init__(self, client: Client, rejoined: _core.Rejoined) -> None:
        self._client = client
        self._steps = rejoined.steps
        told = _told(rejoined)
        self._saved: str | None = told.pop("saved", None)
        self.place = json.dumps(told)[1:-1]

    def tell(self, steps: int, place: str = "", way: tuple[int, int] = (0, 0)) -> None:
        """``place``: members of a JSON object. ``way``: as in ``repeat``."""
        self._steps, self.place = steps, place
        self.repeat(*way)

    def tell_saved(self, place: str) -> None:
        self._saved = place
        self.repeat()

    def repeat(self, reached: int = 0, target: int = 0) -> None:
        """What was told last; on the way to where others are also how far that is, of how many steps or meetings."""
        members = [f'"saved":{json.dumps(self._saved)}', *([self.place] if self.place else [])]
        position = f"{{{','.join(members)}}}".encode()
        self._client.native.note_steps(self._steps, reached, target, self._client.time(None), position)


class _Here(NamedTuple):
    """A place in a script: steps made in all, the optimizer's steps, and the rest as it is told."""

    made: int
    steps: int
    text: str


class Way:
    """The way back, in modes in which workers step by themselves: so many steps are not made again.

    Steps are counted as the script makes them, whatever number the optimizer gives them: a model that is loaded takes
    that number back. Whenever workers wait for each other the worker tells where it is before that. So a place is the
    one after a step and before whatever else comes until the next; and all gatherings that have been are before the
    first step that is not told.

    A worker that has joined late has no steps behind it, but what workers did together before is behind the others: it
    comes by there, and is told what was said then. Until it has, they wait for it beyond their deadlines.
    """

    def __init__(self, tables: RemoteTables, optimizer: DistributedOptimizer, rejoined: _core.Rejoined) -> None:
        self._tables = tables
        self._client = tables.job.client
        # Weak: the optimizer has the communicator, and a model that is given up must go at once.
        self._optimizer: DistributedOptimizer = weakref.proxy(optimizer)
        self._notes = Notes(self._client, rejoined)
        told = _told(rejoined)
        self.made = 0  # steps, those before this worker was started again included
        self.steps = optimizer.steps  # as the optimizer counts them, the one at hand included
        self._target: int = told.get("made", 0)
        self._there = Where(0, self._target, rejoined.steps, told.get("arrivals", {}))
        # One that others wait for is at most one gathering behind them.
        reached = self._there.arrivals
        behind = any(times - reached.get(name, 0) > 1 for name, times in rejoined.passed.items())
        catches_up = tables.job.late and (rejoined.starts == 1 or behind)
        self._held_before: dict[str, int] = rejoined.passed if catches_up else {}
        self._passed: dict[str, int] = rejoined.passed if rejoined.starts > 1 and not catches_up else {}
        self._epochs = Epochs(told, tables.job.rank)
        self._met: _Here | None = None  # the place at which workers have met last
        self._noted = _Here(self._target, rejoined.steps, self._notes.place)
        self._heard = self._when = time.monotonic()
        set_creating(tables, not self.returning)
        if self._held_before:
            self._catch_up()
        elif rejoined.starts > 1 or tables.job.late:
            self._notes.repeat(0, self._target)
        if tables.job.late and not self._held_before:
            report.joined()

    @property
    def returning(self) -> bool:
        return self.made < self._target

    def _meetings(self) -> tuple[int, int]:
        """How many of those that were held before this worker joined it has come by, of how many; 0 of 0: of all."""
        if not self._held_before:
            return 0, 0
        arrivals = self._client.native.arrivals
        reached = sum(min(arrivals.get(name, 0), times) for name, times in self._held_before.items())
        target = sum(self._held_before.values())
        if reached < target:
            return reached, target
        self._held_before = {}
        report.joined()
        return 0, 0

    def _catch_up(self) -> None:
        """Others may wait for this worker where it has not come to yet: they are told that it is on its way."""
        self._heard = time.monotonic()
        self._notes.repeat(*self._meetings())

    # --- on the way ---

    def passes(self) -> bool:
        """Whether the step that comes now was made before."""
        self.made += 1
        self.steps = self._optimizer.steps + 1
        if self.made > self._target:
            self._leave_behind()
            if self._held_before and (time.monotonic() - self._heard > WAY_SECONDS or not self._meetings()[1]):
                self._catch_up()
            return False
        if self.made == self._target:
            self._arrive()
        elif time.monotonic() - self._heard > WAY_SECONDS:
            self._heard = time.monotonic()
            self._notes.repeat(self.made, self._target)
        return True

    def skip(self) -> None:
        """Goes there at once."""
        self._jump(self._there)

    def begin_epoch(self, epoch: Epoch) -> bool:
        """False: it was over before."""
        end = self._epochs.end_of(epoch)
        if end is not None:
            self._jump(end)
            return False
        if self.returning:
            if self._epochs.went_on(epoch):
                self.skip()
            elif self._epochs.long_over(epoch):
                return False
        self._epochs.begin(epoch)
        return True

    def end_epoch(self, epoch: Epoch) -> None:
        if self._epochs.end_of(epoch) is not None:
            return
        if self._epochs.went_on(epoch) and not self.returning:
            self._leave_behind()
        here = Where(0, self.made, self.steps, self._client.native.arrivals)
        self._epochs.end(epoch, None if self.returning else here)
        self._met = None

    def _jump(self, there: Where) -> None:
        if not self.returning or there.step < self.made:
            return
        self.made = there.step
        self.steps = self._optimizer.steps = there.trained
        self._client.native.arrivals = {**self._client.native.arrivals, **there.arrivals}
        if self.made >= self._target:
            self._arrive()

    def _arrive(self) -> None:
        set_creating(self._tables, True)
        self._met = self._noted
        self._notes.repeat()

    def _leave_behind(self) -> None:
        """At the first step after the way, or the end of the epoch that was open: what workers have gathered before is
        behind this one, too, if its script went past it."""
        if self._passed:
            arrivals = self._client.native.arrivals
            for name, times in self._passed.items():
                arrivals[name] = max(times, arrivals.get(name, 0))
            self._client.native.arrivals = arrivals
            self._passed = {}

    # --- where it was ---

    def note(self, under_way: int = 0) -> None:
        """Now and then. ``under_way``: so many steps the tables do not have yet."""
        made = self.made - under_way
        late = time.monotonic() - self._when >= _NOTE_SECONDS
        if made > self._noted.made and (late or made - self._noted.made >= _NOTE_STEPS):
            self._tell(made)

    def note_all(self) -> None:
        """The tables have all steps; so they do whenever something is saved."""
        self._tell(self.made)

    def meet(self) -> None:
        """The same, before workers wait for each other."""
        if not self.returning:
            self._epochs.meet()
            if self._met is None or self._met.made != self.made:
                self._met = self._here(self.made)
            self._tell(self.made)

    def saved(self, place: str) -> None:
        self._notes.tell_saved(place)

    def loaded(self) -> None:
        self.steps = self._optimizer.steps

    def _tell(self, made: int) -> None:
        if self.returning:
            return
        here = self._met if self._met is not None and self._met.made == made else self._here(made)
        if here != self._noted:
            self._notes.tell(here.steps, here.text, self._meetings())
            self._noted, self._when = here, time.monotonic()

    def _here(self, made: int) -> _Here:
        arrivals = json.dumps(self._client.native.arrivals)
        text = f'"made":{made},"arrivals":{arrivals},{self._epochs.encoded()}'
        if len(text) > MOST_BYTES * 3 // 4 and self._epochs.shorten():
            return self._here(made)
        return _Here(made, self.steps - (self.made - made), text)


class StepsAlone:
    """What the communicators of such modes have in common."""

    _way: Way

    @property
    def returning(self) -> bool:
        return self._way.returning

    def skip(self) -> None:
        self._way.skip()

    def begin_epoch(self, epoch: Epoch) -> GoesOn | bool:
        return self._way.begin_epoch(epoch)  # leases tell how far it is

    def end_epoch(self, epoch: Epoch) -> None:
        self._way.end_epoch(epoch)

    def saved(self, place: str) -> None:
        self._way.saved(place)

    def where(self) -> Where | None:
        return None

    def check_whole(self) -> None:
        """Of a server that has lost something, in these modes, others go on without it."""


def set_creating(tables: RemoteTables, creates: bool) -> None:
    """Whether rows that are pulled are made. On the way they are looked at only: some may have gone since."""
    for trained in tables.sparse:
        trained.store.creates = creates
        trained.store.forget_ahead()


def not_the_same(rank: int, what: str) -> FlotaError:
    return FlotaError(
        f"worker {rank} was started again, and its script did not do what it did before: {what}. A script that is to "
        "be started again must do the same in the same order: seed what is random, and let nothing depend on time"
    )
