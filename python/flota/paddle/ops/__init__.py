"""The operations, by subject: importing this makes all of them known."""

from flota.paddle.ops import (
    activations,
    convolution,
    functional,
    losses,
    making,
    math,
    metrics,
    norm,
    products,
    recurrent,
    reduction,
    sampled,
    search,
    sequences,
    shape,
)

__all__ = [
    "activations",
    "convolution",
    "functional",
    "losses",
    "making",
    "math",
    "metrics",
    "norm",
    "products",
    "recurrent",
    "reduction",
    "sampled",
    "search",
    "sequences",
    "shape",
]
