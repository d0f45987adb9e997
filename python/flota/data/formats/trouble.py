"""What happens when data is not what it should be: training stops, or goes on without it and counts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from flota.errors import DataError, InvalidArgument
from flota.log import say

Policy = Literal["stop", "skip"]

_MOST_TOLD = 10


@dataclass(frozen=True)
class Skipped:
    """What was left out so far."""

    lines: int = 0
    files: int = 0


class Trouble:
    """Keeps to the policy. Thread safety: any thread."""

    def __init__(self, policy: Policy) -> None:
        if policy not in ("stop", "skip"):
            raise InvalidArgument(f"on_error must be 'stop' or 'skip', not {policy!r}")
        self.skips = policy == "skip"
        self._lock = threading.Lock()
        self._lines = 0
        self._files = 0
        self._told = 0
        self._warned: set[str] = set()

    @property
    def skipped(self) -> Skipped:
        return Skipped(self._lines, self._files)

    def bad_lines(self, what: Sequence[str], count: int) -> None:
        """``count`` lines are bad; ``what`` says of the first few where and why."""
        if not self.skips:
            raise DataError(what[0])
        with self._lock:
            self._lines += count
        for each in what:
            self._tell(f"skipped: {each}")

    def bad_file(self, error: DataError) -> None:
        """A file cannot be read, or not to its end."""
        if not self.skips:
            raise error
        with self._lock:
            self._files += 1
        self._tell(f"skipped the rest of it: {error}")

    def warn(self, about: str, what: str) -> None:
        """Nothing is bad, and somebody may want to know: told once for what it is ``about``."""
        with self._lock:
            known = about in self._warned
            self._warned.add(about)
        if not known:
            say("data_warning", what, "warning")

    def _tell(self, what: str) -> None:
        with self._lock:
            self._told += 1
            told = self._told
        if told <= _MOST_TOLD:
            last = " (later ones are counted, not told)" if told == _MOST_TOLD else ""
            say("bad_data", f"{what}{last}", "warning")
