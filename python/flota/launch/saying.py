"""What a launch says: lines in Fleet's shape, or as JSON objects (``flota.log``), to whoever reads its output."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from flota import log

_read_by_a_program = False


def stay_text() -> None:
    """Whoever started this launch reads its lines, and knows their text: all are said, and so, whatever the environment
    wants of other processes."""
    global _read_by_a_program
    _read_by_a_program = True


def say(text: str, event: str = "note", level: str = "info", **more: Any) -> None:
    """One line about the job. ``event`` and ``more`` are for programs: see ``log.line_of``."""
    if not _is_said(level):
        return
    if _as_json():
        show(_object(event, text, level, more))
        return
    now = datetime.now()
    show(f"INFO {now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d} launch] {text}")


def tell(trouble: str | None) -> None:
    """Says what went wrong without ending the job, if anything did."""
    if trouble:
        say(trouble, "trouble", "warning")


def fail(text: str, event: str = "failed", **more: Any) -> None:
    """Says on standard error why the job, or a part of it, ends."""
    if _as_json():
        text = _object(event, text.replace("flota launch: ", ""), "error", more)
    show(text, error=True)


def show_table(event: str, what: str, table: str, values: Mapping[str, Any]) -> None:
    """What is in effect: the table, or its values as one object."""
    if not _is_said("info"):
        return
    show(_object(event, what, "info", {"values": dict(values)}) if _as_json() else table)


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


def _is_said(level: str) -> bool:
    return _read_by_a_program or log.is_said(level)


def _as_json() -> bool:
    return not _read_by_a_program and log.as_json()


def _object(event: str, text: str, level: str, more: Mapping[str, Any]) -> str:
    return log.line_of(event, text, level, host=socket.gethostname(), **more)
