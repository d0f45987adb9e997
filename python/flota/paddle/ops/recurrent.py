"""1.x's recurrent layers over sequences of different lengths. Their inputs have been multiplied by weights before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.paddle.jagged import Jagged
from flota.paddle.ops.registry import OPERATIONS, operation

States = tuple[torch.Tensor, ...]


def _unrolled(
    x: Jagged, first: Sequence[torch.Tensor | None], size: int, reverse: bool, step: Callable[[Any, States], States]
) -> tuple[Jagged, ...]:
    """Each state after each value. ``step(values, states)``: the states after one value of several sequences.
    ``first``: the states before, one row for each sequence; zeros unless given."""
    if x.values.is_meta:
        return tuple(x.with_values(x.values.new_empty(x.values.shape[0], size)) for _ in first)
    # The longest first: those that have a value at some place are then the first so many.
    lengths, order = torch.sort(x.lengths(), descending=True, stable=True)
    states = tuple(
        x.values.new_zeros(x.count, size) if state is None else _checked(state, x.count, size)[order] for state in first
    )
    begin = (x.offsets[1:] - 1 if reverse else x.offsets[:-1])[order]
    places, found = [], []
    for place, going in enumerate(_going(lengths)):
        at = begin[:going] - place if reverse else begin[:going] + place
        states = step(x.values[at], tuple(state[:going] for state in states))
        places.append(at)
        found.append(states)
    if not found:
        return tuple(x.with_values(x.values.new_zeros(0, size)) for _ in first)
    back = torch.argsort(torch.cat(places))
    return tuple(x.with_values(torch.cat(each)[back]) for each in zip(*found, strict=True))


def _going(lengths: torch.Tensor) -> list[int]:
    """How many sequences have a value at each place."""
    places = torch.arange(int(lengths.max()) if len(lengths) else 0, device=lengths.device)
    counts: list[int] = (lengths > places.unsqueeze(1)).sum(1).tolist()
    return counts


def _checked(state: torch.Tensor, count: int, size: int) -> torch.Tensor:
    if list(state.shape) != [count, size]:
        raise InvalidArgument(f"a first state is {list(state.shape)}, and there are {count} sequences of {size}")
    return state


def _activation(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    if name not in ("sigmoid", "tanh", "relu", "identity"):
        raise InvalidArgument(f"a gate's activation is sigmoid, tanh, relu or identity, not {name!r}")
    return (lambda x: x) if name == "identity" else OPERATIONS[name].kernel


def _input(x: Any, which: str, width: int) -> Jagged:
    if not isinstance(x, Jagged):
        raise InvalidArgument(f"{which} needs sequences: an input with lod_level=1")
    if x.values.dim() != 2 or x.values.shape[1] != width:
        raise InvalidArgument(f"{which}: the input's rows have {list(x.values.shape[1:])} numbers, and need {width}")
    return x


@operation(sequences=True)
def dynamic_gru(
    input: Any,
    weight: Any,
    bias: Any = None,
    h_0: Any = None,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    candidate_activation: str = "tanh",
    origin_mode: bool = False,
) -> Any:
    """The hidden state after each value. The input's columns are the update gate's, the reset gate's and the
    candidate's. ``weight``'s numbers, one after the other, are a matrix for both gates and then one for the candidate.
    ``origin_mode``: the update gate says what stays, not what comes."""
    size = weight.shape[0]
    x = _input(input, "dynamic_gru", 3 * size)
    of_gates = weight.reshape(-1)[: 2 * size * size].reshape(size, 2 * size)
    of_candidate = weight.reshape(-1)[2 * size * size :].reshape(size, size)
    gate, candidate = _activation(gate_activation), _activation(candidate_activation)

    def step(values: torch.Tensor, states: States) -> States:
        (before,) = states
        update, reset = gate(values[:, : 2 * size] + before @ of_gates).chunk(2, 1)
        new = candidate(values[:, 2 * size :] + (reset * before) @ of_candidate)
        return (torch.lerp(new, before, update) if origin_mode else torch.lerp(before, new, update),)

    shifted = x if bias is None else x.with_values(x.values + bias)
    return _unrolled(shifted, [h_0], size, is_reverse, step)[0]


@operation(sequences=True)
def dynamic_lstm(
    input: Any,
    weight: Any,
    bias: Any = None,
    h_0: Any = None,
    c_0: Any = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
) -> Any:
    """The hidden state and the cell after each value. Columns are the candidate's, and the input, forget and output
    gates'. ``use_peepholes``: gates see the cell, by the bias's last three parts."""
    size = weight.shape[0]
    x = _input(input, "dynamic_lstm", 4 * size)
    gate, cell, candidate = map(_activation, (gate_activation, cell_activation, candidate_activation))
    peeks = bias.reshape(-1)[4 * size :].chunk(3) if use_peepholes and bias is not None else (0.0, 0.0, 0.0)

    def step(values: torch.Tensor, states: States) -> States:
        hidden, kept = states
        new, comes, stays, leaves = (values + hidden @ weight).chunk(4, 1)
        after = gate(comes + peeks[0] * kept) * candidate(new) + gate(stays + peeks[1] * kept) * kept
        return gate(leaves + peeks[2] * after) * cell(after), after

    shifted = x if bias is None else x.with_values(x.values + bias.reshape(-1)[: 4 * size])
    return _unrolled(shifted, [h_0, c_0], size, is_reverse, step)
