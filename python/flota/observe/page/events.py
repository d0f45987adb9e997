"""What has happened to a job's processes, as far as it was seen, with the ends of their logs from then."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Any

from flota.observe.page.logs import Scan, tail
from flota.observe.page.marks import UNHEARD, WITH_THE_JOB, Mark

MOST_EVENTS = 60
_LINES = 24
_MOST_LOGS = 128  # that are read as they grow
# The line that a launch writes into a log before it starts a process again; see launch.processes.
_AGAIN = re.compile(r"^--- .*, restart \d+(?:: (.*))? ---$")


class Events:
    """The newest last. Thread safety: the caller's."""

    def __init__(self) -> None:
        self.found: deque[dict[str, Any]] = deque(maxlen=MOST_EVENTS)
        self.count = 0
        self._before: dict[str, dict[str, Any]] = {}
        self._scans: dict[str, Scan] = {}

    def take(self, now: float, processes: Sequence[dict[str, Any]]) -> None:
        """``processes``: as ``scene`` tells them, each with ``path``, its log on this host."""
        for process in processes:
            before = self._before.get(process["name"])
            if before is not None:
                self._compare(now, before, process)
            elif process["mark"] in (Mark.DEAD, Mark.AWAY):
                self._add(now, process, "error", process["state"])
            self._before[process["name"]] = dict(process)
            self._scan(now, process)

    def _compare(self, now: float, before: dict[str, Any], process: dict[str, Any]) -> None:
        was, mark = before["mark"], process["mark"]
        again = process["restarts"] > before["restarts"]
        down = (Mark.DEAD, Mark.AGAIN)
        if mark in down and was not in down:
            self._add(now, process, "error", process["state"].partition(", starts again")[0])
        elif again and was not in down:
            self._add(now, process, "error", _ending(process["path"]) or "ended, and was started again at once")
        elif mark in (Mark.AWAY, Mark.WARN) and was != mark:
            self._add(now, process, "warning", process["state"])
        if again and mark not in down:
            self._add(now, process, "good", f"was started again (restart {process['restarts']})")
        elif was in (Mark.AWAY, Mark.WARN) and mark == Mark.OK and not before["state"].startswith(UNHEARD):
            self._add(now, process, "good", "is well again")
        elif mark == Mark.DONE and was != Mark.DONE and process["state"] != WITH_THE_JOB:
            self._add(now, process, "good", process["state"])

    def _scan(self, now: float, process: dict[str, Any]) -> None:
        path = process["path"]
        if not path or (path not in self._scans and len(self._scans) >= _MOST_LOGS):
            return
        errors = self._scans.setdefault(path, Scan(path)).new_errors()
        if errors:
            more = f" (and {len(errors) - 1} lines like it)" if len(errors) > 1 else ""
            self._add(now, process, "log", errors[-1] + more)

    def _add(self, now: float, process: dict[str, Any], kind: str, text: str) -> None:
        self.count += 1
        lines = tail(process["path"], _LINES) if kind in ("error", "log") and process["path"] else []
        self.found.append(
            {"id": self.count, "time": round(now, 2), "name": process["name"], "kind": kind, "text": text,
             "lines": lines}
        )  # fmt: skip


def _ending(path: str) -> str:
    """How the launch said that the process ended, before it was started again."""
    for line in reversed(tail(path) if path else []):
        if (match := _AGAIN.match(line)) and match[1]:
            return match[1]
    return ""
