"""What the server rules must compute: torch's optimizers, Paddle's, and float64 arithmetic where there are none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import torch

from flota import rules
from flota.paddle.optimizer import torch_rules

Floats = npt.NDArray[np.float32]

TORCH_OPTIMIZERS: dict[type[rules.Rule], type[torch.optim.Optimizer]] = {
    rules.SGD: torch.optim.SGD,
    rules.Momentum: torch.optim.SGD,
    rules.Adagrad: torch.optim.Adagrad,
    rules.RMSProp: torch.optim.RMSprop,
    rules.Adam: torch.optim.Adam,
    rules.AdamW: torch.optim.AdamW,
    rules.Adamax: torch.optim.Adamax,
    rules.PaddleRMSProp: torch_rules.PaddleRMSProp,
    rules.PaddleAdamax: torch_rules.PaddleAdamax,
    rules.LazyAdam: torch.optim.Adam,
}


def torch_settings(rule: rules.Rule) -> dict[str, object]:
    """A rule's arguments are the torch optimizer's, by name; only `steps` is ours."""
    return {name: value for name, value in dataclasses.asdict(rule).items() if name != "steps"}


class TorchReference:
    """Parameters of their own, which torch skips when they have no gradient: one for each row, or one in all."""

    def __init__(self, rule: rules.Rule, first: Iterable[Floats], storage: torch.dtype = torch.float32) -> None:
        self.storage = storage
        self.parameters = [torch.nn.Parameter(torch.tensor(values)) for values in first]
        self.optimizer = TORCH_OPTIMIZERS[type(rule)](self.parameters, **torch_settings(rule))

    def step(self, gradients: dict[int, Floats], lr: float) -> None:
        """`gradients` by the parameter's place; parameters without one are skipped."""
        for place, parameter in enumerate(self.parameters):
            parameter.grad = torch.tensor(gradients[place]) if place in gradients else None
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        for parameter in self.parameters:
            parameter.data = parameter.data.to(self.storage).float()

    def values(self) -> Floats:
        return np.stack([parameter.detach().numpy() for parameter in self.parameters])


class Float64Reference:
    """The same for rules that torch lacks: `update(rule, state, gradient, lr)` in float64."""

    def __init__(self, rule: rules.Rule, first: Iterable[Floats]) -> None:
        self.rule = rule
        self.states = [_State(np.asarray(values, dtype=np.float64)) for values in first]
        self.update = FLOAT64_UPDATES[type(rule)]

    def step(self, gradients: dict[int, Floats], lr: float) -> None:
        for place, gradient in gradients.items():
            self.states[place].updates += 1
            self.update(self.rule, self.states[place], gradient.astype(np.float64), lr)

    def values(self) -> npt.NDArray[np.float64]:
        return np.stack([state.weights for state in self.states])


class _State:
    def __init__(self, weights: npt.NDArray[np.float64]) -> None:
        self.weights = weights.copy()
        self.updates = 0
        self.slots: dict[str, npt.NDArray[np.float64]] = {}

    def slot(self, name: str, first: float = 0.0) -> npt.NDArray[np.float64]:
        return self.slots.setdefault(name, np.full_like(self.weights, first))


def _lamb(rule: rules.Lamb, state: _State, gradient: npt.NDArray[np.float64], lr: float) -> None:
    """LAMB (You et al. 2020), algorithm 2, with the identity for phi."""
    beta1, beta2 = rule.betas
    average, square = state.slot("average"), state.slot("square")
    average += (1 - beta1) * (gradient - average)
    square += (1 - beta2) * (gradient**2 - square)
    corrected = average / (1 - beta1**state.updates)
    direction = corrected / (np.sqrt(square / (1 - beta2**state.updates)) + rule.eps)
    direction += rule.weight_decay * state.weights
    of_weights, of_direction = np.linalg.norm(state.weights), np.linalg.norm(direction)
    trust = of_weights / of_direction if of_weights > 0 and of_direction > 0 else 1.0
    state.weights -= lr * trust * direction


def _ftrl(rule: rules.FTRL, state: _State, gradient: npt.NDArray[np.float64], lr: float) -> None:
    """FTRL-Proximal (McMahan et al. 2013) with TensorFlow's and Paddle's l2, which counts twice."""
    squares, linear = state.slot("squares", rule.initial_accumulator_value), state.slot("linear")
    before = squares**-rule.lr_power
    squares += gradient**2
    after = squares**-rule.lr_power
    linear += gradient - (after - before) / lr * state.weights
    shrunk = (np.sign(linear) * rule.l1 - linear) / (after / lr + 2 * rule.l2)
    state.weights = np.where(np.abs(linear) > rule.l1, shrunk, 0.0)


FLOAT64_UPDATES: dict[type[rules.Rule], Callable[..., None]] = {rules.Lamb: _lamb, rules.FTRL: _ftrl}


def reference_of(rule: rules.Rule, first: Iterable[Floats]) -> TorchReference | Float64Reference:
    return TorchReference(rule, first) if type(rule) in TORCH_OPTIMIZERS else Float64Reference(rule, first)
