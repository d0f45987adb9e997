"""The mode that a process begins in. 1.x has programs only, and says so when it is imported; a data generator imports
it too, and must not pay for torch, which ``mode`` needs."""

from __future__ import annotations

import sys


class FirstMode:
    static = False


def begin_static() -> None:
    """From here on operations are recorded, also where those are not known yet."""
    FirstMode.static = True
    mode = sys.modules.get("flota.paddle.mode")
    if mode is not None:
        mode.enable_static()
