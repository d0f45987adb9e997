"""``paddle.static.nn``: layers as functions, with parameters of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flota.errors import InvalidArgument
from flota.paddle.attributes import as_attr
from flota.paddle.dtypes import as_dtype
from flota.paddle.graph import names
from flota.paddle.graph.building import parameter
from flota.paddle.graph.variable import Variable
from flota.paddle.ops import functional, math
from flota.paddle.ops.registry import OPERATIONS, apply


def activated(x: Any, activation: str | None) -> Any:
    """The activation of this name."""
    if activation is None:
        return x
    if activation not in OPERATIONS:
        raise InvalidArgument(f"there is no activation {activation!r}")
    return apply(OPERATIONS[activation], (x,), {})


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
    products = []
    for each, given in zip(inputs, attrs, strict=True):
        columns = each.shape[num_flatten_dims:]
        if any(side < 0 for side in columns):
            raise InvalidArgument(f"fc: {each.name} {list(each.shape)} has columns whose number the batch decides")
        width = int(np.prod(columns)) if columns else 1
        attr = as_attr(given)
        if attr is None:
            raise InvalidArgument("fc: a layer needs its weight; weight_attr=False would leave none")
        weight = parameter(attr, [width, size], each.dtype, f"{layer}.w")
        products.append(_product(each, weight, num_flatten_dims))
    total = products[0] if len(products) == 1 else math.add_n(products)
    bias = as_attr(bias_attr)
    if bias is not None:
        total = math.add(total, parameter(bias, [size], inputs[0].dtype, f"{layer}.b", is_bias=True))
    return activated(total, activation)


def _product(x: Variable, weight: Variable, num_flatten_dims: int) -> Any:
    sides = len(x.shape)
    rows = num_flatten_dims % sides if num_flatten_dims < 0 else num_flatten_dims
    if rows == sides - 1:
        return math.matmul(x, weight)
    return math.mul(x, weight, x_num_col_dims=rows)


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
    weight = parameter(
        attr,
        [count, width],
        as_dtype(dtype),
        f"{name or names.generate('embedding')}.w",
        table=is_sparse or is_distributed,
        bounded=bounded,
        entry=entry,
    )
    padding = None if padding_idx is None else padding_idx + count if padding_idx < 0 else padding_idx
    look_up = functional.lookup_table if squeezes else functional.lookup_table_v2
    return look_up(input, weight, padding_idx=padding)


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
    """A row for each id of any 64 bits: tables hold as many rows as there are ids."""
    if entry is not None:
        raise InvalidArgument("sparse_embedding: entry would have no effect yet: every id gets a row; leave it out")
    if is_test:
        raise InvalidArgument("sparse_embedding: is_test would have no effect: clone the program with for_test=True")
    if table_class != "MemorySparseTable" or slot is not None:
        raise InvalidArgument("sparse_embedding: there is one kind of table: leave table_class and slot out")
    return embedding(input, size, True, True, padding_idx, param_attr, dtype, bounded=False, entry=entry)


sequence_pool = functional.sequence_pool
