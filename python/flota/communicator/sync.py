"""Sync mode: every step sees all workers' steps before it, and none of its own."""

from __future__ import annotations

import time
import weakref
from typing import ClassVar

from flota import _core
from flota.communicator.journey import Journey
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import RemoteTables, push_options
from flota.communicator.returning import WAY_SECONDS, Notes, Place, not_the_same, set_creating
from flota.data.reading import open_epochs
from flota.errors import FlotaError, NonFiniteValues
from flota.nn.transfer import to_host
from flota.timeline import span
from flota.workers import Epoch, GoesOn, Where

_GROUP = "flota/train/"


class SyncCommunicator:
    """Gradients of a step are held by the servers until all workers have finished it, then averaged and applied.

    Whoever waits for the others outside of a step (a barrier, the end) leaves first, so that nobody waits for him in
    turn: workers may have different amounts of data. Those who train on afterwards form a new group.

    A worker that was started again goes through its groups and steps as before, up to the first that it has not
    finished, and sends nothing on the way. If one server knows of a finish that others do not, they hold what belongs
    to it, and are told.
    """

    steps_wrapped: ClassVar[bool] = False

    def __init__(self, tables: RemoteTables, optimizer: DistributedOptimizer, rejoined: _core.Rejoined) -> None:
        self._tables = tables
        # Weak: the optimizer has this, and a model that is given up must go at once.
        self._optimizer: DistributedOptimizer = weakref.proxy(optimizer)
        self._job = tables.job
        self._groups = 0
        self._step = 0  # of the group
        self._trained = 0
        self._broken = False  # a step was sent in part
        self._last = rejoined.last
        self._target: Place | None = None  # where this worker was before it was started again, until it is there
        self._journey = Journey(self._job.client, self._job.rank, self._last)
        self._notes = Notes(self._job.client, rejoined)
        self._heard = time.monotonic()
        if self._last.group:
            number = int(self._last.group.removeprefix(_GROUP))
            self._target = (number + 1, 0) if self._last.leave else (number, self._last.step + 1)
            set_creating(tables, False)
            self._finish_again()
        tables.begin()
        if rejoined.starts > 1:
            self._note()

    # --- the way back ---

    def _finish_again(self) -> None:
        """The last step, on servers that have not heard of it or not applied it."""
        last, job = self._last, self._job
        if last.pending:
            job.client.patiently(
                f"step {last.step}",
                lambda: job.client.native.finish_step(
                    last.group,
                    last.step,
                    last.count,
                    job.rank,
                    job.world,
                    last.samples,
                    last.leave,
                    False,
                    job.client.time(None),
                    last.position,
                    last.pending,
                ),
            )

    @property
    def returning(self) -> bool:
        return self._target is not None

    def _go(self, place: Place) -> None:
        """On the way back: this is how far it is."""
        assert self._target is not None
        self._groups, self._step = place
        if place < self._target:
            if time.monotonic() - self._heard > WAY_SECONDS:
                self._note()
            return
        if place > self._target or self._trained != self._last.count:
            raise not_the_same(
                self._job.rank,
                f"it had trained {self._last.count} steps, the last of them in group {self._target[0]} of those that "
                f"barriers separate, and has come to group {place[0]} after {self._trained}",
            )
        self._target = None
        set_creating(self._tables, True)
        self._tables.pull_dense()
        self._note()

    def _note(self) -> None:
        self._heard = time.monotonic()
        if self._target is None:
            self._notes.tell(self._trained)
        else:
            self._notes.repeat(self._trained, max(self._last.count, 1))

    def _jump(self, there: Where) -> None:
        if self._target is None:
            return
        self._trained = self._optimizer.steps = there.trained
        self._job.client.native.arrivals = there.arrivals
        self._go((there.group, there.step))

    def skip(self) -> None:
        if self._target is not None:
            # If it had left its group to wait for others, that is still to come.
            group, step = (self._target[0] - 1, self._last.step) if self._last.leave else self._target
            self._jump(Where(group, step, self._last.count, self._journey.arrivals))

    def where(self) -> Where:
        return Where(self._groups, self._step, self._trained, self._job.client.native.arrivals)

    def begin_epoch(self, epoch: Epoch) -> GoesOn | bool:
        epochs = self._journey.epochs
        ended = epochs.end_of(epoch)
        if ended is not None:
            self._jump(ended)
            return False
        goes_on = self._journey.goes_on(epoch)
        if goes_on is not None:
            self._jump(goes_on.where)
            return goes_on
        if self._target is not None and epochs.long_over(epoch):
            return False
        epochs.begin(epoch)
        return True

    def end_epoch(self, epoch: Epoch) -> None:
        self._journey.epochs.end(epoch, self.where() if self._target is None else None)

    def saved(self, place: str) -> None:
        self._notes.tell_saved(place)

    # --- steps ---

    def step(self, optimizer: DistributedOptimizer) -> None:
        if self._broken:
            raise FlotaError(
                f"worker {self._job.rank}: an earlier step failed after part of it was sent; the servers still hold "
                "that part, so training cannot go on in this job"
            )
        if self._target is not None:
            self._trained += 1
            self._go((self._groups, self._step + 1))
            return
        self._broken = True
        self._push(optimizer)
        self._trained += 1
        self._finish(float(optimizer.samples()), leave=False)
        self._tables.pull_dense()
        self._broken = False

    def _push(self, optimizer: DistributedOptimizer) -> None:
        job = self._job
        group = _core.hash_name(self._group())
        learnt = [
            (trained, gradient)
            for trained in self._tables.sparse
            if (gradient := trained.handle.gradient()) is not None
        ]
        rows = to_host([gradient.values for _, gradient in learnt])
        gradients = self._tables.gradients()
        parts = [dense.table.part(values, dense.lr()) for dense, values in gradients]
        options = push_options(0.0, self._step, group, job.rank)
        # Dense ones first: they may be refused (values that dense_dtype cannot hold), and then nothing was sent.
        try:
            job.client.native.push_dense(parts, options, job.client.time(None))
        except NonFiniteValues:
            self._broken = False
            raise
        for (trained, gradient), values in zip(learnt, rows, strict=True):
            options = push_options(trained.lr(), self._step, group, job.rank)
            trained.store.table.push_batch(gradient.keys.batch, values, options)

    def stepped(self) -> None:
        """Workers of this mode do not leave."""

    def pause(self) -> None:
        """Leaves the group: the others' next steps do not wait for this worker."""
        if self._target is not None:
            self._go((self._groups + 1, 0))
            return
        self._journey.epochs.meet()
        self._finish(0.0, leave=True)
        self._groups += 1
        self._step = 0

    def resume(self) -> None:
        for trained in self._tables.sparse:
            trained.store.forget_ahead()
        self._tables.pull_dense()

    def idle(self) -> None:
        """Steps are made together: nobody gives data back."""

    def applied(self, steps: int) -> int:
        return steps

    def settle(self) -> None:
        """Between two steps nothing is under way."""

    def check_whole(self) -> None:
        job = self._job
        job.client.native.check_finishes(job.rank, job.world, job.client.time(None))

    def loaded(self, optimizer: DistributedOptimizer) -> None:
        self._trained = optimizer.steps
        self.resume()

    def _group(self) -> str:
        return f"{_GROUP}{self._groups}"

    def _finish(self, samples: float, leave: bool) -> None:
        job = self._job
        stores = [trained.store for trained in self._tables.sparse]
        told = [store.has_ahead() for store in stores]
        position = self._journey.position(open_epochs())
        with span("wait"):
            changed = job.client.patiently(
                f"step {self._step}",
                lambda: job.client.native.finish_step(
                    self._group(),
                    self._step,
                    self._trained,
                    job.rank,
                    job.world,
                    samples,
                    leave,
                    any(told),
                    job.client.time(None),
                    position,
                ),
            )
        self._journey.forget_open()
        self._step += 1
        for store, was_told in zip(stores, told, strict=True):
            if was_told:
                store.refresh(changed.get(store.table.id, b""))
            else:
                store.forget_ahead()  # what was begun after the question was asked
