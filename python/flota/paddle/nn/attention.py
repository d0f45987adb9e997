"""Attention, and the encoder of transformers: what sequences are read by where no step waits for another."""

from __future__ import annotations

from typing import Any

from flota.errors import InvalidArgument
from flota.paddle.dtypes import name_of
from flota.paddle.nn.common import Dropout, Linear
from flota.paddle.nn.container import LayerList
from flota.paddle.nn.layer import Layer
from flota.paddle.nn.norm import LayerNorm
from flota.paddle.ops.registry import call

_LEAST = 1e9  # what a place is lowered by that may not be looked at


class MultiHeadAttention(Layer):
    """``attention(query, key, value, attn_mask)``: all are [batch, length, width]. ``attn_mask``: added to the scores,
    [batch, heads, length of the query, length of the keys] or what broadcasts to it; of truth values or whole numbers,
    where they are not looked at is False or 0. ``need_weights``: returns the weights as well."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        kdim: int | None = None,
        vdim: int | None = None,
        need_weights: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise InvalidArgument(f"MultiHeadAttention: {num_heads} heads cannot share a width of {embed_dim}")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.dropout, self.need_weights = dropout, need_weights
        self.q_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)
        self.k_proj = Linear(self.kdim, embed_dim, weight_attr, bias_attr)
        self.v_proj = Linear(self.vdim, embed_dim, weight_attr, bias_attr)
        self.out_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)

    def forward(self, query: Any, key: Any = None, value: Any = None, attn_mask: Any = None, cache: Any = None) -> Any:
        if cache is not None:
            raise InvalidArgument("MultiHeadAttention: a cache is not known here; give the whole sequence")
        key = query if key is None else key
        value = key if value is None else value
        queries, keys, values = (
            self._heads(layer(each)) for layer, each in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value))
        )
        scores = call("matmul", call("scale", queries, self.head_dim**-0.5), keys, transpose_y=True)
        if attn_mask is not None:
            scores = call("add", scores, _added(attn_mask, scores))
        weights = call("softmax", scores)
        if self.dropout:
            weights = call("dropout", weights, self.dropout, training=self.training)
        joined = call("transpose", call("matmul", weights, values), [0, 2, 1, 3])
        result = self.out_proj(call("reshape", joined, [0, 0, self.embed_dim]))
        return (result, weights) if self.need_weights else result

    def _heads(self, x: Any) -> Any:
        """[batch, heads, length, width of a head]"""
        return call("transpose", call("reshape", x, [0, 0, self.num_heads, self.head_dim]), [0, 2, 1, 3])


def _added(mask: Any, scores: Any) -> Any:
    if name_of(mask.dtype) == "bool" or name_of(mask.dtype).startswith("int"):
        return call("scale", call("subtract", call("cast", mask, scores.dtype), 1.0), _LEAST)
    return mask


class TransformerEncoderLayer(Layer):
    """Attention of a sequence to itself, and two linear layers; each is added to what it was given."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        super().__init__()
        self._config = given  # what another layer like this one is made of
        if activation not in ("relu", "gelu"):
            raise InvalidArgument(f"TransformerEncoderLayer: activation is relu or gelu, not {activation!r}")
        weights, biases = _pair(weight_attr), _pair(bias_attr)
        inner = dropout if attn_dropout is None else attn_dropout
        self.normalize_before, self._activation = normalize_before, activation
        self.self_attn = MultiHeadAttention(d_model, nhead, inner, weight_attr=weights[0], bias_attr=biases[0])
        self.linear1 = Linear(d_model, dim_feedforward, weights[1], biases[1])
        self.dropout = Dropout(dropout if act_dropout is None else act_dropout)
        self.linear2 = Linear(dim_feedforward, d_model, weights[1], biases[1])
        self.norm1, self.norm2 = LayerNorm(d_model), LayerNorm(d_model)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    def forward(self, src: Any, src_mask: Any = None, cache: Any = None) -> Any:
        before = self.norm1(src) if self.normalize_before else src
        attended = self.self_attn(before, before, before, src_mask, cache)
        src = call("add", src, self.dropout1(attended))
        src = src if self.normalize_before else self.norm1(src)
        before = self.norm2(src) if self.normalize_before else src
        widened = self.dropout(call(self._activation, self.linear1(before)))
        src = call("add", src, self.dropout2(self.linear2(widened)))
        return src if self.normalize_before else self.norm2(src)


def _pair(attr: Any) -> tuple[Any, Any]:
    """For the attention, and for the linear layers after it."""
    return tuple(attr) if isinstance(attr, (list, tuple)) else (attr, attr)


class TransformerEncoder(Layer):
    """``num_layers`` layers like the given one, which is the first; ``norm`` after the last."""

    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Layer | None = None) -> None:
        super().__init__()
        others = [type(encoder_layer)(**encoder_layer._config) for _ in range(num_layers - 1)]
        self.layers = LayerList([encoder_layer, *others])
        self.num_layers, self.norm = num_layers, norm

    def forward(self, src: Any, src_mask: Any = None, cache: Any = None) -> Any:
        for layer in self.layers:
            src = layer(src, src_mask, cache)
        return src if self.norm is None else self.norm(src)
