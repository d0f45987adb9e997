"""Recurrent layers: GRU, LSTM, simple ones, and their cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from flota.errors import InvalidArgument
from flota.paddle.attributes import ParamAttr
from flota.paddle.initializer import Constant, Uniform
from flota.paddle.nn import kernels
from flota.paddle.nn.container import LayerList
from flota.paddle.nn.layer import Layer
from flota.paddle.ops.registry import call


class RNNCellBase(Layer):
    """One step of a recurrent layer: ``cell(inputs, states)`` returns outputs and new states. Scripts derive their own
    from it, and say by ``state_shape`` what a sample's states look like."""

    def get_initial_states(
        self, batch_ref: Any, shape: Any = None, dtype: Any = None, init_value: float = 0.0, batch_dim_idx: int = 0
    ) -> Any:
        """States for each sample of ``batch_ref``: of one shape, or of several, in lists and tuples."""
        wanted = self.state_shape if shape is None else shape
        if any(isinstance(each, (list, tuple)) for each in wanted):
            made = [self.get_initial_states(batch_ref, each, dtype, init_value, batch_dim_idx) for each in wanted]
            return type(wanted)(made)
        sides = [-1, *(side for side in wanted if side != -1)]
        kind = batch_ref.dtype if dtype is None else dtype
        return call("fill_constant_batch_size_like", batch_ref, sides, kind, init_value, input_dim_idx=batch_dim_idx)

    @property
    def state_shape(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} says no state_shape: give initial states")


class _Cell(RNNCellBase):
    """A cell that torch knows."""

    kind: ClassVar[str]
    gates: ClassVar[int]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if hidden_size <= 0:
            raise InvalidArgument(f"{type(self).__name__}: hidden_size must be positive, not {hidden_size}")
        self.input_size, self.hidden_size = input_size, hidden_size
        rows = self.gates * hidden_size
        self.weight_ih = self._weight([rows, input_size], weight_ih_attr)
        self.weight_hh = self._weight([rows, hidden_size], weight_hh_attr)
        self.bias_ih = self._weight([rows], bias_ih_attr, is_bias=True)
        self.bias_hh = self._weight([rows], bias_hh_attr, is_bias=True)

    def _weight(self, shape: Sequence[int], attr: Any, is_bias: bool = False) -> Any:
        limit = 1.0 / math.sqrt(self.hidden_size)
        if attr is not False:
            return self.create_parameter(shape, attr, is_bias=is_bias, default_initializer=Uniform(-limit, limit))
        # Without it the cell has one that does nothing: ones as weights, zeros as biases, and no training.
        fixed = ParamAttr(initializer=Constant(0.0 if is_bias else 1.0), trainable=False)
        return self.create_parameter(shape, fixed, is_bias=is_bias)

    def weights(self) -> list[Any]:
        return [self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh]

    @property
    def state_count(self) -> int:
        return 2 if self.kind == "lstm" else 1

    @property
    def state_shape(self) -> Any:
        one = (self.hidden_size,)
        return (one, one) if self.state_count > 1 else one

    def first_states(self, inputs: Any) -> list[Any]:
        """Zeros for each sample of the batch."""
        zero = call("zeros_like", call("slice", inputs, axes=[1], starts=[0], ends=[1]))
        return [call("tile", zero, [1, self.hidden_size])] * self.state_count

    def forward(self, inputs: Any, states: Any = None) -> Any:
        given = self.first_states(inputs) if states is None else _listed(states)
        found = kernels.recurrent_cell(self.kind, inputs, given, self.weights())
        return found[0], tuple(found) if self.state_count > 1 else found[0]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class GRUCell(_Cell):
    kind = "gru"
    gates = 3


class LSTMCell(_Cell):
    kind = "lstm"
    gates = 4


class SimpleRNNCell(_Cell):
    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        activation: str = "tanh",
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        if activation not in ("tanh", "relu"):
            raise InvalidArgument(f"SimpleRNNCell: activation is tanh or relu, not {activation!r}")
        super().__init__(input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr, name)
        self.activation = activation

    @property
    def kind(self) -> str:  # type: ignore[override]
        return f"rnn_{self.activation}"

    @property
    def state_count(self) -> int:
        return 1

    def extra_repr(self) -> str:
        return super().extra_repr() + (f", activation={self.activation}" if self.activation != "tanh" else "")


