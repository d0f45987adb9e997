"""How stale gradients were when servers applied them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flota.client import ServerStatistics


@dataclass(frozen=True)
class TableStaleness:
    """Of ``count`` pushes to a table: how many other pushes to it a server had applied between the pull that a gradient
    was computed from and the gradient itself; on average, and at most."""

    mean: float = 0.0
    max: int = 0
    count: int = 0


@dataclass(frozen=True)
class Staleness(TableStaleness):
    """The same of all tables together, and by table. Only async training has any to tell of."""

    tables: Mapping[str, TableStaleness] = field(default_factory=dict)


def staleness_of(servers: Iterable[ServerStatistics]) -> Staleness:
    """All servers' counts put together."""
    sums: dict[str, tuple[int, int, int]] = {}
    for server in servers:
        for table, values in server.tables.items():
            total, most, count = sums.get(table, (0, 0, 0))
            sums[table] = (
                total + values["staleness_sum"],
                max(most, values["staleness_max"]),
                count + values["staleness_count"],
            )
    tables = {
        table: TableStaleness(total / count, most, count) for table, (total, most, count) in sums.items() if count > 0
    }
    count = sum(table.count for table in tables.values())
    if count == 0:
        return Staleness()
    total = sum(total for total, _, _ in sums.values())
    return Staleness(total / count, max(table.max for table in tables.values()), count, tables)
