"""What is shown of servers and tables, column by column."""

from __future__ import annotations

import math

from flota.launch.columns import Column, number
from flota.observe.sight import Server
from flota.observe.whole import WholeTable

_UNITS = ("", "k", "M", "G", "T", "P")


def short(value: float | None) -> str:
    """A count in at most five characters: 12.3k, 4.56M."""
    return "-" if value is None or not math.isfinite(value) else _scaled(value, 1000)


def size(value: float | None) -> str:
    """Bytes in at most five characters: powers of 1,024."""
    return "-" if value is None or not math.isfinite(value) else _scaled(value, 1024)


def _scaled(value: float, step: int) -> str:
    power = 0
    # What would be written as 1000 is written as 1.00 of the next unit.
    while value >= 999.5 and power < len(_UNITS) - 1:
        value /= step
        power += 1
    digits = 0 if value >= 99.95 or (power == 0 and value == int(value)) else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}{_UNITS[power]}"


def seconds(value: float | None) -> str:
    """A time in at most six characters: 12.3us, 4.56ms."""
    if value is None:
        return "-"
    for unit, scale in (("us", 1e-6), ("ms", 1e-3)):
        if value < 0.9995 * scale * 1000:
            return f"{value / scale:.3g}{unit}"
    return f"{value:.3g}s"


def _times(value: float | None) -> str:
    return "-" if value is None else f"x{value:.2f}" if value < 9.995 else f"x{value:.0f}"


_PULLS, _PUSHES = ("pull", "dense pull"), ("push", "dense push")


def _sum(server: Server, kinds: tuple[str, ...] | None, what: str) -> float | None:
    found = [getattr(requests, what) for kind, requests in server.requests.items() if kinds is None or kind in kinds]
    told = [value for value in found if value is not None]
    return sum(told) if told else None


def _worst(server: Server, kinds: tuple[str, ...], what: str) -> float | None:
    found = [getattr(server.requests[kind], what) for kind in kinds if kind in server.requests]
    return max((value for value in found if value is not None), default=None)


SERVERS = (
    Column("rows", lambda server: server.rows, short, 5),
    Column("memory", lambda server: server.memory_bytes, size, 6),
    Column("cpu", lambda server: server.cpu_share, lambda value: number(value, ".0%"), 4, 5),
    Column("pull/s", lambda server: _sum(server, _PULLS, "per_second"), short, 6),
    Column("push/s", lambda server: _sum(server, _PUSHES, "per_second"), short, 6),
    Column("p50", lambda server: _worst(server, ("pull",), "p50"), seconds, 6, 8),
    Column("p99", lambda server: _worst(server, ("pull",), "p99"), seconds, 6, 9),
    Column("push p99", lambda server: _worst(server, ("push",), "p99"), seconds, 8, 3),
    Column("in/s", lambda server: _sum(server, None, "bytes_in_per_second"), size, 5, 7),
    Column("out/s", lambda server: _sum(server, None, "bytes_out_per_second"), size, 5, 6),
    Column("clients", lambda server: server.connections, short, 7, 2),
)

TABLES = (
    Column("rows", lambda table: table.rows, short, 5),
    Column("memory", lambda table: table.bytes, size, 6),
    Column("pulled/s", lambda table: table.rows_pulled_per_second, short, 8, 9),
    Column("pushed/s", lambda table: table.rows_pushed_per_second, short, 8, 8),
    Column("stale", lambda table: table.staleness, lambda value: number(value, ".1f"), 5, 5),
    Column("servers", lambda table: table.server_skew, _times, 7, 7),
    Column("shards", lambda table: table.shard_skew, _times, 6, 6),
    Column("waiting", lambda table: table.waiting or None, short, 7, 3),
)


def hot_keys(table: WholeTable, most: int) -> str:
    """The keys that most batches ask for, with their share of all that is asked for."""
    return "  ".join(f"{key} {_share(share)}" for key, share in table.hot_keys[:most])


def _share(value: float) -> str:
    return f"{value:.1%}" if value >= 0.001 else f"{value * 100:.1g}%"


_BLOCKS = "▁▂▃▄▅▆▇█"
_PLAIN_BLOCKS = "_.:-=+*#"


def heat(table: WholeTable, width: int, *, plain: bool) -> str:
    """How much each of ``width`` stretches of the table's shards is asked for; the highest is the busiest."""
    if not table.sampled:
        return ""
    blocks = _PLAIN_BLOCKS if plain else _BLOCKS
    count = len(table.shards)
    width = min(width, count)
    sums = [sum(table.shards[count * i // width : count * (i + 1) // width]) for i in range(width)]
    most = max(sums)
    return "".join(blocks[min(len(blocks) - 1, value * len(blocks) // (most + 1))] for value in sums) if most else ""
