"""What flota says of itself on standard error, a line an event: for people, or as JSON for what collects logs.

    log.say("restarted", "worker 0 was started again (2 times in all)")

    flota: worker 0 was started again (2 times in all)
    {"time": "2026-11-19T08:00:00.123Z", "level": "info", "role": "worker", "index": 0, "pid": 4711,
     "event": "restarted", "message": "worker 0 was started again (2 times in all)"}

``FLOTA_LOG_FORMAT`` (text, json) says which, ``FLOTA_LOG_LEVEL`` (debug, info, warning, error) what is said at all. A
server's core says its lines in the same two forms. What a script prints is its own. A line for which the disk has no
room is lost: nothing here ends a job.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from flota import config
from flota.errors import InvalidArgument

if TYPE_CHECKING:
    from flota import _core

_speaker: tuple[str, int] = ("script", 0)  # as long as nobody knows which process of a job this one is


def speak_as(role: str, index: int) -> None:
    """Who this process is in its lines from here on. Wrong settings are refused here, not at the first line."""
    global _speaker
    config.log_format(), config.log_level()
    _speaker = (role, index)


def is_said(level: str) -> bool:
    return config.LOG_LEVELS.index(level) >= config.LOG_LEVELS.index(config.log_level())


def as_json() -> bool:
    """Whether lines are objects. A wrong setting is refused by ``speak_as``, and that is said as text."""
    with contextlib.suppress(InvalidArgument):
        return config.log_format() == "json"
    return False


def line_of(event: str, message: str, level: str, **more: Any) -> str:
    """One JSON object: what happened (``event``, a word that programs can rely on), to whom, and in words. ``more``:
    what else there is, in values that JSON has."""
    role, index = _speaker
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    found = {"time": now, "level": level, "role": role, "index": index, "pid": os.getpid(), "event": event}
    finite = {name: None if isinstance(v, float) and not math.isfinite(v) else v for name, v in more.items()}
    return json.dumps({**found, "message": message, **finite}, ensure_ascii=False)


def say(event: str, message: str, level: str = "info", **more: Any) -> None:
    """Says that something has happened. Thread safety: any thread."""
    if not is_said(level):
        return
    text = (
        line_of(event, message, level, **more)
        if as_json()
        else "\n".join(f"flota: {line}" for line in message.split("\n"))
    )
    with contextlib.suppress(OSError, ValueError):  # a full disk, or a stream that is closed
        # One call: lines of several threads do not mix.
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def take_server_lines(options: _core.ServerOptions) -> None:
    """A server's core says its lines as this process does."""
    from flota import _core

    options.log_json = as_json()
    options.log_level = _core.LogLevel[config.log_level()]
