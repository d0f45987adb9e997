"""Async mode: a push is applied on arrival, a pull returns what is there."""

from __future__ import annotations

from collections import deque

import torch

from flota import _core
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import RemoteTables, push_options
from flota.strategy import Async


class AsyncCommunicator:
    """Pushes run in the background, so many at most; the next dense parameters come while the model computes."""

    def __init__(self, tables: RemoteTables, mode: Async) -> None:
        self._tables = tables
        self._job = tables.job
        self._most = mode.send_queue_size
        self._step = 0
        self._pushes: deque[_core.Pending] = deque()
        self._pull: tuple[_core.Pending, list[torch.Tensor]] | None = None
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
        # Copies: the next backward pass may write into the model's own gradients while these are still being sent.
        gradients = [(dense, values.clone()) for dense, values in self._tables.gradients()]
        if gradients:
            parts = [dense.table.part(values, dense.lr()) for dense, values in gradients]
            self._pushes.append(client.native.push_dense_async(parts, push_options(0.0, self._step), time, gradients))
        self._settle(self._most)
        self._exchange_dense()

    def pause(self) -> None:
        """All of this worker's pushes are applied, and the model has what the servers have."""
        self._settle(0)
        if self._pull is not None:
            self._pull[0].wait(self._job.client.time(None))
            self._pull = None
        self._tables.pull_dense()

    def resume(self) -> None:
        self._tables.pull_dense()

    def settle(self) -> None:
        self._settle(0)

    def loaded(self, optimizer: DistributedOptimizer) -> None:
        self._step = optimizer.steps
        self.resume()

    def _settle(self, most: int) -> None:
        """Waits until no more than so many pushes are under way; an error of one of them is raised here."""
        time = self._job.client.time(None)
        while self._pushes and (len(self._pushes) > most or self._pushes[0].done()):
            self._pushes.popleft().wait(time)

    def _exchange_dense(self) -> None:
        """Takes what was pulled while this step computed, and begins to pull for the next."""
        if not self._tables.dense:
            return
        client = self._job.client
        if self._pull is not None:
            pending, values = self._pull
            pending.wait(client.time(None))
            self._tables.take_dense(values)
        else:
            values = [torch.empty(dense.table.shape) for dense in self._tables.dense]
        parts = [dense.table.part(value) for dense, value in zip(self._tables.dense, values, strict=True)]
        pending = client.native.pull_dense_async(parts, client.time(None), (self._tables, values))
        self._pull = (pending, values)
