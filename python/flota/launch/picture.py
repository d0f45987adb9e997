"""A job's processes as a table for a terminal, of whatever width and with or without colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flota.launch.columns import COLUMNS, PART, Column, chosen
from flota.launch.rows import Row

_NARROW = 100  # columns, below which a table has no lines between its own
_STATE = 12  # columns that a state has at least

# By how a state begins; others are said without colour. What colour says, the words say too.
_COLOURS = {
    "running": "green",
    "finish": "green",
    "stopp": "dim",
    "has left": "dim",
    "leaving": "dim",
    "was killed": "red",
    "ended with": "red",
    "could not": "red",
    "lost": "red",
    "away": "red",
    "loss is NaN": "red",
    "no step": "yellow",
    "no word": "yellow",
    "silent": "yellow",
}


def launch(title: str, rows: Sequence[Row], lines: Iterable[str], *, width: int, room: int) -> RenderableType:
    """What a launch shows: at most ``room`` of its processes, and the end of a log."""
    table = processes(rows, width=width, room=room)
    tail = [Text.from_ansi(line, no_wrap=True, overflow="ellipsis", style="dim") for line in lines]
    return Group(heading_line(title, width), table, *tail)


def heading_line(text: str, width: int) -> Text:
    """In as many lines as it takes, none of which ends within one of its parts."""
    lines: list[str] = []
    for part in text.split(PART):
        if lines and len(lines[-1]) + len(PART) + len(part) <= width:
            lines[-1] += PART + part
        else:
            lines.append(part)
    return Text("\n".join(lines), style="bold")


def processes(rows: Sequence[Row], *, width: int, room: int) -> Table:
    """At most ``room`` of them."""
    table = grid(width)
    table.add_column("process", no_wrap=True)
    names = max((len(row.name) for row in rows), default=0)
    gap = gap_of(width)
    columns = chosen(COLUMNS, [row for row in rows if row.is_worker], room_of(width) - names - _STATE, gap)
    add_columns(table, columns)
    table.add_column("state", overflow="fold", min_width=min(_STATE, max(4, width - names)))
    for row in rows[:room]:
        cells = [column.cell(row) if row.is_worker else "" for column in columns]
        table.add_row(row.name, *cells, coloured(row.state))
    if len(rows) > room:
        table.add_row("…", *[""] * len(columns), f"and {len(rows) - room} more")
    return table


def grid(width: int) -> Table:
    return Table(
        box=box.SIMPLE_HEAD if width < _NARROW else box.HEAVY_HEAD,
        show_edge=width >= _NARROW,
        pad_edge=width >= _NARROW,
        collapse_padding=width < _NARROW,
    )


def gap_of(width: int) -> int:
    """Columns of the terminal that each column of a table takes beside its text."""
    return 2 if width < _NARROW else 3


def room_of(width: int) -> int:
    """Columns of the terminal that there are for a table's text, and its columns' gaps, beside its first and last."""
    return width - 2 if width < _NARROW else width - 2 * gap_of(width) - 1


def add_columns(table: Table, columns: Iterable[Column]) -> None:
    for column in columns:
        table.add_column(column.name, justify="right", min_width=column.width, no_wrap=True)


def coloured(state: Any) -> Text:
    text = str(state)
    return Text(text, style=next((colour for begin, colour in _COLOURS.items() if text.startswith(begin)), ""))
