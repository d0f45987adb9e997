"""Optimizers: torch's where they compute the same, by Paddle's names and defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from flota.errors import InvalidArgument
from flota.nn.table import TableParameter
from flota.optim import Ftrl as TorchFtrl
from flota.paddle.attributes import ParamAttr
from flota.paddle.optimizer import torch_rules
from flota.paddle.optimizer.optimizer import Group, Optimizer

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lamb", "Momentum", "Optimizer", "RMSProp"]

_MOMENTS = {"exp_avg": "moment1_0", "exp_avg_sq": "moment2_0", "step": "step_0"}


@dataclass(frozen=True)
class Trained:
    """What functions that treat parameters differently are given."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype


def _trained(attr: ParamAttr, tensor: torch.Tensor) -> Trained:
    return Trained(attr.name or "", tuple(tensor.shape), tensor.dtype)


class SGD(Optimizer):
    def __init__(
        self, learning_rate: Any = 0.001, parameters: Any = None, weight_decay: Any = None, grad_clip: Any = None,
        multi_precision: bool = False, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, multi_precision=multi_precision)

    def make(self, groups: list[Group], rate: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(groups, rate)


class Momentum(Optimizer):
    """``use_multi_tensor``: one kernel for many parameters, as torch's ``foreach``."""

    states: ClassVar = {"momentum_buffer": "velocity_0"}

    def __init__(
        self, learning_rate: Any = 0.001, momentum: float = 0.9, parameters: Any = None, use_nesterov: bool = False,
        weight_decay: Any = None, grad_clip: Any = None, multi_precision: bool = False, rescale_grad: float = 1.0,
        use_multi_tensor: bool = False, name: str | None = None,
    ) -> None:  # fmt: skip
        self._momentum, self._nesterov = momentum, use_nesterov
        self._foreach = use_multi_tensor or None
        self.rescale = rescale_grad
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, multi_precision=multi_precision)

    def make(self, groups: list[Group], rate: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(groups, rate, momentum=self._momentum, nesterov=self._nesterov, foreach=self._foreach)


class Adagrad(Optimizer):
    states: ClassVar = {"sum": "moment_0", "step": "step_0"}

    def __init__(
        self, learning_rate: Any, epsilon: float = 1e-6, parameters: Any = None, weight_decay: Any = None,
        grad_clip: Any = None, name: str | None = None, initial_accumulator_value: float = 0.0,
    ) -> None:  # fmt: skip
        self._epsilon, self._initial = epsilon, initial_accumulator_value
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)

    def make(self, groups: list[Group], rate: float) -> torch.optim.Optimizer:
        return torch.optim.Adagrad(groups, rate, eps=self._epsilon, initial_accumulator_value=self._initial)


class Adam(Optimizer):
    """``lazy_mode``: the rows of a table that a step does not touch stay as they are, and all count the optimizer's
    steps. Without it they stay as well, and each counts its own."""

    states: ClassVar = _MOMENTS

    def __init__(
        self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
        parameters: Any = None, weight_decay: Any = None, grad_clip: Any = None, lazy_mode: bool = False,
        multi_precision: bool = False, use_multi_tensor: bool = False, name: str | None = None,
    ) -> None:  # fmt: skip
        self._betas, self._epsilon = (float(beta1), float(beta2)), float(epsilon)
        self._lazy = lazy_mode
        self._foreach = use_multi_tensor or None
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, multi_precision=multi_precision)

    def settings(self, attr: ParamAttr, tensor: torch.Tensor) -> Group:
        return super().settings(attr, tensor) | _counted(tensor, self._lazy)

    def make(self, groups: list[Group], rate: float) -> torch.optim.Optimizer:
        kind = torch_rules.PaddleLazyAdam if self._lazy else torch.optim.Adam
        return kind(groups, rate, betas=self._betas, eps=self._epsilon, foreach=self._foreach)


