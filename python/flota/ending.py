"""The end of a process: what other threads wait for is given up before the interpreter goes."""

from __future__ import annotations

import atexit
import sys


@atexit.register
def end_waits() -> None:
    """Registered before all others, and so called after them: what they have to tell the servers they still can."""
    core = sys.modules.get("flota._core")
    if core is not None:
        core.end_waits()
