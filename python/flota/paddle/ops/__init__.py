"""The operations, by subject: importing this makes all of them known."""

from flota.paddle.ops import (
    convolution,
    functional,
    losses,
    making,
    math,
    metrics,
    norm,
    reduction,
    search,
    sequences,
    shape,
)

__all__ = [
    "convolution",
    "functional",
    "losses",
    "making",
    "math",
    "metrics",
    "norm",
    "reduction",
    "search",
    "sequences",
    "shape",
]
