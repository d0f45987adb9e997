"""A sight of a job as text for a terminal, of whatever width and with or without colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flota.launch.columns import chosen, heading
from flota.launch.picture import add_columns, coloured, gap_of, grid, heading_line, processes, room_of
from flota.launch.rows import Row
from flota.launch.saying import age
from flota.observe.sight import Server, Sight
from flota.observe.top.columns import SERVERS, TABLES, heat, hot_keys
from flota.observe.whole import WholeTable, tables, with_dense_as_one, workers

_LEAST = 3  # rows of each part, however low the terminal
_AROUND = 14  # lines that are no rows of processes or servers
_LINES_OF_TABLE = 3  # in the table, its heat, its hot keys


@dataclass(frozen=True)
class Frame:
    """What there is to paint on."""

    width: int
    height: int | None  # None: there is no end to it
    plain: bool  # there is no more than ASCII
    hot: int  # keys that are shown of each table

    def rows(self, tables: int) -> int:
        """How many processes and servers each have room, beside so many tables."""
        if self.height is None:
            return 1 << 30
        return max(_LEAST, (self.height - _AROUND - _LINES_OF_TABLE * min(tables, self.heats)) // 2)

    @property
    def heats(self) -> int:
        """Of how many tables the heat has room."""
        return 1 << 30 if self.height is None else max(1, (self.height - _AROUND) // 6)


def of_job(title: str, sight: Sight, told: Sequence[Mapping[str, Any]], frame: Frame) -> RenderableType:
    """``told``: processes as the launch sees them, if there is one."""
    rows = workers(sight, told)
    found = tables(sight)
    room = frame.rows(len(found))
    elapsed = max((server.uptime for server in sight.servers if server.alive), default=0.0)
    parts: list[RenderableType] = [
        heading_line(heading(title, elapsed, rows), frame.width),
        _servers(sight.servers, told, frame.width, room),
    ]
    if rows:
        parts += [Text(), processes(rows, width=frame.width, room=room), *_leases(rows)]
    else:
        parts.append(Text("no worker has told how it does yet", style="dim"))
    if found:
        parts += [Text(), _tables(with_dense_as_one(found), frame.width)]
        for table in [table for table in found if table.sampled][: frame.heats]:
            parts += _heat(table, frame)
    return Group(*parts)


def _servers(servers: Sequence[Server], told: Sequence[Mapping[str, Any]], width: int, room: int) -> Table:
    states = {row["name"]: str(row["state"]) for row in told}
    table = grid(width)
    table.add_column("server", no_wrap=True)
    gap = gap_of(width)
    names = max(len(_name(server)) for server in servers)
    columns = chosen(SERVERS, servers, room_of(width) - names - len("up 00:00"), gap)
    add_columns(table, columns)
    table.add_column("state", overflow="fold", min_width=8)
    # Those that are away are what one looks for.
    for server in sorted(servers, key=lambda server: server.alive)[:room]:
        cells = [column.cell(server) for column in columns]
        table.add_row(_name(server), *cells, coloured(_state(server, states.get(_name(server), ""))))
    if len(servers) > room:
        table.add_row("…", *[""] * len(columns), f"and {len(servers) - room} more")
    return table


def _name(server: Server) -> str:
    return f"server {server.index}"


def _state(server: Server, told: str) -> str:
    if server.alive:
        return f"up {age(server.uptime)}" + (f", {told}" if told not in ("", "running") else "")
    if told not in ("", "running"):
        return told
    return f"away: {server.error}" if server.error else "not asked yet"


def _leases(rows: Sequence[Row]) -> list[RenderableType]:
    """Which pieces of the data each worker has."""
    # Without the pass: its name is a number that says nothing to people, and all are in the same.
    held = [f"{row.name}: {row.lease.rpartition(': ')[2]}" for row in rows if row.lease]
    return [Text(f"leases {' · '.join(held)}", no_wrap=True, overflow="ellipsis")] if held else []


def _tables(found: Sequence[WholeTable], width: int) -> Table:
    table = grid(width)
    longest = max(8, width // 4)
    table.add_column("table", no_wrap=True, overflow="ellipsis", max_width=longest)
    gap = gap_of(width)
    names = min(longest, max(len(one.name) for one in found))
    columns = chosen(TABLES, found, width - names - gap, gap)
    add_columns(table, columns)
    for one in found:
        table.add_row(one.name, *(column.cell(one) for column in columns))
    return table


def _heat(table: WholeTable, frame: Frame) -> list[RenderableType]:
    name = f"{table.name}: "
    shown = heat(table, max(16, min(64, frame.width - len("shards ") - len(name))), plain=frame.plain)
    lines = [Text(f"{name}shards {shown}", no_wrap=True, overflow="ellipsis")]
    if frame.hot and table.hot_keys:
        lines.append(Text(f"{name}hot keys {hot_keys(table, frame.hot)}", no_wrap=True, overflow="ellipsis"))
    return list(lines)
