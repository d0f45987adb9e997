"""``fluid.optimizer``: 1.x's names of the optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flota.paddle.optimizer import optimizers


def _old(name: str) -> Callable[..., Any]:
    """An optimizer with 1.x's names of its arguments."""

    def make(*args: Any, regularization: Any = None, parameter_list: Any = None, **kwargs: Any) -> Any:
        if regularization is not None:
            kwargs["weight_decay"] = regularization
        if parameter_list is not None:
            kwargs["parameters"] = parameter_list
        return getattr(optimizers, name)(*args, **kwargs)

    make.__name__ = name
    return make


SGD = SGDOptimizer = _old("SGD")
Momentum = MomentumOptimizer = _old("Momentum")
Adagrad = AdagradOptimizer = _old("Adagrad")
Adam = AdamOptimizer = _old("Adam")
