"""Layers that are one operation with options."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

from flota.paddle.nn.layer import Layer
from flota.paddle.ops.registry import call

_REQUIRED = inspect.Parameter.empty


class SingleOperation(Layer):
    """``options``: the layer's arguments, which are the operation's of the same names, and their defaults."""

    operation: ClassVar[str]
    options: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        arguments = {**cls.options, "name": None}
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, kind, default=default) for name, default in arguments.items()]
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        bound = inspect.signature(type(self)).bind(*args, **kwargs)
        bound.apply_defaults()
        self._name = bound.arguments.pop("name")
        self._given: dict[str, Any] = dict(bound.arguments)

    def forward(self, *inputs: Any) -> Any:
        return call(self.operation, *inputs, **self._given)

    def extra_repr(self) -> str:
        said = [f"{key}={value}" for key, value in self._given.items()]
        return ", ".join([*said, *([f"name={self._name}"] if self._name else [])])


# --- activations ---


class ReLU6(SingleOperation):
    operation = "relu6"


class SELU(SingleOperation):
    operation = "selu"
    options: ClassVar = {"scale": 1.0507009873554805, "alpha": 1.6732632423543772}


class CELU(SingleOperation):
    operation = "celu"
    options: ClassVar = {"alpha": 1.0}


class Hardsigmoid(SingleOperation):
    operation = "hardsigmoid"


class Hardswish(SingleOperation):
    operation = "hardswish"


class Hardtanh(SingleOperation):
    operation = "hardtanh"
    options: ClassVar = {"min": -1.0, "max": 1.0}


class Hardshrink(SingleOperation):
    operation = "hardshrink"
    options: ClassVar = {"threshold": 0.5}


class Softshrink(SingleOperation):
    operation = "softshrink"
    options: ClassVar = {"threshold": 0.5}


class Tanhshrink(SingleOperation):
    operation = "tanhshrink"


class LogSigmoid(SingleOperation):
    operation = "log_sigmoid"


class Mish(SingleOperation):
    operation = "mish"


class Softsign(SingleOperation):
    operation = "softsign"


class ThresholdedReLU(SingleOperation):
    operation = "thresholded_relu"
    options: ClassVar = {"threshold": 1.0}


class Maxout(SingleOperation):
    operation = "maxout"
    options: ClassVar = {"groups": _REQUIRED, "axis": 1}


class GLU(SingleOperation):
    operation = "glu"
    options: ClassVar = {"axis": -1}


# --- losses and distances ---


class SmoothL1Loss(SingleOperation):
    operation = "smooth_l1_loss"
    options: ClassVar = {"reduction": "mean", "delta": 1.0}


class NLLLoss(SingleOperation):
    operation = "nll_loss"
    options: ClassVar = {"weight": None, "ignore_index": -100, "reduction": "mean"}


class KLDivLoss(SingleOperation):
    operation = "kl_div"
    options: ClassVar = {"reduction": "mean"}


class MarginRankingLoss(SingleOperation):
    operation = "margin_ranking_loss"
    options: ClassVar = {"margin": 0.0, "reduction": "mean"}


class HingeEmbeddingLoss(SingleOperation):
    operation = "hinge_embedding_loss"
    options: ClassVar = {"margin": 1.0, "reduction": "mean"}


class CosineEmbeddingLoss(SingleOperation):
    operation = "cosine_embedding_loss"
    options: ClassVar = {"margin": 0, "reduction": "mean"}


class TripletMarginLoss(SingleOperation):
    operation = "triplet_margin_loss"
    options: ClassVar = {"margin": 1.0, "p": 2.0, "epsilon": 1e-6, "swap": False, "reduction": "mean"}


class CosineSimilarity(SingleOperation):
    operation = "cosine_similarity"
    options: ClassVar = {"axis": 1, "eps": 1e-8}


class PairwiseDistance(SingleOperation):
    operation = "pairwise_distance"
    options: ClassVar = {"p": 2.0, "epsilon": 1e-6, "keepdim": False}


# --- windows ---


class MaxPool1D(SingleOperation):
    operation = "max_pool1d"
    options: ClassVar = {
        "kernel_size": _REQUIRED, "stride": None, "padding": 0, "return_mask": False, "ceil_mode": False,
    }  # fmt: skip


class AvgPool1D(SingleOperation):
    operation = "avg_pool1d"
    options: ClassVar = {
        "kernel_size": _REQUIRED, "stride": None, "padding": 0, "exclusive": True, "ceil_mode": False,
    }  # fmt: skip


class AdaptiveAvgPool1D(SingleOperation):
    operation = "adaptive_avg_pool1d"
    options: ClassVar = {"output_size": _REQUIRED}


class AdaptiveAvgPool2D(SingleOperation):
    operation = "adaptive_avg_pool2d"
    options: ClassVar = {"output_size": _REQUIRED, "data_format": "NCHW"}


class AdaptiveMaxPool1D(SingleOperation):
    operation = "adaptive_max_pool1d"
    options: ClassVar = {"output_size": _REQUIRED, "return_mask": False}


class AdaptiveMaxPool2D(SingleOperation):
    operation = "adaptive_max_pool2d"
    options: ClassVar = {"output_size": _REQUIRED, "return_mask": False}


class Pad1D(SingleOperation):
    operation = "pad"
    options: ClassVar = {"padding": _REQUIRED, "mode": "constant", "value": 0.0, "data_format": "NCL"}

    def forward(self, x: Any) -> Any:
        options = {**self._given}
        return call("pad", x, options.pop("padding"), **options)


class Pad2D(Pad1D):
    options: ClassVar = {"padding": _REQUIRED, "mode": "constant", "value": 0.0, "data_format": "NCHW"}
