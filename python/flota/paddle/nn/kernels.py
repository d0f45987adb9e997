"""Operations that only layers have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from flota.errors import InvalidArgument
from flota.paddle.ops.registry import operation

_STEPS: dict[str, Callable[..., Any]] = {
    "gru": torch.gru,
    "lstm": torch.lstm,
    "rnn_tanh": torch.rnn_tanh,
    "rnn_relu": torch.rnn_relu,
}
_CELLS: dict[str, Callable[..., Any]] = {
    "gru": torch.gru_cell,
    "lstm": torch.lstm_cell,
    "rnn_tanh": torch.rnn_tanh_cell,
    "rnn_relu": torch.rnn_relu_cell,
}


@operation
def recurrent_cell(kind: str, inputs: Any, states: Any, weights: Any) -> Any:
    """One step. ``states``: h, and c of an lstm; ``weights``: of inputs, of states, and their biases. The gates' order
    is the same as torch's: reset, update, candidate; input, forget, candidate, output."""
    if kind == "lstm":
        return list(torch.lstm_cell(inputs, list(states), *weights))
    return [_CELLS[kind](inputs, states[0], *weights)]


@operation
def recurrent_layers(
    kind: str,
    inputs: Any,
    weights: Any,
    states: Any = None,
    sequence_length: Any = None,
    num_layers: int = 1,
    bidirectional: bool = False,
    is_reverse: bool = False,
    dropout: float = 0.0,
    time_major: bool = False,
    training: bool = False,
) -> Any:
    """Outputs of all steps, and the last states: h, and c of an lstm, [layers × directions, batch, hidden].

    After its length a sequence has outputs of zero, and its last states are those at its length."""
    if inputs.dim() != 3:
        raise InvalidArgument(f"{kind}: inputs have three sides, batch, time and features, not {list(inputs.shape)}")
    steps = inputs.transpose(0, 1) if time_major else inputs
    count = num_layers * (2 if bidirectional else 1)
    if states is None:
        width = weights[1].shape[1]
        states = [steps.new_zeros(count, steps.shape[0], width) for _ in range(2 if kind == "lstm" else 1)]
    lengths = None if sequence_length is None or steps.is_meta else sequence_length.reshape(-1).long()
    steps = _reversed(steps, lengths) if is_reverse else steps
    options = (True, num_layers, float(dropout), training, bidirectional)
    if lengths is None:
        state = tuple(states) if kind == "lstm" else states[0]
        # Without numbers one step tells the shapes of all: going through a thousand takes a minute.
        taken = steps[:, :1] if steps.is_meta else steps
        outputs, *last = _STEPS[kind](taken, state, list(weights), *options, True)
        outputs = outputs.expand(-1, steps.shape[1], -1) if steps.is_meta else outputs
    else:
        outputs, last = _by_length(kind, steps, lengths, states, list(weights), options)
    outputs = _reversed(outputs, lengths) if is_reverse else outputs
    return [outputs.transpose(0, 1) if time_major else outputs, *last]


def _by_length(
    kind: str, steps: Any, lengths: Any, states: Any, weights: list[Any], options: tuple[Any, ...]
) -> tuple[Any, list[Any]]:
    # torch packs no empty sequence: those go through one step, whose outcome is not taken.
    empty = lengths == 0
    packed = pack_padded_sequence(steps, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
    order, back = packed.sorted_indices, packed.unsorted_indices
    sorted_states = [each.index_select(1, order) for each in states]
    state = tuple(sorted_states) if kind == "lstm" else sorted_states[0]
    data, *last = _STEPS[kind](packed.data, packed.batch_sizes, state, weights, *options)
    outputs, _ = pad_packed_sequence(
        PackedSequence(data, packed.batch_sizes, order, back), batch_first=True, total_length=steps.shape[1]
    )
    last = [each.index_select(1, back) for each in last]
    if bool(empty.any()):
        outputs = outputs.masked_fill(empty.reshape(-1, 1, 1), 0.0)
        last = [torch.where(empty.reshape(1, -1, 1), first, each) for first, each in zip(states, last, strict=True)]
    return outputs, last


def _reversed(steps: Any, lengths: Any) -> Any:
    """Each sequence from its end; what is after its length stays."""
    if lengths is None:
        return steps.flip(1)
    times = torch.arange(steps.shape[1], device=steps.device).expand(steps.shape[0], -1)
    ends = lengths.reshape(-1, 1)
    places = torch.where(times < ends, ends - 1 - times, times)
    return steps.gather(1, places.unsqueeze(-1).expand_as(steps))
