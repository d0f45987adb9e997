"""How one batch is trained: by the user's own step, or by a model and the job's optimizer."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from flota.communicator.optimizer import DistributedOptimizer
from flota.errors import InvalidArgument
from flota.training.outcome import Loss, Outcome, count_samples, inputs_and_label, outcome_of, predicted

Step = Callable[[Any], Any]


class Times:
    """Where the time goes, in seconds by part."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.spent[part] += time.perf_counter() - began

    def __str__(self) -> str:
        whole = sum(self.spent.values()) or 1.0
        parts = (f"{part} {seconds:.2f} s ({seconds / whole:.0%})" for part, seconds in self.spent.items())
        return ", ".join(parts)


class Trainer(Protocol):
    def __call__(self, batch: Any) -> Outcome: ...


class StepTrainer:
    """Calls a function that does it all."""

    def __init__(self, step: Step, times: Times) -> None:
        self._step = step
        self._times = times

    def __call__(self, batch: Any) -> Outcome:
        with self._times.of("step"):
            return outcome_of(self._step(batch), count_samples(batch))


class ModelTrainer:
    """Runs the model forward and backward and steps the optimizer."""

    def __init__(
        self, model: torch.nn.Module, loss: Loss | None, times: Times, optimizer: DistributedOptimizer | None
    ) -> None:
        self._model = model
        self._loss = loss
        self._times = times
        self._optimizer = optimizer

    def __call__(self, batch: Any) -> Outcome:
        outcome = self.forward(batch)
        if self._optimizer is not None:
            self._optimizer.zero_grad()
            self.backward(outcome)
            with self._times.of("step"):
                self._optimizer.step()
        return outcome

    def forward(self, batch: Any) -> Outcome:
        with self._times.of("forward"):
            if self._loss is None:
                return outcome_of(self._model(batch), count_samples(batch))
            inputs, label = inputs_and_label(batch)
            return predicted(self._model(*inputs), label, self._loss)

    def backward(self, outcome: Outcome) -> None:
        with self._times.of("backward"):
            if outcome.loss is None or not outcome.loss.requires_grad:
                raise _no_loss(self._model)
            outcome.loss.backward()  # type: ignore[no-untyped-call]
            outcome.loss = outcome.loss.detach()


def _no_loss(model: torch.nn.Module) -> Exception:
    return InvalidArgument(
        f"{type(model).__name__} returned no loss to train with: give loss=…, or let its forward(batch) return a loss"
    )
