"""Several threads that train one model, each on batches of its own.

Each thread has a copy of the model whose parameters are the model's own memory: what one thread's step changes, all see
at once, in the middle of their computations too, as in Hogwild. Forward and backward run side by side; steps are made
one after another.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from flota.communicator.optimizer import DistributedOptimizer
from flota.nn.prefetch import source_of
from flota.nn.table import TableParameter
from flota.timeline import span
from flota.training.outcome import Loss, Outcome
from flota.training.trainer import ModelTrainer, Times


def replica_of(model: torch.nn.Module) -> torch.nn.Module:
    """A copy that shares the model's memory and has gradients of its own."""
    made = copy.deepcopy(model)
    for own, shared in zip(made.parameters(), model.parameters(), strict=True):
        if not isinstance(own, TableParameter):
            own.data = shared.data
    for name, buffer in model.named_buffers():
        owner, _, last = name.rpartition(".")
        made.get_submodule(owner)._buffers[last] = buffer
    return made


class ReplicaTrainer:
    """Trains batches on a copy; its gradients become the model's for as long as a step takes."""

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Loss | None,
        times: Times,
        optimizer: DistributedOptimizer,
        lock: threading.Lock,
    ) -> None:
        self.model = replica_of(model)
        self._trainer = ModelTrainer(self.model, loss, times, None)
        self._pairs = list(zip(model.parameters(), self.model.parameters(), strict=True))
        self._optimizer = optimizer
        self._times = times
        self._lock = lock

    def __call__(self, batch: Any) -> Outcome:
        outcome = self._trainer.forward(batch)
        self._trainer.backward(outcome)
        with self._lock, self._times.of("step"):
            self._optimizer.zero_grad()
            for main, own in self._pairs:
                _hand_over(own, main)
            self._optimizer.step()
        return outcome


def _hand_over(own: torch.nn.Parameter, main: torch.nn.Parameter) -> None:
    if isinstance(own, TableParameter) and isinstance(main, TableParameter):
        main.take_gradients(own)
        return
    main.grad, own.grad = own.grad, None


class Shared:
    """A pass that several threads take batches from. What is trained is told in the order of the batches.

    ``steps`` is held by who makes a step, or tells what came of it.
    """

    def __init__(self, source: Iterable[Any], steps: threading.Lock) -> None:
        self._iterator = iter(source)
        self._taking = threading.Lock()
        self._steps = steps
        self._next = 0
        self._oldest = 0
        self._done: set[int] = set()
        self._source = source_of(self._iterator)

    def take(self) -> tuple[int, Any]:
        with span("read"), self._taking:
            batch = next(self._iterator)
            self._next += 1
            return self._next - 1, batch

    def trained(self, number: int) -> None:
        with self._steps:
            self._done.add(number)
            while self._oldest in self._done:
                self._done.remove(self._oldest)
                self._oldest += 1
                self._source.trained()

    def idle(self) -> None:
        with self._steps:
            self._source.idle()

    def close(self) -> None:
        """All threads have come to the end: what is left is told."""
        self._source.close()


class Part:
    """What one of the threads takes, as ``prefetch`` reads it."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._taken: deque[int] = deque()

    def __iter__(self) -> Part:
        return self

    def __next__(self) -> Any:
        number, batch = self._shared.take()
        self._taken.append(number)
        return batch

    def hold(self) -> None:
        """It always waits to be told."""

    def trained(self) -> None:
        self._shared.trained(self._taken.popleft())

    def idle(self) -> None:
        self._shared.idle()

    def close(self) -> None:
        """Others may still read."""


def in_threads(works: list[Callable[[], Iterator[Outcome]]], show: Callable[[Outcome], None]) -> None:
    """Runs all at once, and shows each outcome in turn. The first error ends all of them."""
    before = torch.get_num_threads()
    cores = max(1, before // len(works))
    lock = threading.Lock()
    errors: list[BaseException] = []

    def run(work: Callable[[], Iterator[Outcome]]) -> None:
        torch.set_num_threads(cores)
        try:
            for outcome in work():
                with lock:
                    show(outcome)
                if errors:
                    return
        except BaseException as error:  # raised where all are waited for
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), name=f"flota trainer {n}") for n, work in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        try:
            thread.join()
        except BaseException as error:  # Ctrl-C: each ends with the batch that it has
            errors.append(error)
            thread.join()
    torch.set_num_threads(before)
    if errors:
        raise errors[0]