class AdamW(Optimizer):
    """Adam with decay apart from the gradient. ``apply_decay_param_fun``: of which parameters, by name. ``lr_ratio``:
    of the learning rate, by parameter. What a parameter's own regulariser says is added to its gradient."""

    states: ClassVar = _MOMENTS
    adds_decay = False

    def __init__(
        self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
        parameters: Any = None, weight_decay: float = 0.01, lr_ratio: Callable[[Any], float] | None = None,
        apply_decay_param_fun: Callable[[str], bool] | None = None, grad_clip: Any = None, lazy_mode: bool = False,
        multi_precision: bool = False, name: str | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(weight_decay, (int, float)):
            raise InvalidArgument(f"AdamW: weight_decay is a number, not {weight_decay!r}")
        self._betas, self._epsilon = (float(beta1), float(beta2)), float(epsilon)
        self._decay, self._decays, self._ratio = float(weight_decay), apply_decay_param_fun, lr_ratio
        self._lazy = lazy_mode
        super().__init__(learning_rate, parameters, None, grad_clip, name, multi_precision=multi_precision)

    def settings(self, attr: ParamAttr, tensor: torch.Tensor) -> Group:
        decays = self._decays is None or self._decays(attr.name or "")
        ratio = 1.0 if self._ratio is None else float(self._ratio(_trained(attr, tensor)))
        own = super().settings(attr, tensor)
        own |= {"times": own["times"] * ratio, "weight_decay": self._decay if decays else 0.0}
        return own | _counted(tensor, self._lazy)

    def make(self, groups: list[Group], rate: float) -> torch.optim.Optimizer:
        kind = torch_rules.PaddleLazyAdamW if self._lazy else torch.optim.AdamW
        return kind(groups, rate, betas=self._betas, eps=self._epsilon)


class Adamax(Optimizer):
    states: ClassVar = {"exp_avg": "moment_0", "exp_inf": "inf_norm_0", "step": "step_0"}

    def __init__(
        self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
        parameters: Any = None, weight_decay: Any = None, grad_clip: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        self._betas, self._epsilon = (float(beta1), float(beta2)), float(epsilon)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)

    def make(self, groups: list[Group], rate: float) -> torch.optim.Optimizer:
        return torch_rules.PaddleAdamax(groups, rate, self._betas, self._epsilon)


class RMSProp(Optimizer):
    states: ClassVar = {"square_avg": "mean_square_0", "grad_avg": "mean_grad_0", "momentum_buffer": "momentum_0"}

    def __init__(
        self, learning_rate: Any, rho: float = 0.95, epsilon: float = 1e-6, momentum: float = 0.0,
        centered: bool = False, parameters: Any = None, weight_decay: Any = None, grad_clip: Any = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        self._rho, self._epsilon, self._momentum, self._centered = rho, epsilon, momentum, centered
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)

    def make(self, groups: list[Group], rate: float) -> torch.optim.Optimizer:
        return torch_rules.PaddleRMSProp(groups, rate, self._rho, self._epsilon, self._momentum, self._centered)


class Ftrl(Optimizer):
    """FTRL-Proximal: 1.x's ``FtrlOptimizer``."""

    states: ClassVar = {"square": "squared_0", "linear": "linear_0"}
    adds_decay = False

    def __init__(
        self, learning_rate: Any, l1: float = 0.0, l2: float = 0.0, lr_power: float = -0.5, parameters: Any = None,
        weight_decay: Any = None, grad_clip: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        self._l1, self._l2, self._power = float(l1), float(l2), float(lr_power)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)

    def make(self, groups: list[Group], rate: float) -> torch.optim.Optimizer:
        return TorchFtrl(groups, rate, self._l1, self._l2, self._power)


class Lamb(Optimizer):
    """LAMB. Its steps are as long as the whole parameter's norm says, so it cannot train a table's rows."""

    states: ClassVar = _MOMENTS
    adds_decay = False

    def __init__(
        self, learning_rate: Any = 0.001, lamb_weight_decay: float = 0.01, beta1: float = 0.9, beta2: float = 0.999,
        epsilon: float = 1e-6, parameters: Any = None, grad_clip: Any = None,
        exclude_from_weight_decay_fn: Callable[[Any], bool] | None = None, multi_precision: bool = False,
        always_adapt: bool = False, name: str | None = None,
    ) -> None:  # fmt: skip
        self._betas, self._epsilon = (float(beta1), float(beta2)), float(epsilon)
        self._decay, self._excludes, self._adapts = float(lamb_weight_decay), exclude_from_weight_decay_fn, always_adapt
        super().__init__(learning_rate, parameters, None, grad_clip, name, multi_precision=multi_precision)

    def settings(self, attr: ParamAttr, tensor: torch.Tensor) -> Group:
        excluded = self._excludes is not None and self._excludes(_trained(attr, tensor))
        return super().settings(attr, tensor) | {"weight_decay": 0.0 if excluded else self._decay}

    def make(self, groups: list[Group], rate: float) -> torch.optim.Optimizer:
        if _has_tables(groups):
            raise InvalidArgument(
                "Lamb needs the norm of whole parameters, and a table's rows are made one by one: use Adam, or "
                "embeddings with is_sparse=False"
            )
        return torch_rules.PaddleLamb(groups, rate, self._betas, self._epsilon, always_adapt=self._adapts)


def _counted(tensor: torch.Tensor, lazy: bool) -> Group:
    """What is the step of a parameter: of a lazy table's rows the optimizer's, else its own."""
    return {"steps": "push" if lazy and isinstance(tensor, TableParameter) else "row"}


def _has_tables(groups: list[Group]) -> bool:
    return any(isinstance(parameter, TableParameter) for group in groups for parameter in group["params"])
