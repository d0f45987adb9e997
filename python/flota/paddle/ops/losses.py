"""Losses."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from flota.errors import InvalidArgument
from flota.paddle.ops.registry import operation


def _reduced(loss: Any, reduction: str) -> Any:
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise InvalidArgument(f"reduction is mean, sum or none, not {reduction!r}")


# --- of clicks ---


@operation
def log_loss(input: Any, label: Any, epsilon: float = 1e-4) -> Any:
    return -label * torch.log(input + epsilon) - (1 - label) * torch.log(1 - input + epsilon)


@operation
def binary_cross_entropy(input: Any, label: Any, weight: Any = None, reduction: str = "mean") -> Any:
    loss = F.binary_cross_entropy(input, label.to(input.dtype), reduction="none")
    return _reduced(loss if weight is None else loss * weight, reduction)


@operation
def binary_cross_entropy_with_logits(
    logit: Any, label: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Any:
    loss = F.binary_cross_entropy_with_logits(logit, label.to(logit.dtype), pos_weight=pos_weight, reduction="none")
    return _reduced(loss if weight is None else loss * weight, reduction)


@operation
def sigmoid_cross_entropy_with_logits(x: Any, label: Any, ignore_index: int = -100, normalize: bool = False) -> Any:
    loss = F.binary_cross_entropy_with_logits(x, label.to(x.dtype), reduction="none")
    kept = label != ignore_index
    loss = torch.where(kept, loss, 0.0)
    return loss / kept.sum().clamp(min=1) if normalize else loss


@operation
def sigmoid_focal_loss(
    logit: Any,
    label: Any,
    normalizer: Any = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "sum",
) -> Any:
    label = label.to(logit.dtype)
    loss = F.binary_cross_entropy_with_logits(logit, label, reduction="none")
    p = torch.sigmoid(logit)
    missed = 1 - (p * label + (1 - p) * (1 - label))
    loss = (alpha * label + (1 - alpha) * (1 - label)) * missed**gamma * loss
    return _reduced(loss if normalizer is None else loss / normalizer, reduction)


# --- of classes ---


def _log(probabilities: torch.Tensor) -> torch.Tensor:
    """The logarithm; of a probability that has underflowed to zero, that of the least number there is."""
    return torch.log(probabilities.clamp(min=torch.finfo(probabilities.dtype).tiny))


def _picked(
    log_p: torch.Tensor, label: torch.Tensor, axis: int, ignore_index: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """For each label, minus its logarithm, which is 0 for those that are ignored; and whether a label counts. Labels
    may lack the side of the classes: results have it, of one element."""
    label = label.long() if label.dim() == log_p.dim() else label.long().unsqueeze(axis)
    counts = label != ignore_index
    picked = torch.gather(log_p, axis, torch.where(counts, label, 0))
    return torch.where(counts, -picked, 0.0), counts


@operation
def cross_entropy(
    input: Any,
    label: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    label_smoothing: float = 0.0,
) -> Any:
    """``label``: numbers of classes, without the classes' side or with one of 1; or probabilities of classes
    (``soft_label``). ``use_softmax=False``: ``input`` holds probabilities. A mean is one by weights."""
    log_p = torch.log_softmax(input, axis) if use_softmax else _log(input)
    classes = input.shape[axis]
    side = label.dim() != input.dim()
    if not (soft_label or label_smoothing) and input.dim() == 2 and axis in (-1, 1):
        return _of_matrix(log_p, label, weight, ignore_index, reduction)
    if label_smoothing > 0:
        if not soft_label:
            label = _one_hot(label if side else label.squeeze(axis), classes, axis, input.dtype)
            soft_label, side = True, False
        label = (1 - label_smoothing) * label + label_smoothing / classes
    along = [1] * input.dim()
    along[axis] = classes
    if soft_label:
        share = None if weight is None else (label * weight.reshape(along)).sum(axis, keepdim=True)
        loss = -(log_p * label).sum(axis, keepdim=True)
    else:
        loss, counts = _picked(log_p, label, axis, ignore_index)
        places = label.long().unsqueeze(axis) if side else label.long()
        share = counts.to(loss.dtype)
        if weight is not None:
            share = share * weight[torch.where(counts, places, 0)]
    if weight is not None:
        loss = loss * share
    if reduction == "mean" and share is not None:
        total = share.sum()
        # Where all labels are ignored the loss is 0, not 0 / 0.
        return loss.sum() / torch.where(total == 0, torch.ones_like(total), total)
    return _reduced(loss.squeeze(axis) if side and reduction == "none" else loss, reduction)


def _of_matrix(
    log_p: torch.Tensor, label: torch.Tensor, weight: torch.Tensor | None, ignore_index: int, reduction: str
) -> torch.Tensor:
    """The same for what most losses are: a class for each row."""
    classes = label.reshape(-1).long()
    if reduction == "none":
        return F.nll_loss(log_p, classes, weight, ignore_index=ignore_index, reduction="none").reshape(label.shape)
    loss = F.nll_loss(log_p, classes, weight, ignore_index=ignore_index, reduction="sum")
    if reduction == "sum":
        return loss
    counts = classes != ignore_index
    total = counts.sum() if weight is None else (weight[classes.where(counts, 0)] * counts).sum()
    return loss / total.where(total != 0, 1)


def _one_hot(label: torch.Tensor, classes: int, axis: int, dtype: torch.dtype) -> torch.Tensor:
    there = label.long().unsqueeze(axis)
    shape = list(there.shape)
    shape[axis] = classes
    return torch.zeros(shape, dtype=dtype, device=label.device).scatter(axis, there, 1.0)


@operation
def softmax_with_cross_entropy(
    logits: Any,
    label: Any,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any:
    """One loss for each sample, with the classes' side of 1. It is always computed the stable way."""
    log_p = torch.log_softmax(logits, axis)
    if soft_label:
        loss = -(log_p * label).sum(axis, keepdim=True)
    else:
        loss, _ = _picked(log_p, label, axis, ignore_index)
    return (loss, log_p.exp()) if return_softmax else loss


