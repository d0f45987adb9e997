"""FTRL-Proximal as a torch optimizer: the same arithmetic as the server rule, for local and Geo training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import torch
from torch.optim.optimizer import ParamsT

from flota.errors import InvalidArgument


class Ftrl(torch.optim.Optimizer):
    """FTRL-Proximal (McMahan et al. 2013), as TensorFlow and Paddle write it: sparse weights by ``l1``."""

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        l1: float = 0.0,
        l2: float = 0.0,
        lr_power: float = -0.5,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        if not lr >= 0 or not l1 >= 0 or not l2 >= 0 or not lr_power <= 0 or not initial_accumulator_value >= 0:
            raise InvalidArgument("Ftrl needs lr, l1, l2 and initial_accumulator_value from 0 on, and lr_power up to 0")
        super().__init__(
            params,
            {
                "lr": lr,
                "l1": l1,
                "l2": l2,
                "lr_power": lr_power,
                "initial_accumulator_value": initial_accumulator_value,
            },
        )

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
                    self._update(parameter, parameter.grad, self.state[parameter], group)
        return loss

    @staticmethod
    def _update(weight: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state["square"] = torch.full_like(weight, group["initial_accumulator_value"])
            state["linear"] = torch.zeros_like(weight)
        if group["lr"] == 0:
            return
        square, linear = state["square"], state["linear"]
        before = square.pow(-group["lr_power"])
        square.addcmul_(gradient, gradient)
        after = square.pow(-group["lr_power"])
        linear.add_(gradient).sub_((after - before) / group["lr"] * weight)
        curvature = after / group["lr"] + 2 * group["l2"]
        shrunk = (torch.copysign(torch.full_like(linear, group["l1"]), linear) - linear) / curvature
        weight.copy_(torch.where((linear.abs() > group["l1"]) & (curvature > 0), shrunk, 0.0))
