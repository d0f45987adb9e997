"""What all metrics have in common: they collect, and give a value for this process or for all workers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from flota.metrics import inputs
from flota.metrics.exchange import exchange
from flota.metrics.inputs import Array, Floats
from flota.standing import worker as standing


class Metric(ABC):
    """Collects by ``update(...)``, which each metric has in its own form. One that refuses its arguments changes
    nothing."""

    def compute(self) -> float:
        """The value of what this process has collected since the start or the last ``reset()``."""
        return self._told(self._value([self._state()]))

    def compute_global(self) -> float:
        """The value of what all workers have collected together, the same bits on every worker.

        All workers make this call, in the same order among others of its kind; it waits for the slowest until the job's
        deadline. A process alone is the one worker of its job.
        """
        return self._told(self._value(exchange(self._asks(), self._state())))

    def _told(self, value: float) -> float:
        """To whoever looks on."""
        standing.measured(**{type(self).__name__.lower(): value})
        return value

    @abstractmethod
    def reset(self) -> None:
        """Forgets what was collected."""

    @property
    @abstractmethod
    def samples(self) -> int:
        """How many samples this process has collected."""

    @abstractmethod
    def _settings(self) -> dict[str, object]:
        """What makes two metrics of a kind different."""

    @abstractmethod
    def _state(self) -> Sequence[Array]:
        """What was collected, as it goes to the other workers."""

    @abstractmethod
    def _value(self, states: Sequence[Sequence[Array]]) -> float:
        """The value of the states of some workers, in their order."""

    def _asks(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in self._settings().items())})"

    def __repr__(self) -> str:
        return f"<{self._asks()}: {self.samples} samples>"


class RatioOfSums(Metric):
    """A metric that is one sum over samples by another, such as a mean; NaN where the other is zero."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._sums = np.zeros(2)
        self._samples = 0

    @property
    def samples(self) -> int:
        return self._samples

    def _settings(self) -> dict[str, object]:
        return {}

    def _collect(self, above: Floats, below: Floats, weights: Any) -> None:
        """Adds these samples to the sum above and to the one below, each times its weight (None: 1)."""
        count = len(above)
        with np.errstate(over="ignore", invalid="ignore"):
            if weights is not None:
                factors = inputs.weights(type(self).__name__, weights, count)
                above, below = above * factors, below * factors
            self._sums += (above.sum(), below.sum())
        self._samples += count

    def _state(self) -> Sequence[Array]:
        return [self._sums]

    def _value(self, states: Sequence[Sequence[Array]]) -> float:
        sums = np.zeros(2)
        with np.errstate(over="ignore", invalid="ignore"):
            for (part,) in states:
                sums = sums + part
        above, below = sums.tolist()
        return above / below if below != 0 else math.nan
