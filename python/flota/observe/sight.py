"""What is seen of a job at one time, as plain data: ``dataclasses.asdict`` of a ``Sight`` is JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Requests:
    """Requests of one kind to one server: sums since it started, and what they were lately."""

    count: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0
    per_second: float | None = None  # None: it was seen once only
    bytes_in_per_second: float | None = None
    bytes_out_per_second: float | None = None
    p50: float | None = None  # seconds; of those since the last look, else of all
    p99: float | None = None


@dataclass
class Table:
    """A table's part on one server."""

    name: str
    sparse: bool
    rows: int  # of a dense one: elements
    bytes: int
    pulls: int
    pushes: int
    rows_pulled: int
    rows_pushed: int
    waiting: int = 0  # keys that are counted and have no row yet
    staleness: float | None = None  # of the pushes since the last look, else of all; None: there were none
    staleness_max: int = 0
    staleness_count: int = 0
    staleness_sum: int = 0
    rows_pulled_per_second: float | None = None
    rows_pushed_per_second: float | None = None
    sampled: int = 0
    shards: list[int] = field(default_factory=list)  # by virtual shard, how many keys of the sample; none: no sample
    hot_keys: list[tuple[int, float]] = field(default_factory=list)  # with the share of the sample that they are


@dataclass
class Server:
    index: int
    endpoint: str
    error: str = ""  # why it could not be asked; then all else is as it was last seen
    seen: float | None = None  # seconds since the epoch
    uptime: float = 0.0
    memory_bytes: int = 0
    cpu_seconds: float = 0.0
    cpu_share: float | None = None  # of one core
    connections: int = 0
    values: dict[str, int] = field(default_factory=dict)  # all that it counts of itself, by name
    requests: dict[str, Requests] = field(default_factory=dict)  # by kind
    tables: list[Table] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        return self.seen is not None and not self.error

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables if table.sparse)


@dataclass
class Worker:
    index: int
    age: float  # seconds since it was heard
    note: dict[str, Any]  # as ``flota.standing`` makes it

    @property
    def silent(self) -> bool:
        """Whether it has said nothing for longer than it would if all were well."""
        return self.age > 5.0 and self.note.get("phase") != "finished"


@dataclass
class Sight:
    time: float  # seconds since the epoch
    servers: list[Server]
    workers: list[Worker]  # by index

    @property
    def samples_per_second(self) -> float | None:
        """Of all workers that train."""
        rates = [w.note.get("samples_per_second") for w in self.workers if not w.silent]
        found = [rate for rate in rates if isinstance(rate, (int, float))]
        return sum(found) if found else None

    def metric(self, name: str) -> float | None:
        """The mean over workers, weighted by their samples, of a metric or of ``loss``."""
        total = weight = 0.0
        for worker in self.workers:
            value = worker.note.get("loss") if name == "loss" else (worker.note.get("metrics") or {}).get(name)
            if isinstance(value, (int, float)):
                samples = max(float(worker.note.get("samples") or 0), 1.0)
                total += value * samples
                weight += samples
        return total / weight if weight else None
