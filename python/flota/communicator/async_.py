"""Async mode: a push is applied on arrival, a pull returns what is there."""

from __future__ import annotations

from collections import deque

from flota import _core
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import RemoteTables, push_options
from flota.strategy import Async


class AsyncCommunicator:
    """Pushes of rows run in the background, so many at most; a step ends with the servers' dense parameters."""

    def __init__(self, tables: RemoteTables, mode: Async) -> None:
        self._tables = tables
        self._job = tables.job
        self._most = mode.send_queue_size
        self._step = 0
        self._pushes: deque[_core.Pending] = deque()
        tables.begin()

    def step(self, optimizer: DistributedOptimizer) -> None:
        self._step += 1
        client = self._job.client
        time = client.time(None)
        for trained in self._tables.sparse:
            gradient = trained.handle.gradient()
            if gradient is None:
                continue
            values = gradient.values.to("cpu").contiguous()
            options = push_options(trained.lr(), self._step)
            table = trained.store.table
            self._pushes.append(
                client.native.push_batch_async(
                    table.native, gradient.keys.batch, values.data_ptr(), options, time, (table, values)
                )
            )
        self._settle(self._most)
        self._exchange_dense(time)

    def pause(self) -> None:
        """All of this worker's pushes are applied, and the model has what the servers have."""
        self._settle(0)
        self._tables.pull_dense()

    def resume(self) -> None:
        self._tables.pull_dense()

    def _settle(self, most: int) -> None:
        """Waits until no more than so many pushes are under way; an error of one of them is raised here."""
        time = self._job.client.time(None)
        while self._pushes and (len(self._pushes) > most or self._pushes[0].done()):
            self._pushes.popleft().wait(time)

    def _exchange_dense(self, time: int) -> None:
        """Pushes the dense gradients, and brings what the servers then have into the model.

        Not beside the next step: parameters without a worker's own last two steps make adaptive rules overshoot, most
        of all at the start. It cost benchmarks/accuracy.py 0.01 of AUC, and more at higher learning rates.
        """
        gradients = self._tables.gradients()
        if gradients:
            parts = [dense.table.part(values, dense.lr()) for dense, values in gradients]
            self._job.client.native.push_dense(parts, push_options(0.0, self._step), time)
        self._tables.pull_dense()
