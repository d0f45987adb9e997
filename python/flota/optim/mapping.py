"""Which server rule a torch optimizer becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch

from flota import rules
from flota.errors import InvalidArgument
from flota.optim.ftrl import Ftrl

Group = Mapping[str, Any]


@runtime_checkable
class Served(Protocol):
    """An optimizer of layers above that knows its server rule itself."""

    counts_steps: ClassVar[bool]  # whether its state of a parameter has a "step"

    def server_rule(self, group: Group) -> rules.Rule: ...


def _sgd(group: Group) -> rules.Rule:
    common = {"lr": float(group["lr"]), "weight_decay": float(group["weight_decay"])}
    if group["momentum"] == 0:
        return rules.SGD(**common)
    return rules.Momentum(
        **common, momentum=group["momentum"], dampening=float(group["dampening"]), nesterov=group["nesterov"]
    )


def _take(rule: type[rules.Rule], *names: str, **fixed: Any) -> Callable[[Group], rules.Rule]:
    return lambda group: rule(lr=float(group["lr"]), **{name: group[name] for name in names}, **fixed)


# Exact types: a subclass may compute something else.
_RULES: dict[type[torch.optim.Optimizer], Callable[[Group], rules.Rule]] = {
    torch.optim.SGD: _sgd,
    torch.optim.Adagrad: lambda group: rules.Adagrad(
        lr=float(group["lr"]),
        lr_decay=group["lr_decay"],
        weight_decay=group["weight_decay"],
        initial_accumulator_value=group["initial_accumulator_value"],
        eps=group["eps"],
    ),
    torch.optim.RMSprop: _take(rules.RMSProp, "alpha", "eps", "weight_decay", "momentum", "centered"),
    torch.optim.Adam: _take(rules.Adam, "betas", "eps", "weight_decay", "amsgrad"),
    torch.optim.AdamW: _take(rules.AdamW, "betas", "eps", "weight_decay", "amsgrad"),
    torch.optim.Adamax: _take(rules.Adamax, "betas", "eps", "weight_decay"),
    torch.optim.SparseAdam: _take(rules.Adam, "betas", "eps", steps="push"),
    Ftrl: _take(rules.FTRL, "l1", "l2", "lr_power", "initial_accumulator_value"),
}

# Those that keep no count of their own for each parameter.
_WITHOUT_STEPS = (torch.optim.SGD, Ftrl)

SUPPORTED = tuple(optimizer.__name__ for optimizer in _RULES)


def has_rule(optimizer: torch.optim.Optimizer, group: Group) -> bool:
    """Whether a server could do what ``optimizer`` does."""
    return (isinstance(optimizer, Served) or type(optimizer) in _RULES) and not group.get("maximize")


def counts_steps(optimizer: torch.optim.Optimizer) -> bool:
    """Whether ``optimizer`` keeps a ``step`` for each parameter."""
    return optimizer.counts_steps if isinstance(optimizer, Served) else not isinstance(optimizer, _WITHOUT_STEPS)


def rule_of(optimizer: torch.optim.Optimizer, group: Group) -> rules.Rule:
    """The server rule that does what ``optimizer`` does with this group's parameters.

    A row without a gradient is skipped, as torch skips a parameter without one; it counts its own steps, except under
    ``SparseAdam``, which counts the optimizer's.
    """
    make = optimizer.server_rule if isinstance(optimizer, Served) else _RULES.get(type(optimizer))
    if make is None:
        raise InvalidArgument(
            f"{type(optimizer).__name__} has no server rule; use one of {', '.join(SUPPORTED)}, or Geo mode, in which "
            "workers run any torch optimizer themselves"
        )
    if group.get("maximize"):
        raise InvalidArgument(f"{type(optimizer).__name__}(maximize=True) has no server rule: negate the loss instead")
    return make(group)
