"""``paddle.common_ops_import``: where some scripts find ``core``."""

from flota.paddle import core

__all__ = ["core"]
