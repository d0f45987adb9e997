"""Paddle's arithmetic as torch optimizers, where torch's own is another, and the server rules that do the same."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, overload

import torch
from torch.optim.optimizer import ParamsT

from flota import rules

State = dict[str, Any]
Group = dict[str, Any]


class TorchRule(torch.optim.Optimizer):
    """What those that torch has not share. A subclass says how one parameter is moved."""

    counts_steps: ClassVar[bool] = True

    def __init__(self, params: ParamsT, **defaults: Any) -> None:
        super().__init__(params, defaults)

    @abstractmethod
    def update(self, weight: torch.Tensor, gradient: torch.Tensor, state: State, group: Group) -> None:
        """Moves one parameter."""

    @abstractmethod
    def server_rule(self, group: Mapping[str, Any]) -> rules.Rule:
        """What moves this group's parameters in the same way on servers, and tables' rows everywhere."""

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.update(parameter, parameter.grad, self.state[parameter], group)
        return loss


def _moments(group: Mapping[str, Any]) -> dict[str, Any]:
    """What the rules of the Adam family have in common."""
    return {"lr": float(group["lr"]), **{name: group[name] for name in ("betas", "eps", "weight_decay")}}


def _decayed(gradient: torch.Tensor, weight: torch.Tensor, group: Group) -> torch.Tensor:
    return gradient.add(weight, alpha=group["weight_decay"]) if group["weight_decay"] else gradient


def _advance(state: State, *names: str, weight: torch.Tensor) -> int:
    """Makes the state of a parameter that has none; gives the number of this step."""
    if not state:
        state["step"] = torch.tensor(0.0)
        for name in names:
            state[name] = torch.zeros_like(weight)
    state["step"] += 1
    return int(state["step"])


class PaddleRMSProp(TorchRule):
    """Epsilon is inside of the root, and the learning rate inside of the momentum. ``alpha`` is Paddle's rho."""

    counts_steps = False

    def __init__(
        self, params: ParamsT, lr: float = 1e-2, alpha: float = 0.95, eps: float = 1e-6, momentum: float = 0.0,
        centered: bool = False, weight_decay: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr=lr, alpha=alpha, eps=eps, momentum=momentum, centered=centered, weight_decay=weight_decay
        )

    def update(self, weight: torch.Tensor, gradient: torch.Tensor, state: State, group: Group) -> None:
        if not state:
            state["square_avg"] = torch.zeros_like(weight)
            if group["centered"]:
                state["grad_avg"] = torch.zeros_like(weight)
            if group["momentum"]:
                state["momentum_buffer"] = torch.zeros_like(weight)
        gradient = _decayed(gradient, weight, group)
        alpha = group["alpha"]
        variance = state["square_avg"].mul_(alpha).addcmul_(gradient, gradient, value=1 - alpha)
        if group["centered"]:
            average = state["grad_avg"].lerp_(gradient, 1 - alpha)
            # Rounding can take a variance near zero below it, and a small epsilon does not bring it back.
            variance = variance.addcmul(average, average, value=-1).clamp_(min=0)
        move = gradient * (variance + group["eps"]).rsqrt_() * group["lr"]
        if group["momentum"]:
            move = state["momentum_buffer"].mul_(group["momentum"]).add_(move)
        weight.sub_(move)

    def server_rule(self, group: Mapping[str, Any]) -> rules.Rule:
        return rules.PaddleRMSProp(
            lr=float(group["lr"]), alpha=group["alpha"], eps=group["eps"], momentum=group["momentum"],
            centered=group["centered"], weight_decay=group["weight_decay"],
        )  # fmt: skip


class PaddleAdamax(TorchRule):
    """Epsilon is added to the greatest gradient so far, not to the new one."""

    def __init__(
        self, params: ParamsT, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)

    def update(self, weight: torch.Tensor, gradient: torch.Tensor, state: State, group: Group) -> None:
        step = _advance(state, "exp_avg", "exp_inf", weight=weight)
        gradient = _decayed(gradient, weight, group)
        beta1, beta2 = group["betas"]
        average = state["exp_avg"].lerp_(gradient, 1 - beta1)
        greatest = state["exp_inf"].mul_(beta2).add_(group["eps"])
        torch.maximum(greatest, gradient.abs(), out=greatest)
        weight.addcdiv_(average, greatest, value=-group["lr"] / (1 - beta1**step))

    def server_rule(self, group: Mapping[str, Any]) -> rules.Rule:
        return rules.PaddleAdamax(**_moments(group))


class PaddleLamb(TorchRule):
    """LAMB (You et al. 2020). A parameter without decay is moved as Adam does, unless ``always_adapt``."""

    def __init__(
        self, params: ParamsT, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6,
        weight_decay: float = 0.01, always_adapt: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, always_adapt=always_adapt)

    def update(self, weight: torch.Tensor, gradient: torch.Tensor, state: State, group: Group) -> None:
        step = _advance(state, "exp_avg", "exp_avg_sq", weight=weight)
        beta1, beta2 = group["betas"]
        average = state["exp_avg"].lerp_(gradient, 1 - beta1)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        direction = (average / (1 - beta1**step)).div_((square / (1 - beta2**step)).sqrt_().add_(group["eps"]))
        direction.add_(weight, alpha=group["weight_decay"])
        move = direction * group["lr"]
        if group["weight_decay"] or group["always_adapt"]:
            of_weight, of_direction = weight.norm(), direction.norm()
            move *= torch.where((of_weight > 0) & (of_direction > 0), of_weight / of_direction, 1.0)
        weight.sub_(move)

    def server_rule(self, group: Mapping[str, Any]) -> rules.Rule:
        adapts = group["weight_decay"] or group["always_adapt"]
        return (rules.Lamb if adapts else rules.Adam)(**_moments(group))


class PaddleLazyAdam(torch.optim.Adam):
    """Adam of which a table's rows count the optimizer's steps. A group's ``steps`` are the rule's."""

    counts_steps: ClassVar[bool] = True

    def server_rule(self, group: Mapping[str, Any]) -> rules.Rule:
        return rules.LazyAdam(**_moments(group), steps=group["steps"])


class PaddleLazyAdamW(torch.optim.AdamW):
    """The same with decay apart from the gradient."""

    counts_steps: ClassVar[bool] = True

    def server_rule(self, group: Mapping[str, Any]) -> rules.Rule:
        return rules.AdamW(**_moments(group), steps=group["steps"])
