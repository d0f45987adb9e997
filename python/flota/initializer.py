"""What a row begins with: a pure function of the table's seed and the key, whoever asks first and wherever it lives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from flota import _core


@dataclass(frozen=True)
class Initializer:
    """What all initialisers share. Use one of the subclasses."""

    def to_native(self) -> _core.InitSpec:
        raise TypeError(f"{type(self).__name__} is no initialiser of its own; use Constant, Uniform, …")

    def average(self) -> float:
        """What a weight begins with on average: what a key without a row counts as where no row can be made."""
        return 0.0


def _spec(kind: _core.InitKind, a: float = 0.0, b: float = 0.0, low: float = 0.0, high: float = 0.0) -> _core.InitSpec:
    spec = _core.InitSpec()
    spec.kind = kind
    spec.a, spec.b, spec.low, spec.high = a, b, low, high
    return spec


@dataclass(frozen=True)
class Constant(Initializer):
    """Every weight is ``value``."""

    value: float = 0.0

    def to_native(self) -> _core.InitSpec:
        return _spec(_core.InitKind.constant, self.value)

    def average(self) -> float:
        return float(self.value)


@dataclass(frozen=True)
class Uniform(Initializer):
    """Uniform in ``[low, high)``."""

    low: float = -1.0
    high: float = 1.0

    def to_native(self) -> _core.InitSpec:
        return _spec(_core.InitKind.uniform, self.low, self.high)

    def average(self) -> float:
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class Normal(Initializer):
    """Normal."""

    mean: float = 0.0
    std: float = 1.0

    def to_native(self) -> _core.InitSpec:
        return _spec(_core.InitKind.normal, self.mean, self.std)

    def average(self) -> float:
        return float(self.mean)


@dataclass(frozen=True)
class TruncatedNormal(Initializer):
    """Normal, kept within ``[low, high]``, as ``torch.nn.init.trunc_normal_`` does."""

    mean: float = 0.0
    std: float = 1.0
    low: float = -2.0
    high: float = 2.0

    def to_native(self) -> _core.InitSpec:
        return _spec(_core.InitKind.truncated_normal, self.mean, self.std, self.low, self.high)

    def average(self) -> float:
        nearest = min(max(self.mean, self.low), self.high)
        if self.std == 0:
            return nearest
        low, high = ((end - self.mean) / self.std for end in (self.low, self.high))
        within = (math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2))) / 2
        density = (math.exp(-low * low / 2) - math.exp(-high * high / 2)) / math.sqrt(2 * math.pi)
        # So far from the mean that nothing of the curve is left, all values are at the nearer end.
        return self.mean + self.std * density / within if within > 0 else nearest


@dataclass(frozen=True)
class XavierUniform(Initializer):
    """Uniform with the bound ``gain * sqrt(6 / (fan_in + fan_out))``."""

    fan_in: int
    fan_out: int
    gain: float = 1.0

    def to_native(self) -> _core.InitSpec:
        return _spec(_core.InitKind.xavier_uniform, self.gain, 0.0, self.fan_in, self.fan_out)


INITIALIZERS: dict[str, type[Initializer]] = {
    kind.__name__: kind for kind in (Constant, Uniform, Normal, TruncatedNormal, XavierUniform)
}

_FROM_NATIVE: dict[_core.InitKind, Callable[[_core.InitSpec], Initializer]] = {
    _core.InitKind.constant: lambda spec: Constant(spec.a),
    _core.InitKind.uniform: lambda spec: Uniform(spec.a, spec.b),
    _core.InitKind.normal: lambda spec: Normal(spec.a, spec.b),
    _core.InitKind.truncated_normal: lambda spec: TruncatedNormal(spec.a, spec.b, spec.low, spec.high),
    _core.InitKind.xavier_uniform: lambda spec: XavierUniform(int(spec.low), int(spec.high), spec.a),
}


def from_native(spec: _core.InitSpec) -> Initializer:
    """The initialiser that the core's spec stands for: ``to_native``'s inverse."""
    return _FROM_NATIVE[spec.kind](spec)
