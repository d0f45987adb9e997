"""How stale gradients were when servers applied them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch

from flota.client import ServerStatistics
from flota.communicator.remote import RemoteTables
from flota.standing import worker as standing

_EVERY = 16  # steps


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


class OwnStaleness:
    """How stale this worker's own gradients are, by a sample of its steps: as far as the servers' dense parameters have
    moved in a step, beside by its own push. For a mode whose steps push once and then take what servers have."""

    def __init__(self, tables: RemoteTables) -> None:
        self._tables = tables
        self._step = 0

    def before(self) -> torch.Tensor | None:
        """Before a step's gradients are sent; None: it is none of the sample."""
        self._step += 1
        return self._tables.seen.numbers.clone() if self._step % _EVERY == 0 else None

    def after(self, before: torch.Tensor | None) -> None:
        if before is None:
            return
        moved = (self._tables.seen.numbers - before)[before > 0]
        pushed = moved[moved != 0]  # parameters that nobody trains stay where they are
        # A server that was started again may count anew.
        if pushed.numel() and int(pushed.min()) > 0:
            standing.measured_staleness(float(pushed.double().mean()) - 1)


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