class RNN(Layer):
    """A cell at each step of a sequence."""

    def __init__(self, cell: Layer, is_reverse: bool = False, time_major: bool = False) -> None:
        super().__init__()
        self.cell, self.is_reverse, self.time_major = cell, is_reverse, time_major

    def forward(self, inputs: Any, initial_states: Any = None, sequence_length: Any = None, **kwargs: Any) -> Any:
        if not isinstance(self.cell, _Cell):
            return self._by_steps(inputs, initial_states, sequence_length, **kwargs)
        if kwargs:
            raise InvalidArgument(f"RNN: {type(self.cell).__name__} takes no {', '.join(kwargs)}")
        states = None
        if initial_states is not None:
            states = [call("unsqueeze", each, axis=0) for each in _listed(initial_states)]
        outputs, *last = kernels.recurrent_layers(
            self.cell.kind,
            inputs,
            self.cell.weights(),
            states,
            sequence_length,
            is_reverse=self.is_reverse,
            time_major=self.time_major,
        )
        last = [call("squeeze", each, axis=[0]) for each in last]
        return outputs, tuple(last) if len(last) > 1 else last[0]

    def _by_steps(self, inputs: Any, states: Any, sequence_length: Any, **kwargs: Any) -> Any:
        """Of a cell that a script has defined."""
        if sequence_length is not None:
            raise InvalidArgument("RNN: a cell of a script's own has no sequence_length here; mask its outputs")
        axis = 0 if self.time_major else 1
        count = inputs.shape[axis]
        if count < 0:
            raise InvalidArgument("RNN: a cell of a script's own needs a known number of steps")
        if states is None and isinstance(self.cell, RNNCellBase):
            states = self.cell.get_initial_states(inputs, batch_dim_idx=1 - axis)
        outputs: list[Any] = [None] * count
        for step in range(count - 1, -1, -1) if self.is_reverse else range(count):
            here = call("squeeze", call("slice", inputs, axes=[axis], starts=[step], ends=[step + 1]), axis=[axis])
            outputs[step], states = self.cell(here, states, **kwargs)
        return call("stack", outputs, axis=axis), states


class BiRNN(Layer):
    """One cell forwards and another backwards; their outputs are beside each other."""

    def __init__(self, cell_fw: Layer, cell_bw: Layer, time_major: bool = False) -> None:
        super().__init__()
        self.cell_fw, self.cell_bw, self.time_major = cell_fw, cell_bw, time_major

    def forward(self, inputs: Any, initial_states: Any = None, sequence_length: Any = None, **kwargs: Any) -> Any:
        first_fw, first_bw = (None, None) if initial_states is None else initial_states
        forward, backward = (
            RNN(cell, is_reverse, self.time_major) for cell, is_reverse in ((self.cell_fw, False), (self.cell_bw, True))
        )
        ahead, last_fw = forward(inputs, first_fw, sequence_length, **kwargs)
        behind, last_bw = backward(inputs, first_bw, sequence_length, **kwargs)
        return call("concat", [ahead, behind], axis=-1), (last_fw, last_bw)


class RNNBase(LayerList):
    """Recurrent layers above each other, in one or both directions. They compute as one operation."""

    cell_type: ClassVar[type[_Cell]]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        self._set(input_size, hidden_size, num_layers, direction, time_major, dropout)
        self._fill(self.cell_type, attrs)

    def _set(
        self, input_size: int, hidden_size: int, num_layers: int, direction: str, time_major: bool, dropout: float
    ) -> None:
        if direction not in ("forward", "bidirect", "bidirectional"):
            raise InvalidArgument(f"direction is forward or bidirect, not {direction!r}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.time_major, self.dropout = time_major, dropout
        self.num_directions = 1 if direction == "forward" else 2

    def _fill(self, make: Callable[..., _Cell], attrs: tuple[Any, ...]) -> None:
        """Makes the cells. Their parameters are also known by the layer's number."""
        by_part = dict(zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), attrs, strict=True))
        options = {f"{part}_attr": attr for part, attr in by_part.items()}
        self._cells: list[_Cell] = []
        for number in range(self.num_layers):
            width = self.input_size if number == 0 else self.hidden_size * self.num_directions
            cells = [make(width, self.hidden_size, **options) for _ in range(self.num_directions)]
            if len(cells) == 1:
                self.append(RNN(cells[0], False, self.time_major))
            else:
                self.append(BiRNN(cells[0], cells[1], self.time_major))
            self._cells += cells
            for cell, suffix in zip(cells, ("", "_reverse"), strict=False):
                for part, attr in by_part.items():
                    # Biases that do nothing belong to the cell alone; weights always to both.
                    if attr is not False or part.startswith("weight"):
                        setattr(self, f"{part}_l{number}{suffix}", getattr(cell, part))

    def forward(self, inputs: Any, initial_states: Any = None, sequence_length: Any = None) -> Any:
        outputs, *last = kernels.recurrent_layers(
            self._cells[0].kind,
            inputs,
            [weight for cell in self._cells for weight in cell.weights()],
            None if initial_states is None else _listed(initial_states),
            sequence_length,
            num_layers=self.num_layers,
            bidirectional=self.num_directions == 2,
            dropout=self.dropout,
            time_major=self.time_major,
            training=self.training,
        )
        return outputs, tuple(last) if len(last) > 1 else last[0]

    def extra_repr(self) -> str:
        said = f"{self.input_size}, {self.hidden_size}"
        said += f", num_layers={self.num_layers}" if self.num_layers != 1 else ""
        said += f", time_major={self.time_major}" if self.time_major else ""
        return said + (f", dropout={self.dropout}" if self.dropout else "")


class GRU(RNNBase):
    cell_type = GRUCell


class LSTM(RNNBase):
    cell_type = LSTMCell


class SimpleRNN(RNNBase):
    cell_type = SimpleRNNCell

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        activation: str = "tanh",
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        LayerList.__init__(self)
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        self._set(input_size, hidden_size, num_layers, direction, time_major, dropout)
        self._fill(partial(SimpleRNNCell, activation=activation), attrs)


def _listed(states: Any) -> list[Any]:
    return list(states) if isinstance(states, (list, tuple)) else [states]
