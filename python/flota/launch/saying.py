"""What a launch says: lines in Fleet's shape, to whoever reads its output."""

from __future__ import annotations

import sys
from datetime import datetime


def say(text: str) -> None:
    """One line about the job, in Fleet's shape."""
    now = datetime.now()
    show(f"INFO {now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d} launch] {text}")


def tell(trouble: str | None) -> None:
    """Says what went wrong without ending the job, if anything did."""
    if trouble:
        say(trouble)


def show(text: str, *, error: bool = False) -> None:
    """Prints. Output that goes to a full disk is lost, and the job goes on."""
    try:
        print(text, file=sys.stderr if error else sys.stdout, flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        pass


def age(seconds: float) -> str:
    """In at most six characters, for what may run for months: 59:59, 3h05m, 4d03h."""
    minutes = int(seconds) // 60
    if minutes < 60:
        return clock(seconds)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 24 else f"{hours // 24}d{hours % 24:02d}h"


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"
