"""What is shown of a process, as words: in a line, in the columns of a table, and of all workers together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flota.launch.rows import Row
from flota.launch.saying import clock

PART = " · "  # between the parts of a heading


def number(value: float | None, form: str) -> str:
    if value is None:
        return "-"
    return format(value, form) if math.isfinite(value) else str(value)


def _steps(value: float | None) -> str:
    return number(None if value is None else round(value), ",d")


def _clock(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else clock(value)


@dataclass(frozen=True)
class Column:
    name: str
    value: Callable[[Any], float | None]
    text: Callable[[float | None], str]
    width: int  # at least: a column that grows and shrinks is hard to read
    # The order in which columns go where there is no room for all; those with 0 stay, and are there though no worker
    # has told it yet.
    goes: int = 0
    line: str = ""  # how it is said in a line

    def cell(self, row: Any) -> str:
        return self.text(self.value(row))


COLUMNS = (
    Column("step", lambda row: row.step, _steps, 7),
    Column("samples/s", lambda row: row.samples_per_second, lambda value: number(value, ",.0f"), 9),
    Column("loss", lambda row: row.loss, lambda value: number(value, ".4f"), 6),
    Column("AUC", lambda row: row.auc, lambda value: number(value, ".4f"), 6, 5, "AUC {}"),
    Column("waits", lambda row: row.waits, lambda value: number(value, ".0%"), 5, 3, "waits {}"),
    Column("ahead", lambda row: row.in_flight, _steps, 5, 1, "{} steps ahead"),
    Column("stale", lambda row: row.staleness, lambda value: number(value, ".1f"), 5, 2, "staleness {}"),
    Column("left", lambda row: row.left_seconds, _clock, 5, 4, "{} left"),
)


def chosen(columns: Sequence[Column], rows: Sequence[Any], room: int, gap: int) -> list[Column]:
    """Those of them that have something to say and fit in ``room``, each with ``gap`` beside it."""
    found = [c for c in columns if not c.goes or any(c.value(row) is not None for row in rows)]
    while sum(_width(column, rows) + gap for column in found) > room:
        least = min((column for column in found if column.goes), key=lambda column: column.goes, default=None)
        if least is None:
            break
        found.remove(least)
    return found


def _width(column: Column, rows: Sequence[Any]) -> int:
    return max(len(column.name), column.width, *(len(column.cell(row)) for row in rows), 0)


def in_words(row: Row) -> str:
    """A worker's standing, for where there is no table."""
    speed, loss = number(row.samples_per_second, ",.0f"), number(row.loss, ".4f")
    more = [c.line.format(c.cell(row)) for c in COLUMNS if c.line and c.value(row) is not None]
    return ", ".join([f"{row.name}: step {row.step}", f"{speed} samples/s", f"loss {loss}", *more, row.state])


def heading(title: str, elapsed: float, rows: Sequence[Row]) -> str:
    """The job in one line: all that train together, the mean of what they tell, and how long the last has to go."""
    workers = [row for row in rows if row.is_worker and row.step is not None]
    training = [row for row in workers if row.running]
    parts = [title, clock(elapsed)]
    speeds = [row.samples_per_second for row in training if row.samples_per_second is not None]
    if speeds:
        parts.append(f"{sum(speeds):,.0f} samples/s")
    for name, values in (("loss", [row.loss for row in workers]), ("AUC", [row.auc for row in workers])):
        told = [value for value in values if value is not None]
        if told:
            parts.append(f"{name} {number(sum(told) / len(told), '.4f')}")
    left = [row.left_seconds for row in training if row.left_seconds is not None]
    done = [row.done for row in training if row.done is not None]
    if left and done:
        parts.append(f"{min(done):.0%} of the pass done, {clock(max(left))} left")
    return PART.join(parts)
