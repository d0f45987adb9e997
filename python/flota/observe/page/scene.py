"""How a job does now, as the page reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from flota.launch.rows import Row
from flota.observe.page import marks
from flota.observe.page.history import number, short
from flota.observe.sight import Server, Sight
from flota.observe.whole import WholeTable, workers
from flota.timeline import PARTS

MOST_HEATS = 8  # tables
MOST_PROCESSES = 512
_ON_HOST = re.compile(r"^((?:worker|server) \d+) \((.+)\)$")  # as a launch on several hosts names them


def processes(sight: Sight, told: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Servers, then workers. ``path``: of the log, where it is on this host; it is not for the page."""
    plain = [_with_host(row) for row in told]
    by_name = {row["name"]: row for row in plain}
    notes = {f"worker {worker.index}": worker.note for worker in sight.workers}
    found = [_server(server, by_name.get(f"server {server.index}")) for server in sight.servers]
    found += [_worker(row, by_name.get(row.name), notes.get(row.name, {})) for row in workers(sight, plain)]
    return found[:MOST_PROCESSES]


def _with_host(row: Mapping[str, Any]) -> dict[str, Any]:
    match = _ON_HOST.match(str(row["name"]))
    return {**row, "name": match[1], "host": match[2]} if match else dict(row)


def _server(server: Server, told: dict[str, Any] | None) -> dict[str, Any]:
    mark, state = marks.of_server(server, told)
    kinds = server.requests
    return {
        **_common(f"server {server.index}", "server", server.index, mark, state, told),
        "where": server.endpoint,
        "rows": server.rows,
        "memory": server.memory_bytes,
        "cpu": short(server.cpu_share),
        "uptime": round(server.uptime),
        "clients": server.connections,
        "pulls": short(_sum(kinds[kind].per_second for kind in ("pull", "dense pull") if kind in kinds)),
        "pushes": short(_sum(kinds[kind].per_second for kind in ("push", "dense push") if kind in kinds)),
        "p99": short(kinds["pull"].p99 if "pull" in kinds else None),
    }


def _worker(row: Row, told: dict[str, Any] | None, note: dict[str, Any]) -> dict[str, Any]:
    index = int(row.name.split()[1])
    shares = note.get("shares") if row.running else None
    return {
        **_common(row.name, "worker", index, marks.of_row(row), row.state, told),
        "where": str((told or {}).get("host") or note.get("host") or ""),
        "pid": (told or {}).get("pid") or note.get("pid"),
        "step": number(row.step),
        "sps": short(number(row.samples_per_second)),
        "loss": short(number(row.loss)),
        "auc": short(number(row.auc)),
        "waits": short(number(row.waits)) if row.running else None,
        "in_flight": number(row.in_flight),
        "done": short(number(row.done)),
        "left": number(row.left_seconds),
        "memory": number(note.get("memory_bytes")),
        "shares": {part: short(number(shares.get(part))) for part in PARTS} if isinstance(shares, dict) else None,
    }


def _common(
    name: str, role: str, index: int, mark: marks.Mark, state: str, told: dict[str, Any] | None
) -> dict[str, Any]:
    told = told or {}
    return {
        "name": name, "role": role, "index": index, "mark": mark.value, "state": state[:300],
        "restarts": int(told.get("restarts") or 0), "pid": told.get("pid"), "log": bool(told.get("log")),
        "path": str(told.get("log") or ""),
    }  # fmt: skip


def ended(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same once the job is over: nothing runs any more, whatever was seen last."""
    gone = (marks.Mark.OK, marks.Mark.WARN, marks.Mark.AWAY)
    over = {"mark": marks.Mark.DONE.value, "state": marks.WITH_THE_JOB}
    still = {"sps": None, "shares": None, "pulls": None, "pushes": None, "cpu": None, "left": None}
    found = [{**one, **{name: value for name, value in still.items() if name in one}} for one in found]
    return [{**one, **over} if one["mark"] in gone else one for one in found]


def tables(found: Sequence[WholeTable]) -> list[dict[str, Any]]:
    return [
        {
            "name": table.name, "sparse": table.sparse, "rows": table.rows, "bytes": table.bytes,
            "waiting": table.waiting, "pulled": short(table.rows_pulled_per_second),
            "pushed": short(table.rows_pushed_per_second), "staleness": short(table.staleness),
            "staleness_max": table.staleness_max, "server_skew": short(table.server_skew),
            "shard_skew": short(table.shard_skew), "by_server": table.by_server,
        }
        for table in found
    ]  # fmt: skip


def heat(found: Sequence[WholeTable]) -> list[dict[str, Any]]:
    """What is asked for of the tables of which there is a sample; keys as text: they have 64 bits."""
    busiest = sorted((table for table in found if table.sampled), key=lambda table: -table.sampled)[:MOST_HEATS]
    return [
        {
            "name": table.name, "sampled": table.sampled, "shards": table.shards, "skew": short(table.shard_skew),
            "server_skew": short(table.server_skew),
            "hot": [[str(key), short(share)] for key, share in table.hot_keys],
        }
        for table in sorted(busiest, key=lambda table: table.name)
    ]  # fmt: skip


def _sum(values: Any) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) if found else None
