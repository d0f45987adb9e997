"""``fluid.nets``: 1.x's layers that are made of others."""

from __future__ import annotations

from typing import Any

from flota.errors import InvalidArgument
from flota.paddle.fluid import forms
from flota.paddle.fluid.sequence_layers import sequence_conv
from flota.paddle.names import public
from flota.paddle.ops.registry import call
from flota.paddle.static.nn import fc, sequence_pool

__all__ = ["glu", "scaled_dot_product_attention", "sequence_conv_pool"]


def sequence_conv_pool(
    input: Any,
    num_filters: int,
    filter_size: int,
    param_attr: Any = None,
    act: str | None = "sigmoid",
    pool_type: str = "max",
    bias_attr: Any = None,
) -> Any:
    """One row for each sequence: a convolution along it, activated and pooled."""
    made = sequence_conv(input, num_filters, filter_size, param_attr=param_attr, bias_attr=bias_attr, act=act)
    return sequence_pool(made, pool_type)


def glu(input: Any, dim: int = -1) -> Any:
    """The first half, as far as the second lets it through."""
    first, second = call("split", input, 2, dim)
    return call("multiply", first, call("sigmoid", second))


def scaled_dot_product_attention(
    queries: Any, keys: Any, values: Any, num_heads: int = 1, dropout_rate: float = 0.0
) -> Any:
    """Attention over [batch, length, width]; with several heads each of the three goes through a layer first."""
    if any(len(each.shape) != 3 for each in (queries, keys, values)):
        raise InvalidArgument("scaled_dot_product_attention: queries, keys and values are [batch, length, width]")
    if queries.shape[-1] != keys.shape[-1] or keys.shape[-1] % num_heads or values.shape[-1] % num_heads:
        raise InvalidArgument(
            "scaled_dot_product_attention: queries and keys have one width; the heads divide it, and that of the values"
        )
    q, k, v = (_heads(each, num_heads) for each in (queries, keys, values))
    scores = call("matmul", call("scale", q, (keys.shape[-1] // num_heads) ** -0.5), k, False, True)
    weights = call("softmax", scores)
    weights = forms.dropout(weights, dropout_rate) if dropout_rate else weights
    seen = call("matmul", weights, v)
    return seen if num_heads == 1 else call("reshape", call("transpose", seen, [0, 2, 1, 3]), [0, 0, values.shape[-1]])


def _heads(x: Any, count: int) -> Any:
    """[batch, heads, length, width of one]."""
    if count == 1:
        return x
    width = int(x.shape[-1])
    parts = call("reshape", fc(x, width, 2), [0, 0, count, width // count])
    return call("transpose", parts, [0, 2, 1, 3])


__getattr__, __dir__ = public("flota.paddle.fluid.nets", "paddle.fluid.nets", {})
