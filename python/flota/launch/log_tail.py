"""A log that is read as it grows."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

_CHUNK = 1 << 16


class LogTail:
    """The lines of a file that grows."""

    def __init__(self, path: Path, begin: int = 0) -> None:
        self._path = path
        self._begin = begin
        self._file: io.BufferedReader | None = None
        self._rest = b""

    def new_lines(self, *, last: bool = False) -> list[str]:
        """The lines since the last call; ``last`` also takes one that is not ended."""
        if self._file is None:
            with contextlib.suppress(FileNotFoundError):
                self._file = self._path.open("rb")
                self._file.seek(self._begin)
        if self._file is None:
            return []
        *lines, self._rest = (self._rest + self._file.read(-1 if last else _CHUNK)).split(b"\n")
        if last and self._rest:
            lines.append(self._rest)
            self._rest = b""
        return [line.decode(errors="replace").rstrip("\r") for line in lines]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
