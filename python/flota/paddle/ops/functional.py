"""What layers compute."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from flota.errors import InvalidArgument
from flota.paddle.ops.making import sides
from flota.paddle.ops.registry import FUNCTIONS, OPERATIONS, apply, operation
from flota.paddle.ops.sequences import sequence_pool as sequence_pool


@operation
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """``x @ weight + bias``: the weight is [in, out]."""
    if bias is not None and x.dim() == 2:
        return torch.addmm(bias, x, weight)
    product = torch.matmul(x, weight)
    return product if bias is None else product + bias


@operation
def bilinear(x1: Any, x2: Any, weight: Any, bias: Any = None) -> Any:
    return F.bilinear(x1, x2, weight, None if bias is None else bias.reshape(-1))


@operation
def dropout(x: Any, p: float = 0.5, axis: Any = None, training: bool = True, mode: str = "upscale_in_train") -> Any:
    """``axis``: the sides along which elements are dropped one by one; along the others, together."""
    if mode not in ("upscale_in_train", "downscale_in_infer"):
        raise InvalidArgument(f"dropout: mode is upscale_in_train or downscale_in_infer, not {mode!r}")
    if not training:
        return x if mode == "upscale_in_train" else x * (1 - p)
    if axis is None:
        dropped = F.dropout(x, p, True)
    else:
        own = [side % x.dim() for side in sides(axis)]
        dropped = x * F.dropout(x.new_ones([x.shape[i] if i in own else 1 for i in range(x.dim())]), p, True)
    return dropped if mode == "upscale_in_train" else dropped * (1 - p)


@operation
def lookup_table(ids: Any, weight: Any, padding_idx: int | None = None) -> Any:
    """1.x: a last side of one becomes the row's."""
    ids = ids.squeeze(-1) if ids.dim() > 1 and ids.shape[-1] == 1 else ids
    return _rows(ids, weight, padding_idx)


@operation
def lookup_table_v2(ids: Any, weight: Any, padding_idx: int | None = None) -> Any:
    return _rows(ids, weight, padding_idx)


def _rows(ids: Any, weight: Any, padding_idx: int | None) -> Any:
    rows = F.embedding(ids, weight)
    return rows if padding_idx is None else rows.masked_fill((ids == padding_idx).unsqueeze(-1), 0)


def embedding(
    x: Any, weight: Any, padding_idx: int | None = None, sparse: bool = False, name: str | None = None
) -> Any:
    """A row for each id; ``padding_idx`` may count from the end. Whether the rows live in a table is decided where the
    weight is made: ``sparse`` changes no number."""
    padding = padding_idx if padding_idx is None or padding_idx >= 0 else padding_idx + weight.shape[0]
    return apply(OPERATIONS["lookup_table_v2"], (x, weight), {"padding_idx": padding}, name)


FUNCTIONS["embedding"] = embedding


@operation
def one_hot(x: Any, num_classes: Any) -> Any:
    if x.is_meta:
        return torch.empty(*x.shape, int(num_classes), dtype=torch.float32)
    return F.one_hot(x.long(), int(num_classes)).to(torch.float32)


@operation
def label_smooth(label: Any, prior_dist: Any = None, epsilon: float = 0.1) -> Any:
    prior = 1 / label.shape[-1] if prior_dist is None else prior_dist
    return (1 - epsilon) * label + epsilon * prior


@operation
def normalize(x: Any, p: float = 2, axis: int = 1, epsilon: float = 1e-12) -> Any:
    return F.normalize(x, p, axis, epsilon)


@operation
def cosine_similarity(x1: Any, x2: Any, axis: int = 1, eps: float = 1e-8) -> Any:
    return F.cosine_similarity(x1, x2, axis, eps)


@operation
def cos_sim(X: Any, Y: Any) -> Any:  # noqa: N803 (so 1.x calls them)
    """1.x: the cosine of each row with that of ``Y``, which may have only one; [rows, 1]."""
    return F.cosine_similarity(X.flatten(1), Y.flatten(1), 1).unsqueeze(1)


@operation
def pad(x: Any, pad: Any, mode: str = "constant", value: float = 0.0, data_format: str = "NCHW") -> Any:
    """``pad``: before and after each side of ``x``, from the first; or, where it names fewer, of the sides that are no
    batch and no channels, from the last."""
    ends = [int(pad)] * (2 * (x.dim() - 2)) if isinstance(pad, int) else sides(pad)
    if len(ends) == 2 * x.dim() and mode == "constant":
        from_last = [end for i in reversed(range(x.dim())) for end in ends[2 * i : 2 * i + 2]]
        return F.pad(x, from_last, "constant", value)
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise InvalidArgument(f"pad: mode is constant, reflect, replicate or circular, not {mode!r}")
    if not channels_last(data_format):
        return F.pad(x, ends, mode, value if mode == "constant" else None)
    padded = F.pad(x.movedim(-1, 1), ends, mode, value if mode == "constant" else None)
    return padded.movedim(1, -1)


@operation
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    training: bool = True,
) -> Any:
    """All are [batch, length, heads, width]."""
    query, key, value = (each.transpose(1, 2) for each in (query, key, value))
    dropped = dropout_p if training else 0.0
    attended = F.scaled_dot_product_attention(query, key, value, attn_mask, dropped, is_causal)
    return attended.transpose(1, 2)


def channels_last(data_format: str) -> bool:
    if data_format in ("NC", "NCL", "NCHW", "NCDHW"):
        return False
    if data_format in ("NLC", "NHWC", "NDHWC"):
        return True
    raise InvalidArgument(f"data_format is NC, NCL, NCHW, NCDHW, NLC, NHWC or NDHWC, not {data_format!r}")
