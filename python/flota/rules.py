"""Server rules: how a table turns gradients into weights.

Each has the arguments, defaults and arithmetic of the torch optimizer of the same name; those that torch has not say
whose theirs is. ``lr`` is what a push uses that
brings no learning rate of its own. ``steps`` says what a rule counts as its step t: ``"row"``, the row's own updates (a
row without a gradient is skipped, as torch skips a parameter without one), or ``"push"``, the step that travels with
the push, as in ``torch.optim.SparseAdam``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from flota import _core
from flota.errors import InvalidArgument

Steps = Literal["row", "push"]

_STEPS = {source.name: source for source in _core.StepSource}

# Where a rule's argument is called otherwise in the core.
_NATIVE_NAMES = {"eps": "epsilon", "initial_accumulator_value": "initial_accumulator"}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What all rules share. Use one of the subclasses."""

    kind: ClassVar[_core.RuleKind]
    lr: float = 0.01
    weight_decay: float = 0.0

    def to_native(self) -> _core.RuleSpec:
        spec = _core.RuleSpec()
        spec.kind = self.kind
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "betas":
                spec.beta1, spec.beta2 = value
            elif field.name == "steps":
                if value not in _STEPS:
                    raise InvalidArgument(f"steps must be one of {', '.join(_STEPS)}, not {value!r}")
                spec.steps = _STEPS[value]
            else:
                setattr(spec, _NATIVE_NAMES.get(field.name, field.name), value)
        return spec

    @property
    def state(self) -> tuple[str, ...]:
        """What the rule remembers of each weight, by torch's names, in the order in which the core keeps it."""
        return ()


def from_native(spec: _core.RuleSpec) -> Rule:
    """The rule that the core's spec stands for: ``to_native``'s inverse."""
    kind = {rule.kind: rule for rule in RULES.values()}[spec.kind]
    settings: dict[str, Any] = {}
    for field in fields(kind):
        if field.name == "betas":
            settings["betas"] = (spec.beta1, spec.beta2)
        elif field.name == "steps":
            settings["steps"] = spec.steps.name
        else:
            settings[field.name] = getattr(spec, _NATIVE_NAMES.get(field.name, field.name))
    return kind(**settings)


@dataclass(frozen=True, kw_only=True)
class SGD(Rule):
    """``torch.optim.SGD`` without momentum."""

    kind = _core.RuleKind.sgd
    lr: float = 1e-3


@dataclass(frozen=True, kw_only=True)
class Momentum(Rule):
    """``torch.optim.SGD`` with momentum."""

    kind = _core.RuleKind.momentum
    lr: float = 1e-3
    momentum: float = 0.9
    dampening: float = 0.0
    nesterov: bool = False

    @property
    def state(self) -> tuple[str, ...]:
        return ("momentum_buffer",)


@dataclass(frozen=True, kw_only=True)
class Adagrad(Rule):
    """``torch.optim.Adagrad``."""

    kind = _core.RuleKind.adagrad
    lr: float = 1e-2
    lr_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10
    steps: Steps = "row"

    @property
    def state(self) -> tuple[str, ...]:
        return ("sum",)


@dataclass(frozen=True, kw_only=True)
class RMSProp(Rule):
    """``torch.optim.RMSprop``."""

    kind = _core.RuleKind.rmsprop
    lr: float = 1e-2
    alpha: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    centered: bool = False

    @property
    def state(self) -> tuple[str, ...]:
        return (
            "square_avg",
            *(("grad_avg",) if self.centered else ()),
            *(("momentum_buffer",) if self.momentum else ()),
        )


@dataclass(frozen=True, kw_only=True)
class PaddleRMSProp(RMSProp):
    """Paddle's: epsilon is inside of the root, and the learning rate inside of the momentum; ``alpha`` is its rho."""

    kind = _core.RuleKind.paddle_rmsprop
    alpha: float = 0.95
    eps: float = 1e-6


@dataclass(frozen=True, kw_only=True)
class Adam(Rule):
    """``torch.optim.Adam``; with ``steps="push"``, ``torch.optim.SparseAdam``."""

    kind = _core.RuleKind.adam
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    amsgrad: bool = False
    steps: Steps = "row"

    @property
    def state(self) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if self.amsgrad else ()))


@dataclass(frozen=True, kw_only=True)
class LazyAdam(Rule):
    """Adam as in Paddle's lazy mode: rows count the steps of pushes, and epsilon is where Adam has it."""

    kind = _core.RuleKind.lazy_adam
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    steps: Steps = "push"

    @property
    def state(self) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True, kw_only=True)
class AdamW(Rule):
    """``torch.optim.AdamW``: weight decay apart from the gradient."""

    kind = _core.RuleKind.adamw
    lr: float = 1e-3
    weight_decay: float = 1e-2
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    amsgrad: bool = False
    steps: Steps = "row"

    @property
    def state(self) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if self.amsgrad else ()))


@dataclass(frozen=True, kw_only=True)
class Adamax(Rule):
    """``torch.optim.Adamax``."""

    kind = _core.RuleKind.adamax
    lr: float = 2e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    steps: Steps = "row"

    @property
    def state(self) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf")


@dataclass(frozen=True, kw_only=True)
class PaddleAdamax(Adamax):
    """Paddle's: epsilon is added to the greatest gradient so far, not to the new one."""

    kind = _core.RuleKind.paddle_adamax
    lr: float = 1e-3


@dataclass(frozen=True, kw_only=True)
class Lamb(Rule):
    """LAMB (You et al. 2020), for dense tables: such a parameter stays whole on one server."""

    kind = _core.RuleKind.lamb
    lr: float = 1e-3
    weight_decay: float = 1e-2
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-6
    steps: Steps = "row"

    @property
    def state(self) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True, kw_only=True)
class FTRL(Rule):
    """FTRL-Proximal (McMahan et al. 2013)."""

    kind = _core.RuleKind.ftrl
    lr: float = 1e-3
    l1: float = 0.0
    l2: float = 0.0
    lr_power: float = -0.5
    initial_accumulator_value: float = 0.0

    @property
    def state(self) -> tuple[str, ...]:
        return ("square", "linear")


_ALL = (SGD, Momentum, Adagrad, RMSProp, PaddleRMSProp, Adam, LazyAdam, AdamW, Adamax, PaddleAdamax, Lamb, FTRL)

RULES: dict[str, type[Rule]] = {rule.__name__: rule for rule in _ALL}
