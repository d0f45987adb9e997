"""What a row begins with: a pure function of the table's seed and the key, whoever asks first and wherever it lives."""

from __future__ import annotations

from dataclasses import dataclass

from flota import _core


@dataclass(frozen=True)
class Initializer:
    """What all initialisers share. Use one of the subclasses."""

    def to_native(self) -> _core.InitSpec:
        raise TypeError(f"{type(self).__name__} is no initialiser of its own; use Constant, Uniform, …")


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


@dataclass(frozen=True)
class Uniform(Initializer):
    """Uniform in ``[low, high)``."""

    low: float = -1.0
    high: float = 1.0

    def to_native(self) -> _core.InitSpec:
        return _spec(_core.InitKind.uniform, self.low, self.high)


@dataclass(frozen=True)
class Normal(Initializer):
    """Normal."""

    mean: float = 0.0
    std: float = 1.0

    def to_native(self) -> _core.InitSpec:
        return _spec(_core.InitKind.normal, self.mean, self.std)


@dataclass(frozen=True)
class TruncatedNormal(Initializer):
    """Normal, kept within ``[low, high]``, as ``torch.nn.init.trunc_normal_`` does."""

    mean: float = 0.0
    std: float = 1.0
    low: float = -2.0
    high: float = 2.0

    def to_native(self) -> _core.InitSpec:
        return _spec(_core.InitKind.truncated_normal, self.mean, self.std, self.low, self.high)


@dataclass(frozen=True)
class XavierUniform(Initializer):
    """Uniform with the bound ``gain * sqrt(6 / (fan_in + fan_out))``."""

    fan_in: int
    fan_out: int
    gain: float = 1.0

    def to_native(self) -> _core.InitSpec:
        return _spec(_core.InitKind.xavier_uniform, self.gain, 0.0, self.fan_in, self.fan_out)
