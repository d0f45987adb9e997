"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from flota.paddle.ops.registry import operation


@operation
def gru_cell(inputs: Any, states: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any = None, bias_hh: Any = None) -> Any:
    """One step: the next state. Weights are [3 × hidden, width], in the order reset, update, candidate."""
    return torch.gru_cell(inputs, states, weight_ih, weight_hh, bias_ih, bias_hh)


@operation
def gru(
    inputs: Any,
    initial_states: Any,
    weights: Sequence[Any],
    num_layers: int = 1,
    bidirectional: bool = False,
    time_major: bool = False,
    dropout: float = 0.0,
    training: bool = True,
    sequence_length: Any = None,
) -> Any:
    """All steps: the results, [batch, steps, width], and the last states, [layers × directions, batch, hidden].

    ``weights``: of each layer and direction, those of the input and of the state, and then, if there are any, their
    biases. Past a sequence's own length results are 0, and the state stays.
    """
    cells = num_layers * (2 if bidirectional else 1)
    biased = len(weights) == 4 * cells
    batch = inputs.shape[1 if time_major else 0]
    if initial_states is None:
        initial_states = inputs.new_zeros(cells, batch, weights[1].shape[1])
    options = (list(weights), biased, num_layers, dropout, training, bidirectional)
    if sequence_length is None or inputs.is_meta:
        return tuple(torch.gru(inputs, initial_states, *options, not time_major))
    lengths = sequence_length.cpu()
    packed = pack_padded_sequence(inputs, lengths, batch_first=not time_major, enforce_sorted=False)
    order = packed.sorted_indices
    assert order is not None
    first = initial_states.index_select(1, order)
    results, states = torch.gru(packed.data, packed.batch_sizes, first, *options)
    steps = inputs.shape[0 if time_major else 1]
    padded, _ = pad_packed_sequence(packed._replace(data=results), batch_first=not time_major, total_length=steps)
    return padded, states.index_select(1, torch.argsort(order))
