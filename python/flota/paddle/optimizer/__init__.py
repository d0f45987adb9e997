"""``paddle.optimizer``: optimizers and learning rates."""

from flota.paddle.optimizer import lr
from flota.paddle.optimizer.optimizer import Optimizer
from flota.paddle.optimizer.optimizers import SGD, Adagrad, Adam, Adamax, AdamW, Ftrl, Lamb, Momentum, RMSProp

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Ftrl",
    "Lamb",
    "Momentum",
    "Optimizer",
    "RMSProp",
    "lr",
]
