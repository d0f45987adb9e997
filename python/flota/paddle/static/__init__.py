"""``paddle.static``."""
