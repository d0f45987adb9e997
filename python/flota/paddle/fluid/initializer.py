"""``fluid.initializer``: 1.x's names and arguments for first values."""

from __future__ import annotations

from typing import Any

from flota.errors import InvalidArgument
from flota.paddle import initializer as v2

__all__ = [
    "MSRA",
    "Constant",
    "ConstantInitializer",
    "MSRAInitializer",
    "Normal",
    "NormalInitializer",
    "NumpyArrayInitializer",
    "TruncatedNormal",
    "TruncatedNormalInitializer",
    "Uniform",
    "UniformInitializer",
    "Xavier",
    "XavierInitializer",
]


def Constant(value: float = 0.0, force_cpu: bool = False) -> v2.Initializer:  # noqa: N802 (they were classes)
    """``force_cpu``: where the value is made; it is the same everywhere."""
    return v2.Constant(value)


def Uniform(  # noqa: N802
    low: float = -1.0, high: float = 1.0, seed: int = 0, diag_num: int = 0, diag_step: int = 0, diag_val: float = 1.0
) -> v2.Initializer:
    if diag_num:
        raise InvalidArgument("Uniform: diag_num is not known here; set the diagonal with Assign")
    return v2.Uniform(low, high, seed)


def Normal(loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> v2.Initializer:  # noqa: N802
    return v2.Normal(loc, scale, seed)


def TruncatedNormal(loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> v2.Initializer:  # noqa: N802
    return v2.TruncatedNormal(loc, scale, seed=seed)


def Xavier(  # noqa: N802
    uniform: bool = True, fan_in: float | None = None, fan_out: float | None = None, seed: int = 0
) -> v2.Initializer:
    made = v2.XavierUniform(fan_in, fan_out) if uniform else v2.XavierNormal(fan_in, fan_out)
    made.seed = seed
    return made


def MSRA(uniform: bool = True, fan_in: float | None = None, seed: int = 0) -> v2.Initializer:  # noqa: N802
    made = v2.KaimingUniform(fan_in) if uniform else v2.KaimingNormal(fan_in)
    made.seed = seed
    return made


def NumpyArrayInitializer(value: Any) -> v2.Initializer:  # noqa: N802
    return v2.Assign(value)


ConstantInitializer = Constant
UniformInitializer = Uniform
NormalInitializer = Normal
TruncatedNormalInitializer = TruncatedNormal
XavierInitializer = Xavier
MSRAInitializer = MSRA
