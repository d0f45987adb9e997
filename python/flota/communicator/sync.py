"""Sync mode: every step sees all workers' steps before it, and none of its own."""

from __future__ import annotations

from typing import ClassVar

from flota import _core
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import RemoteTables, push_options
from flota.errors import FlotaError, NonFiniteValues
from flota.nn.transfer import to_host


class SyncCommunicator:
    """Gradients of a step are held by the servers until all workers have finished it, then averaged and applied.

    Whoever waits for the others outside of a step (a barrier, the end) leaves first, so that nobody waits for him in
    turn: workers may have different amounts of data. Those who train on afterwards form a new group.
    """

    steps_wrapped: ClassVar[bool] = False

    def __init__(self, tables: RemoteTables) -> None:
        self._tables = tables
        self._job = tables.job
        self._groups = 0
        self._step = 0  # of the group
        self._trained = 0
        self._broken = False  # a step was sent in part
        tables.begin()

    def step(self, optimizer: DistributedOptimizer) -> None:
        if self._broken:
            raise FlotaError(
                f"worker {self._job.rank}: an earlier step failed after part of it was sent; the servers still hold "
                "that part, so training cannot go on in this job"
            )
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

    def pause(self) -> None:
        """Leaves the group: the others' next steps do not wait for this worker."""
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

    def loaded(self, optimizer: DistributedOptimizer) -> None:
        self._trained = optimizer.steps
        self.resume()

    def _group(self) -> str:
        return f"flota/train/{self._groups}"

    def _finish(self, samples: float, leave: bool) -> None:
        job = self._job
        stores = [trained.store for trained in self._tables.sparse]
        told = [store.has_ahead() for store in stores]
        changed = job.client.native.finish_step(
            self._group(),
            self._step,
            self._trained,
            job.rank,
            job.world,
            samples,
            leave,
            any(told),
            job.client.time(None),
        )
        self._step += 1
        for store, was_told in zip(stores, told, strict=True):
            if was_told:
                store.refresh(changed.get(store.table.id, b""))
            else:
                store.forget_ahead()  # what was begun after the question was asked
