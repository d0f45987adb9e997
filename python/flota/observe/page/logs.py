"""The ends of logs, and lines in them that tell of errors. What a log says is anybody's: it is read, never believed."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

MOST_LINES = 60
_MOST_BYTES = 64 << 10  # of one log at a time
_LONGEST = 600  # characters of a line that are shown

_ERROR = re.compile(
    r"^flota\.errors\.\w+:|^(?:[A-Za-z_][\w.]*\.)?(?:[A-Z]\w*(?:Error|Exception|Exceeded|Unavailable|Interrupt)|SystemExit)\b(?::|$)"
    r"|\b(?:ERROR|FATAL|CRITICAL|DAMAGED)\b|^(?:error|fatal): ",
)
# Controls, and what turns the order of letters around: a log's text stays within its line.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\x1b\\[[0-9;]*[A-Za-z]")


def tail(path: str, lines: int = MOST_LINES) -> list[str]:
    """The last lines of a file; none where it is not there, or is no file."""
    found = _read(path, None)[0]
    return [clean(line) for line in found.splitlines()[-lines:]]


def clean(line: str) -> str:
    line = _UNSEEN.sub("", line.replace("\t", "    "))
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "…"


class Scan:
    """Lines of one log that tell of errors, as they come."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._at: int | None = None  # None: it was not read yet
        self._rest = ""

    def new_errors(self) -> list[str]:
        if self._at is not None:
            try:
                if Path(self.path).stat().st_size == self._at:
                    return []
            except OSError:
                return []
        text, self._at = _read(self.path, self._at)
        *lines, self._rest = (self._rest + text).split("\n")
        self._rest = self._rest[-_LONGEST:]
        return [clean(line) for line in lines if _is_error(line)]


def _is_error(line: str) -> bool:
    if line.startswith("{"):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return False
        return isinstance(found, dict) and str(found.get("level")).lower() in ("error", "fatal", "critical")
    return bool(_ERROR.search(line[:_LONGEST]))


def _read(path: str, begin: int | None) -> tuple[str, int]:
    """From there on, or from as near the end as is read at a time; also where it ended."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return "", begin or 0
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            return "", begin or 0
        least = max(0, state.st_size - _MOST_BYTES)
        if begin is None or begin < least or begin > state.st_size:
            begin = least
        file.seek(begin)
        read = file.read(_MOST_BYTES)
        if begin == least and least:
            read = read.partition(b"\n")[2]  # of its first line, the beginning was not read
        return read.decode(errors="replace"), file.tell()
