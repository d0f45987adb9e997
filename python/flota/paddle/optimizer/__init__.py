"""``paddle.optimizer``: optimizers and learning rates."""
