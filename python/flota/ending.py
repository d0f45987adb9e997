"""The end of a process: what other threads wait for is given up before the interpreter goes, and it goes quickly."""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import sys

_WRITTEN = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)


@atexit.register
def end_waits() -> None:
    """Registered before all others, and so called after them: what they have to tell the servers they still can."""
    core = sys.modules.get("flota._core")
    if core is not None:
        core.end_waits()
    if "torch" in sys.modules:
        _leave_the_garbage()


def _leave_the_garbage() -> None:
    """The interpreter would now search all that torch has made for garbage, several times: a third of a second of
    computing for memory that the kernel takes back at once. What such a search does for users, files that are part of
    a cycle reach the disk, is done here."""
    for thing in gc.get_objects():
        if issubclass(type(thing), _WRITTEN):
            with contextlib.suppress(OSError, ValueError):  # it is closed, or nobody reads it
                thing.flush()
    gc.freeze()
