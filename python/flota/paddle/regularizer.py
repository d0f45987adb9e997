"""Weight decay: what is added to a parameter's gradient."""

from __future__ import annotations

from typing import Any

from flota.errors import InvalidArgument


class WeightDecayRegularizer:
    """What both share. Use one of the subclasses."""

    def __init__(self, coeff: float = 0.0) -> None:
        self.coefficient = float(coeff)

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.coefficient:g})"

    __repr__ = __str__


class L1Decay(WeightDecayRegularizer):
    """Adds ``coeff`` times the weight's sign."""


class L2Decay(WeightDecayRegularizer):
    """Adds ``coeff`` times the weight."""


class L1DecayRegularizer(L1Decay):
    """1.x's name and argument."""

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        super().__init__(regularization_coeff)


class L2DecayRegularizer(L2Decay):
    """1.x's name and argument."""

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        super().__init__(regularization_coeff)


def as_regularizer(decay: Any) -> WeightDecayRegularizer | None:
    """What optimizers and parameters take: a regulariser, None, or a number, which is ``L2Decay``'s."""
    if decay is None or isinstance(decay, (L1Decay, L2Decay)):
        return decay
    if isinstance(decay, (int, float)):
        return L2Decay(decay)
    raise InvalidArgument(f"weight decay is a number, L1Decay or L2Decay, not {decay!r}")
