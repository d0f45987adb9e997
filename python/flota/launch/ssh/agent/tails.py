"""What the launch has not got yet: logs of a node, as they grow, and lines that it is told."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

# The names that the cluster document gives, and which of our logs they stand for: those of the node's first server and
# first worker.
ALIASES = {
    "server.log": "server", "paddle_pserver2.INFO": "server", "train.log": "worker", "paddle_trainer.INFO": "worker",
}  # fmt: skip
_PATTERNS = ("serverlog.*", "workerlog.*", "launch.log", "launch-of-*.log", "agent.log")


def make_links(folder: Path, servers: list[int], workers: list[int]) -> None:
    """Makes the documented names; what is there under one of them and is no link stays."""
    first = {"server": servers[:1], "worker": workers[:1]}
    for alias, role in ALIASES.items():
        link = folder / alias
        if link.is_symlink():
            link.unlink(missing_ok=True)
        for index in first[role]:
            with contextlib.suppress(FileExistsError):
                link.symlink_to(f"{role}log.{index}")


def remove_logs(folder: Path) -> None:
    """Takes away the logs of a job before this one."""
    for pattern in _PATTERNS:
        for file in folder.glob(pattern):
            file.unlink(missing_ok=True)


class Tails:
    """The logs in a folder. Which there are shows as they come."""

    def __init__(self, folder: Path) -> None:
        """What is there already is not sent."""
        self._folder = folder
        self._begins = dict(self._sizes())
        self._sent: dict[str, int] = {}

    def resume(self, seen: Mapping[str, int]) -> None:
        """The launch has so much of each log, counted from where this job began."""
        self._sent = dict(seen)

    def pieces(self, most: int) -> Iterator[tuple[str, int, bytes]]:
        """What is new, in pieces of at most ``most`` bytes: the log's name, where the piece begins, and its bytes."""
        for name, size in self._sizes():
            begin = self._begins.get(name, 0)
            at = self._sent.get(name, 0)
            if begin + at >= size:
                continue
            with contextlib.suppress(OSError), (self._folder / name).open("rb") as log:
                log.seek(begin + at)
                data = log.read(most)
                self._sent[name] = at + len(data)
                yield name, at, data

    def _sizes(self) -> Iterator[tuple[str, int]]:
        with contextlib.suppress(OSError), os.scandir(self._folder) as items:
            for item in items:
                known = item.name.startswith(("serverlog.", "workerlog.", "launch.log", "launch-of-", "agent."))
                if known and item.is_file(follow_symlinks=False):
                    yield item.name, item.stat().st_size


class Told:
    """Lines for the launch, numbered from 0. The newest ``most`` are kept for one that comes back."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._first = 0  # the number of the oldest that is kept
        self._lines: list[dict[str, Any]] = []

    @property
    def end(self) -> int:
        """The number of the next line."""
        return self._first + len(self._lines)

    def add(self, lines: Iterable[dict[str, Any]]) -> None:
        self._lines += lines
        if (more := len(self._lines) - self._most) > 0:
            del self._lines[:more]
            self._first += more

    def since(self, number: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Those from this number on, as far as they are kept."""
        for n in range(max(number, self._first), self.end):
            yield n, self._lines[n - self._first]
