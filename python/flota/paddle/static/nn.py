"""``paddle.static.nn``: layers as functions, with parameters of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flota.errors import InvalidArgument
from flota.paddle.attributes import as_attr
from flota.paddle.dtypes import as_dtype
from flota.paddle.entries import check_entry
from flota.paddle.graph import names
from flota.paddle.graph.building import parameter
from flota.paddle.graph.variable import Variable
from flota.paddle.names import public
from flota.paddle.ops.norm import continuous_value_model
from flota.paddle.ops.registry import call_as
from flota.paddle.ops.sequences import (
    sequence_concat,
    sequence_expand_as,
    sequence_first_step,
    sequence_last_step,
    sequence_pad,
    sequence_pool,
    sequence_reverse,
    sequence_softmax,
    sequence_unpad,
)
from flota.paddle.static.layers import activated, batch_norm, conv2d, layer_norm, prelu

__all__ = [
    "activated",
    "batch_norm",
    "continuous_value_model",
    "conv2d",
    "embedding",
    "fc",
    "layer_norm",
    "prelu",
    "sequence_concat",
    "sequence_expand_as",
    "sequence_first_step",
    "sequence_last_step",
    "sequence_pad",
    "sequence_pool",
    "sequence_reverse",
    "sequence_softmax",
    "sequence_unpad",
    "sparse_embedding",
]

__getattr__, __dir__ = public("flota.paddle.static.nn", "paddle.static.nn", {})


def fc(
    x: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    weight_attr: Any = None,
    bias_attr: Any = None,
    activation: str | None = None,
    name: str | None = None,
) -> Any:
    """A fully connected layer; of several inputs, each has a weight, and their products are added."""
    inputs = [x] if isinstance(x, Variable) else list(x)
    layer = name or names.generate("fc")
    attrs = list(weight_attr) if isinstance(weight_attr, (list, tuple)) else [weight_attr] * len(inputs)
    parts = []
    for each, given in zip(inputs, attrs, strict=True):
        columns = each.shape[num_flatten_dims:]
        if any(side < 0 for side in columns):
            raise InvalidArgument(f"fc: {each.name} {list(each.shape)} has columns whose number the batch decides")
        width = int(np.prod(columns)) if columns else 1
        attr = as_attr(given)
        if attr is None:
            raise InvalidArgument("fc: a layer needs its weight; weight_attr=False would leave none")
        weight = parameter(attr, [width, size], each.dtype, f"{layer}.w")
        parts.append(_product(each, weight, num_flatten_dims, layer))
    total = parts[0] if len(parts) == 1 else call_as(layer, "add_n", parts)
    bias = as_attr(bias_attr)
    if bias is not None:
        shift = parameter(bias, [size], inputs[0].dtype, f"{layer}.b", is_bias=True)
        total = call_as(layer, "add", total, shift)
    return activated(total, activation, layer)


def _product(x: Variable, weight: Variable, num_flatten_dims: int, layer: str) -> Any:
    sides = len(x.shape)
    rows = num_flatten_dims % sides if num_flatten_dims < 0 else num_flatten_dims
    if rows == sides - 1:
        return call_as(layer, "matmul", x, weight)
    return call_as(layer, "mul", x, weight, x_num_col_dims=rows)


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
    *,
    squeezes: bool = False,
    bounded: bool = True,
    entry: Any = None,
    name: str | None = None,
) -> Any:
    """A row for each id. With ``is_sparse`` the rows live in a table, and only those that are used take part."""
    attr = as_attr(param_attr)
    if attr is None:
        raise InvalidArgument("embedding: a layer needs its weight; param_attr=False would leave none")
    count, width = (int(side) for side in size)
    layer = name or names.generate("embedding")
    weight = parameter(
        attr,
        [count, width],
        as_dtype(dtype),
        f"{layer}.w",
        table=is_sparse or is_distributed,
        bounded=bounded,
        entry=entry,
    )
    padding = None if padding_idx is None else padding_idx + count if padding_idx < 0 else padding_idx
    look_up = "lookup_table" if squeezes else "lookup_table_v2"
    return call_as(layer, look_up, input, weight, padding_idx=padding)


def sparse_embedding(
    input: Variable,
    size: Sequence[int],
    padding_idx: int | None = None,
    is_test: bool = False,
    entry: Any = None,
    table_class: str = "MemorySparseTable",
    param_attr: Any = None,
    dtype: Any = "float32",
    slot: int | None = None,
) -> Any:
    """A row for each id of any 64 bits: tables hold as many rows as there are ids. A last side of one becomes the
    row's."""
    check_entry(entry)
    if is_test:
        raise InvalidArgument("sparse_embedding: is_test would have no effect: clone the program with for_test=True")
    if table_class != "MemorySparseTable" or slot is not None:
        raise InvalidArgument("sparse_embedding: there is one kind of table: leave table_class and slot out")
    return embedding(input, size, True, True, padding_idx, param_attr, dtype, squeezes=True, bounded=False, entry=entry)
