"""1.x's optimizers: ``fluid.optimizer.SGDOptimizer`` and the like, with its arguments' names and order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flota.paddle.clipping import clip_of
from flota.paddle.optimizer import optimizers
from flota.paddle.optimizer.optimizer import Optimizer
from flota.paddle.regularizer import as_regularizer


class _Fluid(Optimizer):
    """What is different in all of them."""

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[list[Any], list[Any]]:
        return super().minimize(loss, startup_program, parameter_list, no_grad_set)

    def apply_gradients(self, params_grads: Any) -> list[Any]:
        pairs = list(params_grads)
        if self._grad_clip is None and pairs:
            self._grad_clip = clip_of(pairs[0][0].program)
        return super().apply_gradients(pairs)

    def current_step_lr(self) -> float:
        return self.get_lr()


class SGDOptimizer(_Fluid, optimizers.SGD):
    def __init__(
        self, learning_rate: Any, parameter_list: Any = None, regularization: Any = None, grad_clip: Any = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name=name)


class MomentumOptimizer(_Fluid, optimizers.Momentum):
    def __init__(
        self, learning_rate: Any, momentum: float, parameter_list: Any = None, use_nesterov: bool = False,
        regularization: Any = None, grad_clip: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, momentum, parameter_list, use_nesterov, regularization, grad_clip, name=name)


class AdagradOptimizer(_Fluid, optimizers.Adagrad):
    def __init__(
        self, learning_rate: Any, epsilon: float = 1e-6, parameter_list: Any = None, regularization: Any = None,
        grad_clip: Any = None, name: str | None = None, initial_accumulator_value: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(
            learning_rate, epsilon, parameter_list, regularization, grad_clip, name, initial_accumulator_value
        )


class AdamOptimizer(_Fluid, optimizers.Adam):
    def __init__(
        self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
        parameter_list: Any = None, regularization: Any = None, grad_clip: Any = None, name: str | None = None,
        lazy_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            learning_rate, beta1, beta2, epsilon, parameter_list, regularization, grad_clip, lazy_mode, name=name
        )


class AdamaxOptimizer(_Fluid, optimizers.Adamax):
    def __init__(
        self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
        parameter_list: Any = None, regularization: Any = None, grad_clip: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, beta1, beta2, epsilon, parameter_list, regularization, grad_clip, name)


class RMSPropOptimizer(_Fluid, optimizers.RMSProp):
    def __init__(
        self, learning_rate: Any, rho: float = 0.95, epsilon: float = 1e-6, momentum: float = 0.0,
        centered: bool = False, parameter_list: Any = None, regularization: Any = None, grad_clip: Any = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            learning_rate, rho, epsilon, momentum, centered, parameter_list, regularization, grad_clip, name
        )


class FtrlOptimizer(_Fluid, optimizers.Ftrl):
    def __init__(
        self, learning_rate: Any, l1: float = 0.0, l2: float = 0.0, lr_power: float = -0.5, parameter_list: Any = None,
        regularization: Any = None, grad_clip: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, l1, l2, lr_power, parameter_list, regularization, grad_clip, name)


class LambOptimizer(_Fluid, optimizers.Lamb):
    def __init__(
        self, learning_rate: Any = 0.001, lamb_weight_decay: float = 0.01, beta1: float = 0.9, beta2: float = 0.999,
        epsilon: float = 1e-6, parameter_list: Any = None, regularization: Any = None, grad_clip: Any = None,
        exclude_from_weight_decay_fn: Callable[[Any], bool] | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            learning_rate, lamb_weight_decay, beta1, beta2, epsilon, parameter_list, grad_clip,
            exclude_from_weight_decay_fn, name=name,
        )  # fmt: skip
        self._weight_decay = as_regularizer(regularization)


SGD, Momentum, Adagrad, Adam = SGDOptimizer, MomentumOptimizer, AdagradOptimizer, AdamOptimizer
Adamax, RMSProp, Ftrl, Lamb = AdamaxOptimizer, RMSPropOptimizer, FtrlOptimizer, LambOptimizer
