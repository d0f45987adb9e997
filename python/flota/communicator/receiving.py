"""How an async worker's dense parameters come from the servers: pulled beside the steps, taken at the end of one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol

from flota.communicator.merging import StepGradients
from flota.communicator.remote import RemoteTables, push_options
from flota.communicator.sending import SendQueue, Sent, told_of_step
from flota.errors import FlotaError
from flota.strategy import Async
from flota.tables import DensePart, Future
from flota.timeline import span


class Pull(Protocol):
    """A pull under way; it has a deadline of its own."""

    def done(self) -> bool: ...

    def result(self) -> None: ...


class DenseReceiver:
    """Keeps the model's dense parameters as new as the mode says.

    A level says how new values are: every worker had finished so many steps when they were pulled.
    """

    def __init__(self, tables: RemoteTables, queue: SendQueue, mode: Async) -> None:
        self._tables = tables
        self._queue = queue
        self._every = mode.min_send_grad_num_before_recv
        self._thread = (
            ThreadPoolExecutor(1, thread_name_prefix="flota-receive") if mode.independent_recv_thread else None
        )
        # Whether every step ends with dense parameters that have its own gradients.
        self.in_step = self._thread is None and self._every == 1
        self._values = tables.empty_values(in_place=self.in_step)
        self._pull: Pull | None = None
        self._pull_level = 0
        self._level = 0  # of what the model has
        self._begun = 0  # gradients that had gone out when the last pull began

    def exchange(self, level: int, needed: int) -> None:
        """At the end of a step. What is pulled from here on has this level; what the model has afterwards has at least
        the needed one."""
        if not self._tables.dense:
            return
        if self._thread is None:
            if self._level < needed or self._queue.gone_out() - self._begun >= self._every:
                # Without the step's own gradients adaptive rules overshoot: 0.01 of AUC in benchmarks/accuracy.py.
                self._queue.wait_dense()
                self._begin(level, beside=False)
                self._take()
            return
        if self._pull is not None and (self._pull.done() or self._level < needed):
            self._take()
        if self._level < needed:
            self._begin(level, beside=False)
            self._take()
        elif self._pull is None and self._queue.gone_out() - self._begun >= self._every:
            self._begin(level, beside=True)

    def send_and_take(self, gradients: StepGradients) -> None:
        """At the end of a step: pushes its dense gradients, and takes what servers have then."""
        client = self._tables.job.client
        options = push_options(0.0, gradients.step)
        told_of_step(
            gradients.step,
            lambda: client.native.exchange_dense(
                gradients.dense_parts(), options, self._values.parts(), client.time(None)
            ),
        )
        self._tables.take_dense(self._values)

    def stop(self) -> None:
        """Ends a pull that is under way. Levels count from here on anew."""
        if self._pull is not None:
            self._take()
        self._level = 0

    def _begin(self, level: int, beside: bool) -> None:
        self._begun = self._queue.gone_out()
        self._pull_level = level
        client = self._tables.job.client
        parts, time = self._values.parts(), client.time(None)
        if beside and self._thread is not None:
            self._pull = self._thread.submit(self._pull_after, self._queue.newest(), parts, time)
        else:
            kept = (parts, self._values.values, self._values.versions)
            self._pull = Future(client.native.pull_dense_async(parts, time, kept), None)

    def _pull_after(self, sent: Sent | None, parts: list[DensePart], time: int) -> None:
        if sent is not None:
            # What it fails with is told to the training thread, by the queue.
            with suppress(FlotaError):
                sent.wait()
        with span("pull"):
            self._tables.job.client.native.pull_dense(parts, time)

    def _take(self) -> None:
        pull, self._pull = self._pull, None
        assert pull is not None
        with span("pull"):
            pull.result()
        self._tables.take_dense(self._values)
        self._level = self._pull_level
