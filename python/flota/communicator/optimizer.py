"""The distributed optimizer: to a script it is the torch optimizer that it wraps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, overload

import torch

from flota import report
from flota.communicator.finite import check_gradients
from flota.communicator.loss import last_loss
from flota.errors import InvalidArgument, NonFiniteValues
from flota.nn.table import TableParameter


class Communicator(Protocol):
    """What a step does with gradients: one for each mode."""

    def step(self, optimizer: DistributedOptimizer) -> None: ...

    def pause(self) -> None:
        """Before this worker waits for the others outside of a step."""

    def resume(self) -> None:
        """After it: the model has what all of them have learnt."""

    def settle(self) -> None:
        """All that this worker has learnt is in the tables. It stays in its step group."""

    def loaded(self, optimizer: DistributedOptimizer) -> None:
        """The tables were loaded: this worker goes on from them, and from the optimizer's steps."""


class DistributedOptimizer(torch.optim.Optimizer):
    """Behaves as the optimizer that it wraps: ``param_groups``, ``zero_grad``, ``state_dict``, schedulers.

    ``step`` hands the gradients to the mode's communicator. Learning rates and other settings are read from
    ``param_groups`` in every step.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        # Not Optimizer.__init__: groups, state and defaults are the wrapped optimizer's own, so that whoever changes
        # one sees it in the other.
        self.wrapped = optimizer
        self.__dict__.update({name: value for name, value in optimizer.__dict__.items() if name != "step"})
        self.communicator: Communicator | None = None
        self.worker = 0
        self.steps = 0

    def tables(self) -> list[tuple[TableParameter, dict[str, Any]]]:
        """Every table that is trained, with its group."""
        return [
            (parameter, group)
            for group in self.param_groups
            for parameter in group["params"]
            if isinstance(parameter, TableParameter)
        ]

    def samples(self) -> int:
        """How many samples the gradients are of, as far as modules over tables have seen; 0: they have seen none."""
        gradients = [table.gradient() for table, _ in self.tables()]
        return max((gradient.samples for gradient in gradients if gradient is not None), default=0)

    def dense(self) -> list[tuple[torch.nn.Parameter, dict[str, Any]]]:
        """Every other parameter, with its group."""
        return [
            (parameter, group)
            for group in self.param_groups
            for parameter in group["params"]
            if not isinstance(parameter, TableParameter)
        ]

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        if self.communicator is None:
            raise InvalidArgument(
                "the first step comes before flota.init_worker(): call it after distributed_optimizer"
            )
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        samples = self.samples()
        try:
            check_gradients(self, loss)
            self.communicator.step(self)
        except NonFiniteValues:
            # Whoever watches sees the step and the loss that ended it.
            report.step(self.steps + 1, samples, last_loss() if loss is None else loss)
            raise
        self.steps += 1
        report.step(self.steps, samples, last_loss() if loss is None else loss)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        for table, _ in self.tables():
            # Never zeros: they would belong to this batch's rows, which the next one may not touch, and the gradient
            # may be on its way to the servers.
            table.grad = None
        for parameter, _ in self.dense():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                parameter.grad.detach_().zero_()

    def state_dict(self) -> dict[str, Any]:
        return self.wrapped.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.wrapped.load_state_dict(state_dict)
        # torch makes new ones.
        self.param_groups = self.wrapped.param_groups
        self.state = self.wrapped.state

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if self.communicator is not None:
            raise InvalidArgument("the servers' tables are made: add parameter groups before flota.init_worker()")
        self.wrapped.add_param_group(param_group)

    def __repr__(self) -> str:
        return f"Distributed{self.wrapped!r}"
