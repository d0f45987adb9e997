"""``fluid.optimizer``: 1.x's optimizers, each by its two names."""

from flota.paddle.optimizer.fluid import (
    AdagradOptimizer,
    AdamaxOptimizer,
    AdamOptimizer,
    FtrlOptimizer,
    LambOptimizer,
    MomentumOptimizer,
    RMSPropOptimizer,
    SGDOptimizer,
)

__all__ = [
    "SGD",
    "Adagrad",
    "AdagradOptimizer",
    "Adam",
    "AdamOptimizer",
    "Adamax",
    "AdamaxOptimizer",
    "Ftrl",
    "FtrlOptimizer",
    "LambOptimizer",
    "Momentum",
    "MomentumOptimizer",
    "RMSPropOptimizer",
    "SGDOptimizer",
]

SGD = SGDOptimizer
Momentum = MomentumOptimizer
Adagrad = AdagradOptimizer
Adam = AdamOptimizer
Adamax = AdamaxOptimizer
Ftrl = FtrlOptimizer
