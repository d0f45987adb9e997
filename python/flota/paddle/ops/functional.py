"""Activations, losses, and what layers compute."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from flota.errors import InvalidArgument
from flota.paddle.jagged import Jagged
from flota.paddle.ops.registry import operation


@operation
def relu(x: Any) -> Any:
    return torch.relu(x)


@operation
def sigmoid(x: Any) -> Any:
    return torch.sigmoid(x)


@operation
def tanh(x: Any) -> Any:
    return torch.tanh(x)


@operation
def softmax(x: Any, axis: int = -1) -> Any:
    return torch.softmax(x, axis)


@operation
def log_softmax(x: Any, axis: int = -1) -> Any:
    return torch.log_softmax(x, axis)


@operation
def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    return F.leaky_relu(x, negative_slope)


@operation
def prelu(x: Any, weight: Any) -> Any:
    return F.prelu(x, weight.reshape(-1))


@operation
def gelu(x: Any, approximate: bool = False) -> Any:
    return F.gelu(x, approximate="tanh" if approximate else "none")


@operation
def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return F.softplus(x, beta, threshold)


@operation
def elu(x: Any, alpha: float = 1.0) -> Any:
    return F.elu(x, alpha)


@operation
def swish(x: Any) -> Any:
    return F.silu(x)


@operation
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """``x @ weight + bias``: the weight is [in, out]."""
    if bias is not None and x.dim() == 2:
        return torch.addmm(bias, x, weight)
    product = torch.matmul(x, weight)
    return product if bias is None else product + bias


@operation
def dropout(
    x: Any, p: float = 0.5, axis: Any = None, training: bool = True, mode: str = "upscale_in_train"
) -> Any:
    if axis is not None:
        raise InvalidArgument("dropout: axis is not known here; drop out a mask of that shape instead")
    if mode == "upscale_in_train":
        return F.dropout(x, p, training)
    if mode != "downscale_in_infer":
        raise InvalidArgument(f"dropout: mode is upscale_in_train or downscale_in_infer, not {mode!r}")
    return F.dropout(x, p, True) * (1 - p) if training else x * (1 - p)


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


@operation
def one_hot(x: Any, num_classes: int) -> Any:
    if x.is_meta:
        return torch.empty(*x.shape, num_classes, dtype=torch.float32)
    return F.one_hot(x.long(), num_classes).to(torch.float32)


@operation
def normalize(x: Any, p: float = 2, axis: int = 1, epsilon: float = 1e-12) -> Any:
    return F.normalize(x, p, axis, epsilon)


@operation
def cosine_similarity(x1: Any, x2: Any, axis: int = 1, eps: float = 1e-8) -> Any:
    return F.cosine_similarity(x1, x2, axis, eps)


# --- losses ---


def _reduced(loss: Any, reduction: str) -> Any:
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise InvalidArgument(f"reduction is mean, sum or none, not {reduction!r}")


@operation
def log_loss(input: Any, label: Any, epsilon: float = 1e-4) -> Any:
    return -label * torch.log(input + epsilon) - (1 - label) * torch.log(1 - input + epsilon)


@operation
def binary_cross_entropy(input: Any, label: Any, weight: Any = None, reduction: str = "mean") -> Any:
    loss = F.binary_cross_entropy(input, label, reduction="none")
    return _reduced(loss if weight is None else loss * weight, reduction)


@operation
def binary_cross_entropy_with_logits(
    logit: Any, label: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Any:
    loss = F.binary_cross_entropy_with_logits(logit, label, pos_weight=pos_weight, reduction="none")
    return _reduced(loss if weight is None else loss * weight, reduction)


@operation
def sigmoid_cross_entropy_with_logits(x: Any, label: Any, ignore_index: int = -100, normalize: bool = False) -> Any:
    loss = F.binary_cross_entropy_with_logits(x, label, reduction="none")
    kept = label != ignore_index
    loss = torch.where(kept, loss, 0.0)
    return loss / kept.sum().clamp(min=1) if normalize else loss


@operation
def square_error_cost(input: Any, label: Any) -> Any:
    return torch.square(input - label)


@operation
def mse_loss(input: Any, label: Any, reduction: str = "mean") -> Any:
    return _reduced(torch.square(input - label), reduction)


@operation
def l1_loss(input: Any, label: Any, reduction: str = "mean") -> Any:
    return _reduced(torch.abs(input - label), reduction)


# --- sequences ---


@operation(sequences=True)
def sequence_pool(input: Any, pool_type: str, pad_value: float = 0.0) -> Any:
    """One row for each sequence. Of an empty one it is ``pad_value``."""
    if not isinstance(input, Jagged):
        raise InvalidArgument("sequence_pool needs sequences: an input with lod_level=1")
    kind = pool_type.lower()
    reduced = {"sum": "sum", "average": "mean", "sqrt": "sum", "max": "max", "min": "min"}.get(kind)
    if reduced is None and kind not in ("first", "last"):
        raise InvalidArgument(f"pool_type is sum, average, sqrt, max, min, first or last, not {pool_type!r}")
    values, offsets = input.values, input.offsets
    if values.is_meta:
        return values.new_empty(input.count, *values.shape[1:])
    if len(values) == input.count and bool((offsets == torch.arange(len(offsets))).all()):
        return values  # each sequence is one value
    empty = input.lengths() == 0
    if kind in ("first", "last"):
        places = offsets[:-1] if kind == "first" else offsets[1:] - 1
        pooled = values[places.clamp(0, max(len(values) - 1, 0))] if len(values) else values.new_zeros(input.count, *values.shape[1:])
    else:
        flat = values.reshape(len(values), -1)
        pooled = torch.segment_reduce(flat, reduced, offsets=offsets, initial=0.0 if reduced == "sum" else None)
        pooled = pooled.reshape(input.count, *values.shape[1:])
        if kind == "sqrt":
            counts = input.lengths().clamp(min=1).to(values.dtype).sqrt()
            pooled = pooled / counts.reshape(-1, *[1] * (values.dim() - 1))
    if bool(empty.any()):
        pooled = pooled.masked_fill(empty.reshape(-1, *[1] * (values.dim() - 1)), pad_value)
    return pooled
