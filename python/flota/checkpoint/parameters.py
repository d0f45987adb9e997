"""Dense parameters that a torch optimizer trains in this process, as a checkpoint has them, and back.

The names of the state are torch's own, so there is little to map: ``step`` is the number of updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from flota.checkpoint.reader import Parameter
from flota.rules import Rule

# What a rule's state begins with, where that is not 0; torch makes most of it with the first gradient only.
_FIRST = ("sum", "square")


def _numpy(values: torch.Tensor) -> npt.NDArray[np.float32]:
    array: npt.NDArray[np.float32] = values.detach().to("cpu", torch.float32).numpy().copy()
    return array


def parameter_of(weights: torch.Tensor, state: Mapping[str, Any], rule: Rule, steps: int) -> Parameter:
    """``state``: the optimizer's of this parameter. ``steps``: the optimizer's own, for those that count none here."""
    slots = {}
    for name in rule.state:
        held = state.get(name)
        if held is None:
            first = getattr(rule, "initial_accumulator_value", 0.0) if name in _FIRST else 0.0
            held = torch.full_like(weights, first)
        slots[name] = _numpy(held)
    counted = "step" in state or not rule.state
    updates = int(state.get("step", steps)) if counted or state.get(rule.state[0]) is not None else 0
    return Parameter(_numpy(weights), slots, updates, steps)


@torch.no_grad()
def put_back(weights: torch.Tensor, state: dict[str, Any], parameter: Parameter, counts_steps: bool) -> None:
    """The inverse. ``counts_steps``: whether this optimizer keeps a ``step``."""
    weights.copy_(torch.from_numpy(parameter.weights).to(weights.device))
    state.clear()
    if not parameter.state or (parameter.updates == 0 and "sum" not in parameter.state):
        return  # as before the first gradient: torch makes the state then
    if counts_steps:
        state["step"] = torch.tensor(float(parameter.updates))
    for name, values in parameter.state.items():
        state[name] = torch.from_numpy(values.copy()).to(device=weights.device, dtype=weights.dtype)
