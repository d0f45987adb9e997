"""Async mode: a push is applied on arrival, a pull returns what is there."""

from __future__ import annotations

from typing import ClassVar

from flota import _core
from flota.communicator.clock import Clock
from flota.communicator.merging import DenseGradient, RowsGradient, StepGradients
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.receiving import DenseReceiver
from flota.communicator.remote import RemoteTables
from flota.communicator.returning import StepsAlone, Way
from flota.communicator.sending import SendQueue
from flota.communicator.staleness import OwnStaleness
from flota.nn.transfer import to_host
from flota.strategy import Async


class AsyncCommunicator(StepsAlone):
    """A step hands its gradients to a queue; dense parameters come at its end or beside the next ones.

    With a bound on staleness, it first waits until its own earlier steps are applied and no worker is too far behind,
    and takes no dense parameters that are too old.

    A worker that was started again does not make the steps again that it knows to be in the tables; data sets go on
    from what was told of them.
    """

    steps_wrapped: ClassVar[bool] = False

    def __init__(
        self, tables: RemoteTables, mode: Async, optimizer: DistributedOptimizer, rejoined: _core.Rejoined
    ) -> None:
        self._tables = tables
        self._bound = mode.max_staleness
        self._queue = SendQueue(tables.job.client, mode)
        self._receiver = DenseReceiver(tables, self._queue, mode)
        # A worker that begins when others have counts on from where they are.
        behind = rejoined.starts > 1 or tables.job.late
        self._clock = None if mode.max_staleness is None else Clock(tables.job, mode.max_staleness, behind)
        # Dense gradients go out and parameters come back in one go at the end of each step, unless the mode would have
        # them merged, or received less often, beside the steps, or after others have finished theirs.
        self._dense_in_step = self._queue.in_order and self._receiver.in_step and self._clock is None
        self._own = OwnStaleness(tables) if self._queue.in_order and self._receiver.in_step else None
        tables.begin()
        self._way = Way(tables, optimizer, rejoined)

    def step(self, optimizer: DistributedOptimizer) -> None:
        if self._way.passes():
            return
        before = None if self._own is None else self._own.before()
        self._send(optimizer)
        if before is not None and self._own is not None:
            self._own.after(before)
        self._way.note(self._under_way())

    def stepped(self) -> None:
        if self._tables.job.member is not None:
            self._tables.job.member.go_if_asked()

    def _send(self, optimizer: DistributedOptimizer) -> None:
        gradients = self._gradients()
        if self._dense_in_step:
            # Dense ones first: they may be refused (values that dense_dtype cannot hold), and then nothing was sent.
            self._receiver.send_and_take(gradients)
            self._queue.put(gradients.without_dense())
            return
        self._queue.put(gradients)
        level, needed = 0, 0
        if self._clock is not None and self._bound is not None:
            self._queue.settle(self._bound)
            level, needed = self._clock.advance()
        self._receiver.exchange(level, needed)

    def pause(self) -> None:
        """All of this worker's pushes are applied, nobody waits for it, and the model has what the servers have."""
        self._queue.settle(0)
        if self._clock is not None:
            self._clock.leave()
        self._receiver.stop()
        self._tables.pull_dense(exact=True)
        if not self._under_way():
            self._way.meet()

    def resume(self) -> None:
        """The model has what others have pushed before they came here, too."""
        self._tables.pull_dense(exact=True)

    def idle(self) -> None:
        self._queue.settle(0)
        if self._clock is not None:
            self._clock.rest()

    def applied(self, steps: int) -> int:
        return self._queue.applied(steps)

    def settle(self) -> None:
        self._queue.settle(0)
        if not self._under_way():
            self._way.note_all()

    def _under_way(self) -> int:
        """Steps that the tables do not have: also those that were lost."""
        return self._way.steps - self.applied(self._way.steps)

    def loaded(self, optimizer: DistributedOptimizer) -> None:
        self._way.loaded()
        self.resume()

    def _gradients(self) -> StepGradients:
        found = [(trained, trained.handle.gradient()) for trained in self._tables.sparse]
        learnt = [(trained, gradient) for trained, gradient in found if gradient is not None]
        values = to_host([gradient.values for _, gradient in learnt])
        rows = [
            RowsGradient(trained.store.table, gradient.keys.batch, value, trained.lr())
            for (trained, gradient), value in zip(learnt, values, strict=True)
        ]
        # Copies, if they may still be under way when the next backward pass writes into the model's own gradients.
        dense = [
            DenseGradient(one, value if self._dense_in_step else value.clone(), one.lr())
            for one, value in self._tables.gradients()
        ]
        return StepGradients(self._way.steps, rows, dense, self._tables.seen.copy())
