"""Whole lines out of a stream of bytes, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from flota.data.formats.files import Bytes

CHUNK = 512 << 10  # larger ones go back to the system each time they are freed, and cost a third more to read
LONGEST = 16 << 20  # bytes of a line


class Lines(NamedTuple):
    """``text[:end]`` is whole lines; the last of all may lack its newline."""

    text: bytes
    end: int


class TooLong(NamedTuple):
    """A line that is too long to be one. It is left out."""

    bytes_seen: int


def whole_lines(stream: Bytes, limit: int | None = None, in_a_line: bool = False) -> Iterator[Lines | TooLong]:
    """The stream's lines, those that begin within its first ``limit`` bytes. With ``in_a_line`` the stream begins one
    byte before a place in the middle of a text: what comes before the next line is another's, and the byte is not
    counted."""
    cutter = _Cutter(limit, in_a_line)
    while data := stream.read(CHUNK):
        yield from cutter.add(data)
        if cutter.over:
            return
    yield from cutter.rest()


class _Cutter:
    def __init__(self, limit: int | None, in_a_line: bool) -> None:
        self._left = limit  # bytes from the first carried one on, in which a line may begin
        self._carried = b""
        self._dropping = in_a_line
        if in_a_line and limit is not None:
            self._left = limit + 1
        self.over = False

    def add(self, data: bytes) -> Iterator[Lines | TooLong]:
        if self._dropping:
            end = data.find(b"\n") + 1
            if end == 0:
                self._spend(len(data))
                self.over = self._left is not None and self._left <= 0
                return
            self._spend(end)
            data = data[end:]
            self._dropping = False
        if self._left is not None and self._left <= 0 and not self._carried:
            self.over = True
            return
        text = self._carried + data if self._carried else data
        end = self._end(text)
        if end > 0:
            yield Lines(text, end)
        self._carried = text[end:] if not self.over else b""
        self._spend(end)
        if len(self._carried) > LONGEST:
            yield TooLong(len(self._carried))
            self._spend(len(self._carried))
            self._carried = b""
            self._dropping = True

    def _end(self, text: bytes) -> int:
        """Where the whole lines end that are this reader's."""
        if self._left is None or self._left > len(text):
            return text.rfind(b"\n") + 1
        # The last line that is ours begins before `left`.
        end = text.find(b"\n", max(self._left - 1, 0)) + 1
        if end > 0:
            self.over = True
            return end
        return text.rfind(b"\n") + 1

    def _spend(self, count: int) -> None:
        if self._left is not None:
            self._left -= count

    def rest(self) -> Iterator[Lines]:
        if self._carried:
            yield Lines(self._carried, len(self._carried))
