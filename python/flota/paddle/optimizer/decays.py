"""1.x's decays: learning rates that follow the steps of the optimizer that has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flota.errors import InvalidArgument
from flota.paddle.optimizer.schedulers import LRScheduler, checked_pieces, noam, piece, polynomial


class StepwiseDecay(LRScheduler):
    """``rate`` of the number of steps that were made. The first optimizer that is given it advances it."""

    steps_itself = True

    def __init__(self, rate: Callable[[int], float]) -> None:
        self.rate = rate
        self.driver: Any = None
        super().__init__(0.0)

    def get_lr(self) -> float:
        return self.rate(self.last_epoch)

    def drive(self, optimizer: Any) -> None:
        """This optimizer is given it."""
        if self.driver is None:
            self.driver = optimizer

    def stepped(self, optimizer: Any) -> None:
        """This optimizer makes a step."""
        if optimizer is self.driver:
            self.step()


def _parts(decay_steps: int, staircase: bool) -> Callable[[int], float]:
    """How often ``decay_steps`` have passed; ``staircase``: in whole numbers."""
    if not decay_steps > 0:
        raise InvalidArgument(f"decay_steps is above 0, not {decay_steps}")
    return lambda step: float(step // decay_steps) if staircase else step / decay_steps


def exponential_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> StepwiseDecay:
    """By ``decay_rate`` each ``decay_steps``."""
    parts = _parts(decay_steps, staircase)
    return StepwiseDecay(lambda step: learning_rate * decay_rate ** parts(step))


def natural_exp_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> StepwiseDecay:
    """By ``exp(-decay_rate)`` each ``decay_steps``."""
    parts = _parts(decay_steps, staircase)
    return StepwiseDecay(lambda step: learning_rate * math.exp(-decay_rate * parts(step)))


def inverse_time_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> StepwiseDecay:
    """Divided by ``1 + decay_rate`` times how often ``decay_steps`` have passed."""
    parts = _parts(decay_steps, staircase)
    return StepwiseDecay(lambda step: learning_rate / (1 + decay_rate * parts(step)))


def polynomial_decay(
    learning_rate: float,
    decay_steps: int,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
) -> StepwiseDecay:
    """From ``learning_rate`` to ``end_learning_rate`` in ``decay_steps``."""
    span = learning_rate - end_learning_rate
    return StepwiseDecay(lambda step: span * polynomial(step, decay_steps, power, cycle) + end_learning_rate)


def piecewise_decay(boundaries: Sequence[int], values: Sequence[float]) -> StepwiseDecay:
    """``values[i]`` before step ``boundaries[i]``."""
    places, rates = checked_pieces(boundaries, values)
    return StepwiseDecay(lambda step: piece(step, places, rates))


def noam_decay(d_model: int, warmup_steps: int, learning_rate: float = 1.0) -> StepwiseDecay:
    """Linear for ``warmup_steps``, then by the root of the steps. It counts from 1."""
    return StepwiseDecay(lambda step: learning_rate * noam(step + 1, d_model, warmup_steps))


def cosine_decay(learning_rate: float, step_each_epoch: int, epochs: int) -> StepwiseDecay:
    """Half a cosine over the epochs, each of ``step_each_epoch`` steps."""
    parts = _parts(step_each_epoch, staircase=True)
    return StepwiseDecay(lambda step: learning_rate * 0.5 * (math.cos(parts(step) * math.pi / epochs) + 1))


def linear_lr_warmup(
    learning_rate: float | LRScheduler, warmup_steps: int, start_lr: float, end_lr: float
) -> StepwiseDecay:
    """From ``start_lr`` to ``end_lr`` in ``warmup_steps``, then ``learning_rate``; a decay has counted meanwhile."""
    if isinstance(learning_rate, LRScheduler) and not isinstance(learning_rate, StepwiseDecay):
        raise InvalidArgument("linear_lr_warmup takes a number or a decay of its kind; a scheduler needs LinearWarmup")

    def rate(step: int) -> float:
        if step < warmup_steps:
            return start_lr + (end_lr - start_lr) * step / warmup_steps
        return learning_rate.rate(step) if isinstance(learning_rate, StepwiseDecay) else float(learning_rate)

    return StepwiseDecay(rate)
