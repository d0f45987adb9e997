"""Losses as layers."""

from __future__ import annotations

from typing import Any

from flota.errors import InvalidArgument
from flota.paddle.nn.layer import Layer
from flota.paddle.ops.registry import call


def _checked(reduction: str) -> str:
    if reduction not in ("mean", "sum", "none"):
        raise InvalidArgument(f"reduction is mean, sum or none, not {reduction!r}")
    return reduction


class BCELoss(Layer):
    """Of probabilities."""

    def __init__(self, weight: Any = None, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__()
        self.weight, self.reduction, self.name = weight, _checked(reduction), name

    def forward(self, input: Any, label: Any) -> Any:
        return call("binary_cross_entropy", input, label, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(Layer):
    """Of what a sigmoid would make probabilities."""

    def __init__(
        self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None, name: str | None = None
    ) -> None:
        super().__init__()
        self.weight, self.reduction, self.pos_weight, self.name = weight, _checked(reduction), pos_weight, name

    def forward(self, logit: Any, label: Any) -> Any:
        options = {"weight": self.weight, "reduction": self.reduction, "pos_weight": self.pos_weight}
        return call("binary_cross_entropy_with_logits", logit, label, **options)


class CrossEntropyLoss(Layer):
    """Of classes: ``label`` has their numbers, or with ``soft_label`` a probability for each."""

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        soft_label: bool = False,
        axis: int = -1,
        use_softmax: bool = True,
        label_smoothing: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.weight, self.reduction, self.name = weight, _checked(reduction), name
        self.ignore_index, self.soft_label, self.axis = ignore_index, soft_label, axis
        self.use_softmax, self.label_smoothing = use_softmax, label_smoothing

    def forward(self, input: Any, label: Any) -> Any:
        return call(
            "cross_entropy",
            input,
            label,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            soft_label=self.soft_label,
            axis=self.axis,
            use_softmax=self.use_softmax,
            label_smoothing=self.label_smoothing,
        )


class MSELoss(Layer):
    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _checked(reduction)

    def forward(self, input: Any, label: Any) -> Any:
        return call("mse_loss", input, label, reduction=self.reduction)


class L1Loss(Layer):
    def __init__(self, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__()
        self.reduction, self.name = _checked(reduction), name

    def forward(self, input: Any, label: Any) -> Any:
        return call("l1_loss", input, label, reduction=self.reduction)