@operation
def cross_entropy_of_probabilities(input: Any, label: Any, soft_label: bool = False, ignore_index: int = -100) -> Any:
    """1.x's ``cross_entropy``: one loss for each sample, [samples, 1]."""
    log_p = _log(input)
    if soft_label:
        return -(log_p * label).sum(-1, keepdim=True)
    loss, _ = _picked(log_p, label, -1, ignore_index)
    return loss


@operation
def nll_loss(input: Any, label: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Any:
    return F.nll_loss(input, label.long(), weight, ignore_index=ignore_index, reduction=reduction)


@operation
def kl_div(input: Any, label: Any, reduction: str = "mean") -> Any:
    loss = F.kl_div(input, label, reduction="none")
    return loss.sum() / len(loss) if reduction == "batchmean" else _reduced(loss, reduction)


# --- of numbers ---


@operation
def square_error_cost(input: Any, label: Any) -> Any:
    return torch.square(input - label)


@operation
def mse_loss(input: Any, label: Any, reduction: str = "mean") -> Any:
    return _reduced(torch.square(input - label), reduction)


@operation
def l1_loss(input: Any, label: Any, reduction: str = "mean") -> Any:
    return _reduced(torch.abs(input - label), reduction)


@operation
def smooth_l1_loss(input: Any, label: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    return F.huber_loss(input, label, reduction=reduction, delta=delta)


@operation
def huber_loss(input: Any, label: Any, delta: float) -> Any:
    """1.x: one loss for each number."""
    return F.huber_loss(input, label, reduction="none", delta=delta)


# --- of orders and likenesses ---


@operation
def margin_ranking_loss(input: Any, other: Any, label: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    return _reduced(torch.relu(margin - label * (input - other)), reduction)


@operation
def margin_rank_loss(label: Any, left: Any, right: Any, margin: float = 0.1) -> Any:
    """1.x: one loss for each pair."""
    return torch.relu(margin - label * (left - right))


@operation
def rank_loss(label: Any, left: Any, right: Any) -> Any:
    """1.x: RankNet's. ``label``: the probability that the left stands before the right."""
    return F.softplus(left - right) - label * (left - right)


@operation
def bpr_loss(input: Any, label: Any) -> Any:
    """1.x: the mean over all other items of how little the chosen one leads; [samples, 1]."""
    chosen = label.reshape(-1, 1).long()
    losses = F.softplus(input - input.gather(1, chosen)).scatter(1, chosen, 0.0)
    return losses.sum(1, keepdim=True) / (input.shape[1] - 1)


@operation
def hinge_embedding_loss(input: Any, label: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    return F.hinge_embedding_loss(input, label, margin, reduction=reduction)


@operation
def cosine_embedding_loss(input1: Any, input2: Any, label: Any, margin: float = 0, reduction: str = "mean") -> Any:
    return F.cosine_embedding_loss(input1, input2, label, margin, reduction=reduction)


@operation
def triplet_margin_loss(
    input: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    epsilon: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    return F.triplet_margin_loss(input, positive, negative, margin, p, epsilon, swap, reduction=reduction)


@operation
def npair_loss(anchor: Any, positive: Any, labels: Any, l2_reg: float = 0.002) -> Any:
    """Each anchor's own positive against those of the batch. Those of the same label are all right."""
    same = labels.reshape(-1, 1) == labels.reshape(1, -1)
    wanted = same.to(anchor.dtype) / same.sum(1, keepdim=True)
    log_p = torch.log_softmax(anchor @ positive.T, 1)
    loss = -(wanted * log_p).sum(1).mean()
    squares = (anchor.square().sum(1) + positive.square().sum(1)).mean()
    return loss + squares * l2_reg * 0.25


# --- of 1.x ---


@operation
def smooth_l1(x: Any, y: Any, inside_weight: Any = None, outside_weight: Any = None, sigma: float | None = None) -> Any:
    """One loss for each sample, [samples, 1]: squares up to ``1 / sigma²``, and lengths from there on."""
    square = 1.0 if sigma is None else float(sigma) ** 2
    away = x - y if inside_weight is None else inside_weight * (x - y)
    far = away.abs()
    loss = torch.where(far < 1 / square, 0.5 * square * away * away, far - 0.5 / square)
    loss = loss if outside_weight is None else outside_weight * loss
    return loss.reshape(len(loss), -1).sum(1, keepdim=True)


@operation
def teacher_student_sigmoid_loss(
    input: Any, label: Any, soft_max_up_bound: float = 15.0, soft_max_lower_bound: float = -15.0
) -> Any:
    """Of a click, and of what a teacher said where it said something. ``label``: -2 without and -1 with a click;
    with a teacher its number from 0 to 1, and one more with a click. Beyond the bounds no gradient flows."""
    within = (input < soft_max_up_bound) & (input > soft_max_lower_bound)
    x = torch.where(within, input, input.detach())
    clicked = ((label >= -1) & (label < 0)) | (label >= 1)
    taught = torch.where(label >= 1, label - 1, label)
    either = F.softplus(x)
    return either - x * clicked + torch.where(label >= 0, either - x * taught, 0.0)
