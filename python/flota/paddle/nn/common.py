"""Layers of most models: linear, embedding, dropout."""

from __future__ import annotations

from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.paddle.dtypes import get_default_dtype
from flota.paddle.nn.layer import Layer
from flota.paddle.nn.parameter import Parameter, make_parameter
from flota.paddle.ops.registry import call


def named(text: str, name: str | None) -> str:
    """What a layer says of itself, with the name that a script gave it."""
    return f"{text}, name={name}" if name else text


class Identity(Layer):
    """Returns what it is given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Layer):
    """``input @ weight + bias``; the weight is [in, out]."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._dtype = get_default_dtype()
        self._sizes = in_features, out_features
        self.weight = self.create_parameter([in_features, out_features], weight_attr)
        self.bias = self.create_parameter([out_features], bias_attr, is_bias=True)
        self.name = name
        if self.weight is None:
            raise InvalidArgument("Linear: a layer needs its weight; weight_attr=False would leave none")

    def forward(self, input: Any) -> Any:
        return call("linear", input, self.weight, self.bias)

    def extra_repr(self) -> str:
        inputs, outputs = self._sizes
        return named(f"in_features={inputs}, out_features={outputs}, dtype={self._dtype}", self.name)


class Embedding(Layer):
    """A row for each id. In a program, ``sparse`` rows live in a table, and only those that are used take part. An
    eager layer holds all rows; what is computed is the same."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        sparse: bool = False,
        weight_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if num_embeddings <= 0 or embedding_dim <= 0:
            raise InvalidArgument(f"Embedding: sizes are positive, not [{num_embeddings}, {embedding_dim}]")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise InvalidArgument(f"Embedding: padding_idx is one of {num_embeddings} rows, not {padding_idx}")
        self._dtype = get_default_dtype()
        self._num_embeddings, self._embedding_dim, self._sparse = num_embeddings, embedding_dim, sparse
        self._given_padding = padding_idx
        self._padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self._name = name
        self.weight = make_parameter(
            [num_embeddings, embedding_dim], weight_attr, self._type(), self._full_name, table=sparse
        )
        if self.weight is None:
            raise InvalidArgument("Embedding: a layer needs its weight; weight_attr=False would leave none")
        if self._padding_idx is not None and isinstance(self.weight, Parameter):
            with torch.no_grad():
                self.weight.value[self._padding_idx] = 0

    def forward(self, x: Any) -> Any:
        return call("lookup_table_v2", x, self.weight, padding_idx=self._padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self._given_padding is None else f", padding_idx={self._given_padding}"
        return named(f"{self._num_embeddings}, {self._embedding_dim}{padding}, sparse={self._sparse}", self._name)


class Dropout(Layer):
    """In training, values become zero by chance."""

    def __init__(
        self, p: float = 0.5, axis: Any = None, mode: str = "upscale_in_train", name: str | None = None
    ) -> None:
        super().__init__()
        self.p, self.axis, self.mode, self.name = p, axis, mode, name

    def forward(self, input: Any) -> Any:
        return call("dropout", input, p=self.p, axis=self.axis, training=self.training, mode=self.mode)

    def extra_repr(self) -> str:
        return named(f"p={self.p}, axis={self.axis}, mode={self.mode}", self.name)


class Flatten(Layer):
    """Makes one side of some."""

    def __init__(self, start_axis: int = 1, stop_axis: int = -1) -> None:
        super().__init__()
        self.start_axis, self.stop_axis = start_axis, stop_axis

    def forward(self, input: Any) -> Any:
        return call("flatten", input, start_axis=self.start_axis, stop_axis=self.stop_axis)
