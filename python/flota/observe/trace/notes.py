"""What workers post when somebody wishes for a trace, read with care: a note may be of another version, or damaged."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

_MOST = 1 << 53  # microseconds: more is no time
_MOST_EVENTS = 1 << 16
_MOST_TEXT = 64


@dataclass(frozen=True)
class Span:
    """Microseconds since the trace began."""

    part: str
    began: int
    length: int
    thread: int

    @property
    def end(self) -> int:
        return self.began + self.length


@dataclass(frozen=True)
class WorkerTrace:
    """Some steps of one worker."""

    worker: int
    name: str  # of the wish
    host: str
    pid: int
    mode: str  # local where there are no servers
    steps: int  # whole ones that it has
    asked: int
    last_step: int  # its number, as the worker counts
    began: float  # of time 0, on the worker's clock: seconds since the epoch
    posted: float  # when it was sent, on the same clock
    trip: float  # seconds that a note took to the server and back
    missed: int  # spans for which there was no room
    threads: list[str]
    spans: list[Span]  # by beginning, the outer before the inner


class _Malformed(Exception):
    pass


def read(worker: int, note: bytes | dict[str, Any]) -> WorkerTrace | None:
    """None: it is no trace."""
    try:
        said = json.loads(note) if isinstance(note, bytes) else note
        if not isinstance(said, dict):
            return None
        threads = [_text(name) for name in _list(said["threads"])[:_MOST_TEXT]]
        spans = [_span(event, len(threads)) for event in _list(said["events"])[:_MOST_EVENTS]]
        spans.sort(key=lambda span: (span.began, -span.length))
        return WorkerTrace(
            worker, _text(said["id"]), _text(said["host"]), _whole(said["pid"]), _text(said["mode"]) or "local",
            sum(span.part == "step" for span in spans), _whole(said["asked"]), _whole(said["step"]),
            _seconds(said["began"]), _seconds(said.get("posted", said["began"])), _seconds(said.get("trip", 0.0)),
            _whole(said["missed"]), threads, spans,
        )  # fmt: skip
    except (_Malformed, KeyError, ValueError, RecursionError):
        return None


def _span(event: Any, threads: int) -> Span:
    if not isinstance(event, list) or len(event) != 4:
        raise _Malformed
    part, began, length, thread = event
    span = Span(_text(part), _whole(began), _whole(length), _whole(thread))
    if not span.part or span.thread >= threads:
        raise _Malformed
    return span


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _Malformed
    return value


def _text(value: Any) -> str:
    """What a terminal can show."""
    if not isinstance(value, str):
        raise _Malformed
    return "".join(letter if letter.isprintable() else "?" for letter in value[:_MOST_TEXT])


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST:
        raise _Malformed
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or abs(value) > 1e12:
        raise _Malformed
    return float(value)
