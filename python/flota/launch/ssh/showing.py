"""A job on several hosts, as the views show it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flota.launch.log_tail import LogTail
from flota.launch.rows import Row
from flota.launch.saying import clock
from flota.launch.ssh.node import Node

_FIELDS = tuple(Row.__dataclass_fields__)


class Shown:
    """See ``flota.launch.rows.Shown``. ``log``: the one that is shown as it grows."""

    def __init__(self, title: str, nodes: Sequence[Node], log: Path, begin: int) -> None:
        self.title = title
        self._nodes = nodes
        self._log = log
        self._begin = begin
        self._began = time.monotonic()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    @property
    def shown_log(self) -> LogTail | None:
        return LogTail(self._log, self._begin)

    def rows(self) -> list[Row]:
        """Workers first; of each process the last that its node told. One that goes on elsewhere is shown there."""
        found: dict[str, Row] = {}
        for node in sorted(self._nodes, key=lambda node: not node.over):
            silence = clock(time.monotonic() - node.heard)
            silent = "" if node.connected else f"no word of its host for {silence}"
            for row in (_row(values) for part in node.parts for values in part["rows"]):
                state = "lost with its host" if node.over else silent if silent and row.running else row.state
                running = row.running and not node.over
                found[row.name] = replace(row, name=f"{row.name} ({node.name})", state=state, running=running)
        return sorted(found.values(), key=lambda row: not row.is_worker)

    def summary(self) -> list[str]:
        """What is said of the whole at its end."""
        workers = [row for row in self.rows() if row.is_worker]
        steps = max((row.step for row in workers if row.step is not None), default=None)
        speeds = [row.samples_per_second for row in workers if row.samples_per_second is not None]
        parts = [f"{steps:,} steps"] if steps is not None else []
        parts += [f"{sum(speeds):,.0f} samples/s"] if speeds else []
        return [*parts, f"{self.elapsed:.1f} s" if self.elapsed < 60 else clock(self.elapsed)]


def _row(values: dict[str, Any]) -> Row:
    loss = values.get("loss")  # one that JSON has no number for is a text
    told: dict[str, Any] = {name: values[name] for name in _FIELDS if name in values}
    return Row(**{**told, "log": "", "loss": None if loss is None else float(loss)})
