"""What is kept of a job: snapshots of its servers, on this host, and what its workers have saved."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flota.observe.sight import Server, Sight

_MOST_SERVERS = 64
_MOST_SAVES = 20
_SNAPSHOT = re.compile(r"snapshot-(\d+)(\.tmp)?")


class Saves:
    """``durable``: the folder of what servers keep, where it is on this host."""

    def __init__(self, durable: Path | None) -> None:
        self._durable = durable
        self._told: dict[str, dict[str, Any]] = {}  # by place, the newest last

    def plain(self, sight: Sight) -> list[dict[str, Any]]:
        """The newest first: of each server its newest snapshot, and the places that workers have saved to."""
        for worker in sight.workers:
            saved = worker.note.get("saved")
            if isinstance(saved, dict) and isinstance(saved.get("time"), (int, float)):
                self._take(saved)
        found = [*self._told.values(), *self._snapshots(sight.servers)]
        return sorted(found, key=lambda one: -(one["time"] or 0))

    def _take(self, saved: dict[str, Any]) -> None:
        place = str(saved.get("place"))
        self._told.pop(place, None)
        self._told[place] = {
            "kind": "checkpoint", "name": place, "time": float(saved["time"]), "step": saved.get("step"),
            "bytes": None, "note": str(saved.get("mode", ""))[:40],
        }  # fmt: skip
        while len(self._told) > _MOST_SAVES:
            del self._told[next(iter(self._told))]

    def _snapshots(self, servers: list[Server]) -> Iterator[dict[str, Any]]:
        for server in servers[:_MOST_SERVERS]:
            if self._durable is None:
                count = server.values.get("snapshots")
                if count:
                    yield _snapshot(server.index, None, None, f"{count} written, on the server's host")
                continue
            with contextlib.suppress(OSError):
                yield self._newest(server.index, self._durable / f"server-{server.index}")

    @staticmethod
    def _newest(index: int, folder: Path) -> dict[str, Any]:
        newest, log, writing = None, 0, False
        for file in folder.iterdir():
            if file.name.startswith("log-"):
                with contextlib.suppress(OSError):  # it went meanwhile, for a snapshot has all of it
                    log += file.stat().st_size
            elif match := _SNAPSHOT.fullmatch(file.name):
                if match[2]:
                    writing = True
                elif newest is None or int(match[1]) > newest[0]:
                    newest = (int(match[1]), file)
        note = f"redo log {_size(log)}" + (", another is being written" if writing else "")
        if newest is None:
            return _snapshot(index, None, None, f"none yet; {note}")
        state = newest[1].stat()
        return _snapshot(index, state.st_mtime, state.st_size, f"snapshot {newest[0]}; {note}")


def _snapshot(index: int, time: float | None, size: int | None, note: str) -> dict[str, Any]:
    return {"kind": "snapshot", "name": f"server {index}", "time": time, "step": None, "bytes": size, "note": note}


def _size(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} TiB"
