"""A job as one: its tables over all servers, and its workers as a launch shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flota.launch.rows import Row
from flota.launch.saying import clock
from flota.observe.sight import Server, Sight, Table, Worker

_MOST_HOT = 16  # keys of a table
_SAMPLED = 2048  # keys of a sample, below which it says nothing of shards

# What a worker waits for others in.
_WAITING = ("read", "pull", "push", "wait")


@dataclass
class WholeTable:
    """A table over all servers that were seen."""

    name: str
    sparse: bool
    rows: int = 0  # of a dense one: elements
    bytes: int = 0
    rows_pulled: int = 0
    rows_pushed: int = 0
    waiting: int = 0
    rows_pulled_per_second: float | None = None
    rows_pushed_per_second: float | None = None
    staleness: float | None = None  # the mean over pushes
    staleness_max: int = 0
    sampled: int = 0
    shards: list[int] = field(default_factory=list)  # by virtual shard, how many keys of the sample
    hot_keys: list[tuple[int, float]] = field(default_factory=list)  # the hottest first, with their share
    by_server: list[tuple[int, int]] = field(default_factory=list)  # (server, rows on it)
    # How many times the mean of all servers the busiest one is asked for, and the mean of all shards the busiest shard.
    server_skew: float | None = None
    shard_skew: float | None = None


def tables(sight: Sight) -> list[WholeTable]:
    """By name."""
    parts: dict[str, list[tuple[Server, Table]]] = {}
    for server in sight.servers:
        for table in server.tables:
            parts.setdefault(table.name, []).append((server, table))
    return [_whole(name, found) for name, found in sorted(parts.items())]


def with_dense_as_one(found: Sequence[WholeTable]) -> list[WholeTable]:
    """The sparse tables, and all dense ones together: a model has dozens of those, and they do not grow."""
    dense = [table for table in found if not table.sparse]
    if len(dense) < 2:
        return list(found)
    one = WholeTable(f"{len(dense)} dense", sparse=False)
    for what in ("rows", "bytes", "rows_pulled", "rows_pushed"):
        setattr(one, what, sum(getattr(table, what) for table in dense))
    one.rows_pulled_per_second = _sum(table.rows_pulled_per_second for table in dense)
    one.rows_pushed_per_second = _sum(table.rows_pushed_per_second for table in dense)
    one.staleness_max = max(table.staleness_max for table in dense)
    stale = [table.staleness for table in dense if table.staleness is not None]
    one.staleness = max(stale, default=None)
    return [*(table for table in found if table.sparse), one]


def _whole(name: str, parts: Sequence[tuple[Server, Table]]) -> WholeTable:
    each = [table for _, table in parts]
    whole = WholeTable(name, each[0].sparse)
    for what in ("rows", "bytes", "rows_pulled", "rows_pushed", "waiting", "sampled"):
        setattr(whole, what, sum(getattr(table, what) for table in each))
    whole.rows_pulled_per_second = _sum(table.rows_pulled_per_second for table in each)
    whole.rows_pushed_per_second = _sum(table.rows_pushed_per_second for table in each)
    whole.staleness_max = max(table.staleness_max for table in each)
    told = [(table.staleness, table.pushes) for table in each if table.staleness is not None]
    if told:
        pushes = sum(max(count, 1) for _, count in told)
        whole.staleness = sum(value * max(count, 1) for value, count in told) / pushes
    whole.by_server = [(server.index, table.rows) for server, table in parts]
    loads = [load if load is not None else float(table.rows_pulled) for table in each
             for load in [table.rows_pulled_per_second]]  # fmt: skip
    if len(loads) > 1 and sum(loads) > 0:
        whole.server_skew = max(loads) * len(loads) / sum(loads)
    _take_heat(whole, each)
    return whole


def _take_heat(whole: WholeTable, each: Sequence[Table]) -> None:
    sampled = [table for table in each if table.sampled]
    if not sampled:
        return
    whole.shards = [sum(counts) for counts in zip(*(table.shards for table in sampled), strict=True)]
    keys = [(key, share * table.sampled / whole.sampled) for table in sampled for key, share in table.hot_keys]
    whole.hot_keys = sorted(keys, key=lambda found: (-found[1], found[0]))[:_MOST_HOT]
    if whole.sampled >= _SAMPLED:
        whole.shard_skew = max(whole.shards) * len(whole.shards) / whole.sampled


def _sum(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) if found else None


def workers(sight: Sight, processes: Sequence[Mapping[str, Any]]) -> list[Row]:
    """As a launch shows them; ``processes``: what the launch of this host tells, which knows of those that have ended.
    Workers that it does not know come from the notes that they post."""
    told = {row["name"]: row for row in processes}
    rows = []
    for worker in sight.workers:
        row = told.get(f"worker {worker.index}")
        rows.append(_row(worker, row))
    seen = {f"worker {worker.index}" for worker in sight.workers}
    rows += [_plain(row) for row in processes if row["is_worker"] and row["name"] not in seen]
    return sorted(rows, key=lambda row: _index(row.name))


def _plain(row: Mapping[str, Any]) -> Row:
    return Row(**{name: row[name] for name in Row.__dataclass_fields__ if name in row})


def _index(name: str) -> tuple[int, str]:
    words = name.split()
    return (int(words[1]) if len(words) > 1 and words[1].isdigit() else 1 << 30, name)


def _row(worker: Worker, told: Mapping[str, Any] | None) -> Row:
    note = worker.note
    shares = note.get("shares") or {}
    state = str(note.get("phase", "?"))
    running = state != "finished"
    if worker.silent:
        state = f"silent for {clock(worker.age)}"
    if told is not None:
        running = bool(told["running"])
        if not running or told["state"] != "running" or not worker.silent:
            state = str(told["state"])
    return Row(
        f"worker {worker.index}", state, running, True,
        step=note.get("step"),
        samples_per_second=note.get("samples_per_second") if running and not worker.silent else None,
        loss=note.get("loss"),
        auc=(note.get("metrics") or {}).get("auc"),
        waits=sum(shares.get(part, 0.0) for part in _WAITING) if shares else None,
        in_flight=note.get("in_flight"),
        done=note.get("done"),
        left_seconds=note.get("left_seconds") if running and not worker.silent else None,
        restarts=int(told["restarts"]) if told is not None else 0,
        log=str(told["log"]) if told is not None else "",
        staleness=note.get("staleness"),
        lease=str(note.get("lease") or "") if running else "",
    )  # fmt: skip
