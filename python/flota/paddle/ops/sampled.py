"""Losses of very many classes, of which only some take part."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from flota.errors import InvalidArgument
from flota.paddle.ops.making import generator
from flota.paddle.ops.registry import operation

SAMPLERS = ("uniform", "log_uniform", "custom_dist")


@operation
def nce_classes(
    label: Any, num_total_classes: int, num_neg_samples: int, sampler: str, custom_dist: Any = None, seed: int = 0
) -> Any:
    """For each sample its classes and then as many drawn ones, with replacement: [samples, classes]. All classes can be
    drawn, also the last by ``log_uniform``."""
    if label.is_meta:
        return label.new_empty(label.shape[0], label.shape[1] + num_neg_samples, dtype=torch.int64)
    wanted = (label.shape[0], num_neg_samples)
    source = generator(seed)
    if sampler == "uniform":
        drawn = torch.randint(num_total_classes, wanted, generator=source)
    elif sampler == "log_uniform":
        parts = torch.rand(wanted, dtype=torch.float64, generator=source)
        drawn = (torch.exp(parts * math.log(num_total_classes + 1)).long() - 1) % num_total_classes
    else:
        weights = torch.as_tensor(custom_dist, dtype=torch.float64, device="cpu")
        drawn = torch.multinomial(weights, math.prod(wanted), replacement=True, generator=source).reshape(wanted)
    return torch.cat([label.long(), drawn.to(label.device)], 1)


def _chances(classes: torch.Tensor, total: int, sampler: str, custom_dist: Any) -> torch.Tensor:
    """How likely each class is drawn."""
    if sampler == "uniform":
        return torch.full_like(classes, 1.0 / total, dtype=torch.float32)
    if sampler == "log_uniform":
        numbers = classes.double()
        return (torch.log1p(1 / (numbers + 1)) / math.log(total + 1)).float()
    return torch.as_tensor(custom_dist, dtype=torch.float32, device=classes.device)[classes]


@operation
def nce_loss(
    input: Any,
    classes: Any,
    weights: Any,
    biases: Any,
    num_true: int,
    num_total_classes: int,
    num_neg_samples: int,
    sampler: str,
    custom_dist: Any = None,
    sample_weight: Any = None,
) -> Any:
    """Noise-contrastive estimation: how well each sample's own classes (the first ``num_true``) are told from drawn
    ones; [samples, 1]. ``weights``, ``biases``: the rows of ``classes``."""
    scores = (weights * input.unsqueeze(1)).sum(2)
    if biases is not None:
        scores = scores + biases.squeeze(2)
    noise = _chances(classes, num_total_classes, sampler, custom_dist) * num_neg_samples
    # With o the scores' sigmoid: -log(o / (o + noise)), and -log(noise / (o + noise)) of drawn ones.
    log_o = F.logsigmoid(scores)
    total = torch.logaddexp(log_o, torch.log(noise))
    own = torch.arange(classes.shape[1], device=classes.device) < num_true
    loss = torch.where(own, total - log_o, total - torch.log(noise)).sum(1, keepdim=True)
    return loss if sample_weight is None else loss * sample_weight.reshape(-1, 1)


def check_sampler(sampler: str, custom_dist: Any, num_total_classes: int) -> None:
    if sampler not in SAMPLERS:
        raise InvalidArgument(f"nce: sampler is {', '.join(SAMPLERS)}, not {sampler!r}")
    if (custom_dist is not None) != (sampler == "custom_dist"):
        raise InvalidArgument("nce: custom_dist goes with sampler='custom_dist', and with no other")
    if custom_dist is not None and len(custom_dist) != num_total_classes:
        raise InvalidArgument(f"nce: custom_dist has {len(custom_dist)} chances for {num_total_classes} classes")


@operation
def hsigmoid_path(label: Any, num_classes: int) -> Any:
    """For each sample the inner nodes from its class's leaf up to the root of a complete binary tree, whether it lies
    on the right of each, and whether there is such a node: all [samples, longest path]."""
    longest = (2 * num_classes - 1).bit_length() - 1
    places = torch.arange(longest, device=label.device)
    # The root is 1, a node's children are twice its number and one more, and leaves are numbered from num_classes on.
    leaf = label.reshape(-1, 1).long() + num_classes
    nodes = leaf >> (places + 1)
    return (nodes - 1).clamp(min=0), ((leaf >> places) & 1).float(), nodes > 0


@operation
def hsigmoid_of_path(input: Any, weights: Any, biases: Any, right: Any, there: Any) -> Any:
    """Minus the logarithm of the probability of going from the root to each sample's leaf; [samples, 1]. ``weights``,
    ``biases``: the rows of its path's nodes. (Release 2.6.2 adds log 2 for each node that a path is shorter than the
    longest.)"""
    scores = (weights * input.unsqueeze(1)).sum(2)
    if biases is not None:
        scores = scores + biases.squeeze(2)
    return (F.softplus(scores) - right * scores).masked_fill(~there, 0.0).sum(1, keepdim=True)
