"""Paddle's arithmetic as torch optimizers, where torch's own is another: their names say which is meant."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, overload

import torch
from torch.optim.optimizer import ParamsT

State = dict[str, Any]
Group = dict[str, Any]


class TorchRule(torch.optim.Optimizer):
    """What all share. A subclass says how one parameter is moved."""

    def __init__(self, params: ParamsT, **defaults: Any) -> None:
        super().__init__(params, defaults)

    @abstractmethod
    def update(self, weight: torch.Tensor, gradient: torch.Tensor, state: State, group: Group) -> None:
        """Moves one parameter."""

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
            self.before(group)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.update(parameter, parameter.grad, self.state[parameter], group)
        return loss

    def before(self, group: Group) -> None:
        """Once in each step."""


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
    """Epsilon is inside of the root, and the learning rate inside of the momentum."""

    def __init__(
        self, params: ParamsT, lr: float, rho: float = 0.95, eps: float = 1e-6, momentum: float = 0.0,
        centered: bool = False, weight_decay: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr=lr, rho=rho, eps=eps, momentum=momentum, centered=centered, weight_decay=weight_decay
        )

    def update(self, weight: torch.Tensor, gradient: torch.Tensor, state: State, group: Group) -> None:
        if not state:
            state["square_avg"] = torch.zeros_like(weight)
            if group["centered"]:
                state["grad_avg"] = torch.zeros_like(weight)
            if group["momentum"]:
                state["momentum_buffer"] = torch.zeros_like(weight)
        gradient = _decayed(gradient, weight, group)
        rho = group["rho"]
        variance = state["square_avg"].mul_(rho).addcmul_(gradient, gradient, value=1 - rho)
        if group["centered"]:
            average = state["grad_avg"].mul_(rho).add_(gradient, alpha=1 - rho)
            variance = variance.addcmul(average, average, value=-1)
        move = gradient * (variance + group["eps"]).rsqrt_() * group["lr"]
        if group["momentum"]:
            move = state["momentum_buffer"].mul_(group["momentum"]).add_(move)
        weight.sub_(move)


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


class PaddleLazyAdam(TorchRule):
    """Adam for rows of which each step moves some: they have their own averages, and count the optimizer's steps.

    ``decoupled``: the decay of AdamW, apart from the gradient.
    """

    def __init__(
        self, params: ParamsT, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.0, decoupled: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, decoupled=decoupled, steps=0)

    def before(self, group: Group) -> None:
        group["steps"] += 1

    def update(self, weight: torch.Tensor, gradient: torch.Tensor, state: State, group: Group) -> None:
        if not state:
            state["exp_avg"] = torch.zeros_like(weight)
            state["exp_avg_sq"] = torch.zeros_like(weight)
        if group["decoupled"]:
            weight.mul_(1 - group["lr"] * group["weight_decay"])
        else:
            gradient = _decayed(gradient, weight, group)
        beta1, beta2 = group["betas"]
        average = state["exp_avg"].lerp_(gradient, 1 - beta1)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        correction1, correction2 = (1 - beta ** group["steps"] for beta in (beta1, beta2))
        weight.addcdiv_(
            average, square.sqrt().div_(correction2**0.5).add_(group["eps"]), value=-group["lr"] / correction1
        )
