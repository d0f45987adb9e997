"""Optimizers: torch's, by Paddle's names and definitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch

from flota.communicator.optimizer import DistributedOptimizer
from flota.errors import InvalidArgument
from flota.paddle.attributes import ParamAttr
from flota.paddle.graph.program import Training
from flota.paddle.graph.training import trained_parameters
from flota.paddle.graph.variable import Variable

Parameters = Sequence[tuple[ParamAttr, torch.Tensor]]


class Optimizer(ABC):
    """What all share. ``learning_rate`` is a number or a scheduler."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        self._rate = learning_rate
        self._parameters = parameters
        self._weight_decay = weight_decay
        self._grad_clip = grad_clip
        self.strategy: Any = None
        self.distributed = False

    @abstractmethod
    def make(self, groups: list[dict[str, Any]], rate: float) -> torch.optim.Optimizer:
        """The torch optimizer of these groups."""

    def get_lr(self) -> float:
        return float(self._rate()) if callable(self._rate) else float(self._rate)

    def set_lr(self, value: float) -> None:
        if callable(self._rate):
            raise InvalidArgument("the learning rate is a scheduler's: set_lr would be undone by its next step")
        self._rate = value

    def minimize(
        self,
        loss: Any,
        startup_program: Any = None,
        parameters: Any = None,
        no_grad_set: Any = None,
    ) -> tuple[list[Any], list[Any]]:
        """From now on running the loss's program trains by it."""
        if not isinstance(loss, Variable):
            raise InvalidArgument("minimize takes a program's loss; eager losses: loss.backward() and step()")
        program = loss.program
        chosen = trained_parameters(program, loss, parameters or self._parameters, no_grad_set)
        program.trainings.append(Training(loss, self, chosen))
        program.version += 1
        return [], [(each, None) for each in chosen]

    def build(self, parameters: Parameters) -> torch.optim.Optimizer:
        """The torch optimizer of a program's parameters."""
        groups: dict[tuple[float, float], list[torch.Tensor]] = defaultdict(list)
        for attr, tensor in parameters:
            decay = attr.regularizer if attr.regularizer is not None else self._weight_decay
            groups[attr.learning_rate, _coefficient(decay)].append(tensor)
        rate = self.get_lr()
        made = [
            {"params": tensors, "lr": rate * times, "weight_decay": decay, "times": times}
            for (times, decay), tensors in groups.items()
        ]
        return self.make(made, rate)

    def before_step(self, optimizer: DistributedOptimizer) -> None:
        rate = self.get_lr()
        for group in optimizer.param_groups:
            group["lr"] = rate * group["times"]

    def clip(self, optimizer: DistributedOptimizer) -> None:
        if self._grad_clip is not None:
            self._grad_clip.clip(optimizer)

    def __str__(self) -> str:
        return f"{type(self).__name__}(learning_rate={self.get_lr():g})"


def _coefficient(decay: Any) -> float:
    return float(getattr(decay, "coefficient", decay) or 0.0)


class SGD(Optimizer):
    def make(self, groups: list[dict[str, Any]], rate: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(groups, rate)


class Momentum(Optimizer):
    def __init__(
        self, learning_rate: Any = 0.001, momentum: float = 0.9, parameters: Any = None, use_nesterov: bool = False,
        weight_decay: Any = None, grad_clip: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._momentum, self._nesterov = momentum, use_nesterov

    def make(self, groups: list[dict[str, Any]], rate: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(groups, rate, momentum=self._momentum, nesterov=self._nesterov)


class Adagrad(Optimizer):
    def __init__(
        self, learning_rate: Any, epsilon: float = 1e-6, parameters: Any = None, weight_decay: Any = None,
        grad_clip: Any = None, name: str | None = None, initial_accumulator_value: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._epsilon, self._initial = epsilon, initial_accumulator_value

    def make(self, groups: list[dict[str, Any]], rate: float) -> torch.optim.Optimizer:
        return torch.optim.Adagrad(groups, rate, eps=self._epsilon, initial_accumulator_value=self._initial)


class Adam(Optimizer):
    def __init__(
        self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
        parameters: Any = None, weight_decay: Any = None, grad_clip: Any = None, lazy_mode: bool = False,
        name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._betas, self._epsilon = (beta1, beta2), epsilon

    def make(self, groups: list[dict[str, Any]], rate: float) -> torch.optim.Optimizer:
        return torch.optim.Adam(groups, rate, betas=self._betas, eps=self._epsilon)
