"""1.x's losses that have weights of their own for each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flota.errors import InvalidArgument
from flota.paddle.attributes import as_attr, named
from flota.paddle.graph import names
from flota.paddle.graph.variable import Variable
from flota.paddle.initializer import Constant
from flota.paddle.ops.registry import call_as
from flota.paddle.ops.sampled import check_sampler
from flota.paddle.static.nn import embedding

__all__ = ["hsigmoid", "nce"]


def nce(
    input: Variable,
    label: Variable,
    num_total_classes: int,
    sample_weight: Variable | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    num_neg_samples: int | None = None,
    name: str | None = None,
    sampler: str = "uniform",
    custom_dist: Sequence[float] | None = None,
    seed: int = 0,
    is_sparse: bool = False,
) -> Any:
    """Noise-contrastive estimation: each sample's classes, ``label`` [samples, classes], against ``num_neg_samples``
    drawn ones (10 unless given); [samples, 1]. ``is_sparse``: the weights [classes, width] and biases [classes, 1] are
    rows of tables."""
    check_sampler(sampler, custom_dist, num_total_classes)
    layer = name or names.generate("nce")
    drawn = 10 if num_neg_samples is None else int(num_neg_samples)
    own = int(label.shape[-1])
    if len(label.shape) != 2 or own < 1:
        raise InvalidArgument(f"nce: label is [samples, classes of each], not {list(label.shape)}")
    chances = None if custom_dist is None else [float(each) for each in custom_dist]
    classes = call_as(layer, "nce_classes", label, num_total_classes, drawn, sampler, chances, seed)
    weights, biases = (
        _rows(layer, kind, attr, classes, [num_total_classes, width], input.dtype, is_sparse)
        for kind, attr, width in (("w", param_attr, int(input.shape[1])), ("b", bias_attr, 1))
    )
    if weights is None:
        raise InvalidArgument("nce: a layer needs its weight; param_attr=False would leave none")
    given = own, num_total_classes, drawn, sampler, chances, sample_weight
    return call_as(layer, "nce_loss", input, classes, weights, biases, *given)


def hsigmoid(
    input: Variable,
    label: Variable,
    num_classes: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
    path_table: Any = None,
    path_code: Any = None,
    is_custom: bool = False,
    is_sparse: bool = False,
) -> Any:
    """The loss of each sample's class as a leaf of a complete binary tree; [samples, 1]. ``is_sparse``: the weights
    [classes - 1, width] and biases [classes - 1, 1] of the tree's nodes are rows of tables."""
    if is_custom or path_table is not None or path_code is not None:
        raise InvalidArgument("hsigmoid: the tree is a complete binary one: leave path_table, path_code, is_custom out")
    if num_classes < 2:
        raise InvalidArgument(f"hsigmoid: a tree has two classes at least, not {num_classes}")
    layer = name or names.generate("hierarchical_sigmoid")
    nodes, right, there = call_as(layer, "hsigmoid_path", label, num_classes)
    weights, biases = (
        _rows(layer, kind, attr, nodes, [num_classes - 1, width], input.dtype, is_sparse)
        for kind, attr, width in (("w", param_attr, int(input.shape[1])), ("b", bias_attr, 1))
    )
    if weights is None:
        raise InvalidArgument("hsigmoid: a layer needs its weight; param_attr=False would leave none")
    return call_as(layer, "hsigmoid_of_path", input, weights, biases, right, there)


def _rows(layer: str, kind: str, attr: Any, classes: Variable, size: list[int], dtype: Any, is_sparse: bool) -> Any:
    given = as_attr(attr)
    if given is None:
        return None
    if kind == "b" and given.initializer is None:
        given = replace(given, initializer=Constant(0.0))
    given = named(given, names.generate(f"{layer}.{kind}"))
    return embedding(classes, size, is_sparse, param_attr=given, dtype=dtype, name=layer)
