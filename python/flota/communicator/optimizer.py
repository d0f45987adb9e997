"""The distributed optimizer: to a script it is the torch optimizer that it wraps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, overload

import torch

from flota import report
from flota.communicator.finite import check_gradients
from flota.communicator.loss import last_loss
from flota.errors import InvalidArgument, NonFiniteValues
from flota.nn.table import TableParameter, is_table
from flota.standing import worker as standing
from flota.timeline import span
from flota.workers import Epoch, GoesOn, Where

# What of a group may change from step to step, or is not a setting of the rule.
_FREE = {"params", "param_names", "lr", "initial_lr", "foreach", "fused", "differentiable", "capturable"}


class Communicator(Protocol):
    """What a step does with gradients: one for each mode."""

    steps_wrapped: ClassVar[bool]  # whether its step is one of the wrapped optimizer

    @property
    def returning(self) -> bool:
        """Whether this worker was started again and is not yet where it was: its steps send nothing."""

    def skip(self) -> None:
        """Goes there at once."""

    def begin_epoch(self, epoch: Epoch) -> GoesOn | bool:
        """A pass over a data set begins: as in ``flota.workers``."""

    def end_epoch(self, epoch: Epoch) -> None:
        """It is over."""

    def where(self) -> Where | None:
        """The same."""

    def saved(self, place: str) -> None:
        """The last save of a line of base and deltas is there: told to this worker when it is started again."""

    def step(self, optimizer: DistributedOptimizer) -> None: ...

    def stepped(self) -> None:
        """The step is behind this worker, also for the optimizer, which has counted it."""

    def pause(self) -> None:
        """Before this worker waits for the others outside of a step."""

    def resume(self) -> None:
        """After it: the model has what all of them have learnt."""

    def idle(self) -> None:
        """Before this worker waits for data that others may give back: the tables have all it has learnt, and until its
        next step nobody waits for it."""

    def applied(self, steps: int) -> int:
        """How many of this worker's steps are in the tables for good. Any thread may ask."""

    def settle(self) -> None:
        """All that this worker has learnt is in the tables. It stays in its step group."""

    def check_whole(self) -> None:
        """Raises if a server lacks what this worker was answered for: before what it holds is published."""

    def loaded(self, optimizer: DistributedOptimizer) -> None:
        """The tables were loaded: this worker goes on from them, and from the optimizer's steps."""


class DistributedOptimizer(torch.optim.Optimizer):
    """Behaves as the optimizer that it wraps: ``param_groups``, ``zero_grad``, ``state_dict``, schedulers.

    ``step`` hands the gradients to the mode's communicator. Learning rates are read from ``param_groups`` in every
    step. Other settings are those that the tables were made with; changing them later is refused.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        # Not Optimizer.__init__: groups, state and defaults are the wrapped optimizer's own, so that whoever changes
        # one sees it in the other.
        self.wrapped = optimizer
        self.__dict__.update({name: value for name, value in optimizer.__dict__.items() if name != "step"})
        self.communicator: Communicator | None = None
        self.worker = 0
        self.steps = 0
        self._fixed: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._samples: int | None = None

    def tables(self) -> list[tuple[TableParameter, dict[str, Any]]]:
        """Every table that is trained, with its group."""
        return [
            (parameter, group) for group in self.param_groups for parameter in group["params"] if is_table(parameter)
        ]

    def samples(self) -> int:
        """How many samples the gradients are of: what the script has said, or what modules over tables have seen. 1
        where there are gradients that nobody has counted, 0 where there are none."""
        if self._samples is not None:
            return self._samples
        gradients = [table.gradient() for table, _ in self.tables()]
        counts = [gradient.samples for gradient in gradients if gradient is not None]
        return max(counts, default=int(any(parameter.grad is not None for parameter, _ in self.dense())))

    def fix(self, group: dict[str, Any]) -> None:
        """A table was made by this group's settings: from here on only its learning rate may change."""
        if not any(known is group for known, _ in self._fixed):
            self._fixed.append((group, {name: value for name, value in group.items() if name not in _FREE}))

    def _refuse_changes(self) -> None:
        for group, settings in self._fixed:
            for name, value in settings.items():
                if group.get(name, value) != value:
                    raise InvalidArgument(
                        f"{name} was {value!r} when the tables were made and is {group[name]!r} now: only the learning "
                        "rate may change while training (a scheduler that cycles momentum needs cycle_momentum=False)"
                    )

    def dense(self) -> list[tuple[torch.nn.Parameter, dict[str, Any]]]:
        """Every other parameter, with its group."""
        return [
            (parameter, group)
            for group in self.param_groups
            for parameter in group["params"]
            if not is_table(parameter)
        ]

    @overload
    def step(self, closure: None = None, *, samples: int | None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float], *, samples: int | None = None) -> float: ...

    def step(self, closure: Callable[[], float] | None = None, *, samples: int | None = None) -> float | None:
        """One step. ``samples``: how many the gradient is of, where modules over tables cannot tell (flat ids of
        several samples, models without tables); in sync mode workers' gradients weigh by it."""
        if self.communicator is None:
            raise InvalidArgument(
                "the first step comes before flota.init_worker(): call it after distributed_optimizer"
            )
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._samples = samples
        count = self.samples()
        self._refuse_changes()
        try:
            self._run_hooks("_optimizer_step_pre_hooks", closure)
            check_gradients(self, loss)  # after hooks, which may change them: nobody looks again before they are sent
            with span("push"):
                self.communicator.step(self)
            self._run_hooks("_optimizer_step_post_hooks", closure)
        except NonFiniteValues:
            # Whoever watches sees the step and the loss that ended it.
            report.step(self.steps + 1, count, last_loss() if loss is None else loss)
            raise
        for table, _ in self.tables():
            table.stepped()
        self.steps += 1
        seen = last_loss() if loss is None else loss
        standing.stepped(self.steps, count, seen, self.param_groups[0]["lr"] if self.param_groups else None)
        report.step(self.steps, count, seen)
        self.communicator.stepped()
        return loss

    def _run_hooks(self, which: str, closure: Callable[[], float] | None) -> None:
        """Step hooks, where no step of the wrapped optimizer runs them."""
        assert self.communicator is not None
        if not self.communicator.steps_wrapped:
            for hook in getattr(self, which, {}).values():
                hook(self, (closure,), {})

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
        groups = self.param_groups
        self.wrapped.load_state_dict(state_dict)
        # torch makes new groups; tables know the old ones, which therefore take their contents.
        for group, loaded in zip(groups, self.wrapped.param_groups, strict=True):
            group.clear()
            group.update(loaded)
        self.wrapped.param_groups = self.param_groups = groups
        self.state = self.wrapped.state

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if self.communicator is not None:
            raise InvalidArgument("the servers' tables are made: add parameter groups before flota.init_worker()")
        self.wrapped.add_param_group(param_group)

    def __repr__(self) -> str:
        return f"Distributed{self.wrapped!r}"
