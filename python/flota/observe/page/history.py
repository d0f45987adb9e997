"""How a job did: curves in a bounded number of points, however long it runs."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flota.observe.sight import Sight
from flota.observe.whole import WholeTable

MOST_POINTS = 1440  # of the whole job
MOST_RECENT = 600  # as they were seen
MOST_WORKERS = 32  # that have curves of their own
MOST_TABLES = 24
MOST_METRICS = 8

# Of a worker, in a point: loss, AUC, samples a second. Of a table: rows, bytes.
Numbers = list[float | None]


@dataclass
class Point:
    """What was seen at one time, or the mean of what was seen over a while."""

    time: float
    loss: float | None
    samples_per_second: float | None
    metrics: dict[str, float | None]
    workers: dict[str, Numbers] = field(default_factory=dict)
    tables: dict[str, Numbers] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """As the page reads it: short, for there are many."""
        return {
            "t": round(self.time, 2),
            "loss": short(self.loss),
            "sps": short(self.samples_per_second),
            "m": {name: short(value) for name, value in self.metrics.items()},
            "w": {name: [short(value) for value in values] for name, values in self.workers.items()},
            "tb": {name: [short(value) for value in values] for name, values in self.tables.items()},
        }


def short(value: float | None) -> float | None:
    """Six digits are more than a curve shows."""
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None


def point_of(sight: Sight, tables: Sequence[WholeTable]) -> Point:
    heard = [worker for worker in sight.workers if not worker.silent]
    names = dict.fromkeys(
        name for worker in heard for name in (worker.note.get("metrics") or {}) if isinstance(name, str)
    )
    point = Point(
        sight.time,
        sight.metric("loss"),
        sight.samples_per_second,
        {name: sight.metric(name) for name in list(names)[:MOST_METRICS]},
    )
    for worker in heard[:MOST_WORKERS]:
        note = worker.note
        if note.get("phase") == "finished":
            continue
        values = [note.get("loss"), (note.get("metrics") or {}).get("auc"), note.get("samples_per_second")]
        point.workers[str(worker.index)] = [number(value) for value in values]
    for table in tables[:MOST_TABLES]:
        point.tables[table.name] = [float(table.rows), float(table.bytes)]
    return point


class History:
    """All of it in at most ``MOST_POINTS``, each the mean of ever more looks, and the last looks as they were. Thread
    safety: the caller's."""

    def __init__(self) -> None:
        self.recent: deque[Point] = deque(maxlen=MOST_RECENT)
        self.whole: list[Point] = []
        self.looks = 1  # that a point of the whole is the mean of
        self._gathered: list[Point] = []

    def add(self, point: Point) -> None:
        self.recent.append(point)
        self._gathered.append(point)
        if len(self._gathered) < self.looks:
            return
        self.whole.append(_mean(self._gathered))
        self._gathered = []
        if len(self.whole) >= MOST_POINTS:
            pairs = zip(self.whole[::2], self.whole[1::2], strict=True)
            self.whole = [_mean(pair) for pair in pairs]
            self.looks *= 2

    def plain(self) -> dict[str, Any]:
        waiting = [_mean(self._gathered)] if self._gathered else []
        return {
            "whole": [point.plain() for point in [*self.whole, *waiting]],
            "recent": [point.plain() for point in self.recent],
        }


def _mean(points: Sequence[Point]) -> Point:
    if len(points) == 1:
        return points[0]
    last = points[-1]
    return Point(
        last.time,
        _middle([point.loss for point in points]),
        _middle([point.samples_per_second for point in points]),
        {name: _middle([point.metrics.get(name) for point in points]) for name in _names(points, "metrics")},
        {name: _middles([point.workers.get(name) for point in points]) for name in _names(points, "workers")},
        last.tables or points[0].tables,  # sizes: what they came to
    )


def _names(points: Sequence[Point], what: str) -> list[str]:
    found: Mapping[str, None] = dict.fromkeys(name for point in points for name in getattr(point, what))
    return list(found)


def _middle(values: Sequence[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None


def _middles(rows: Sequence[Numbers | None]) -> Numbers:
    return [_middle(column) for column in zip(*(row for row in rows if row is not None), strict=True)]


def number(value: object) -> float | None:
    """What a note says where it says a number."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return float(value)
