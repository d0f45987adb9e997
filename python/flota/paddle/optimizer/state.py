"""Optimizers' states by the parameters' names, as scripts save them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.nn.table import TableParameter
from flota.paddle.tensor import Tensor

Named = Sequence[tuple[str, torch.Tensor]]


def read_states(optimizer: torch.optim.Optimizer, named: Named, words: Mapping[str, str]) -> dict[str, Any]:
    """``words``: by torch's name of a state, Paddle's."""
    found: dict[str, Any] = {}
    for name, tensor in named:
        if isinstance(tensor, TableParameter):
            raise InvalidArgument(f"{name!r} is a table, whose state is saved with its rows: fleet.save_persistables")
        state = optimizer.state.get(tensor, {})
        found |= {f"{name}_{words[key]}": Tensor(value) for key, value in state.items() if value is not None}
    return found


def write_states(
    optimizer: torch.optim.Optimizer, named: Named, words: Mapping[str, str], states: Mapping[str, Any]
) -> None:
    """The inverse. A state of something else is an error, found before anything is changed."""
    known = {f"{name}_{theirs}": (tensor, ours) for name, tensor in named for ours, theirs in words.items()}
    for key in states:
        if key not in known:
            raise InvalidArgument(f"{type(optimizer).__name__} keeps nothing called {key!r}; it has {', '.join(known)}")
    for key, value in states.items():
        tensor, ours = known[key]
        given = value.value if isinstance(value, Tensor) else torch.as_tensor(value)
        # Steps are one number, however it is held.
        shape = () if ours == "step" else tensor.shape
        kind = torch.float32 if ours == "step" else tensor.dtype
        optimizer.state[tensor][ours] = given.detach().to(kind).reshape(shape).clone()
