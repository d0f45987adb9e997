"""Geo mode: each worker trains a copy of its own, and every so many steps tells how far it has moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from flota import _core
from flota.arrays import Array
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import Job, RemoteTables, Trained
from flota.communicator.returning import StepsAlone, Way
from flota.communicator.rows import step_here, train_rows
from flota.communicator.stores import keys_in, local_spec, route
from flota.nn.store import Keys
from flota.nn.table import Gradient, TableOptions
from flota.nn.transfer import host_empty
from flota.pages import export_shards
from flota.rules import Rule
from flota.strategy import Geo
from flota.tables import Future, SparseTable
from flota.timeline import span

_GROUP = "flota/geo"
_REFILL_ROWS = 16384
_NO_KEYS = torch.empty(0, dtype=torch.int64, device="cpu")


class GeoCommunicator(StepsAlone):
    """The wrapped optimizer trains this worker's copies. Servers hold weights and no state.

    An exchange pushes how far the copies have moved, divided by the number of workers; servers add it. Then this worker
    takes over what servers have: of the rows that it sent, of those that others changed and it has a copy of, and of
    all dense parameters. So after an exchange its copies are the servers' values.

    A worker that was started again begins with the servers' values, and makes those steps again that it has not told.
    """

    steps_wrapped: ClassVar[bool] = True

    def __init__(
        self, tables: RemoteTables, mode: Geo, optimizer: DistributedOptimizer, rejoined: _core.Rejoined
    ) -> None:
        self._tables = tables
        self._job = tables.job
        self._k_steps = mode.k_steps
        self._since = 0  # steps since the last exchange
        self._rows: dict[str, GeoStore] = {}
        # Handles of one name, such as those of a copied model, share one replica.
        for trained in tables.sparse:
            name = trained.handle.options.name
            if name not in self._rows:
                self._rows[name] = GeoStore(tables.job, trained, optimizer)
            trained.handle.store = self._rows[name]
        self._stores = list(self._rows.values())
        tables.begin()
        self._received = self._dense_now()
        self._way = Way(tables, optimizer, rejoined)

    def step(self, optimizer: DistributedOptimizer) -> None:
        if self._way.passes():
            return
        step_here(optimizer, self._rows)
        self._since += 1
        if self._since >= self._k_steps:
            self.exchange()
            self._way.note()

    def stepped(self) -> None:
        """Workers of this mode do not leave."""

    def pause(self) -> None:
        """Servers have all that this worker has learnt."""
        self.exchange()
        self._way.meet()

    def resume(self) -> None:
        """The copies are what servers have, now that others have been there also."""
        self._receive()

    def idle(self) -> None:
        self.exchange()
        self._way.note()

    def applied(self, steps: int) -> int:
        return steps - self._since

    def settle(self) -> None:
        self.exchange()
        self._way.note_all()

    def loaded(self, optimizer: DistributedOptimizer) -> None:
        """Servers hold weights only: the optimizer's state begins anew."""
        for store in self._stores:
            store.forget(optimizer)
        for dense in self._tables.dense:
            optimizer.state.pop(dense.parameter, None)
        self._since = 0
        self._way.loaded()
        self._receive()

    def exchange(self) -> None:
        if self._since > 0:
            self._send()
            self._since = 0
        self._receive()

    def _send(self) -> None:
        for store in self._stores:
            store.send()
        moves = [
            (dense, now - before)
            for dense, now, before in zip(self._tables.dense, self._dense_now(), self._received, strict=True)
        ]
        if moves:
            parts = [dense.table.part(move) for dense, move in moves]
            self._job.client.native.push_dense(parts, delta_options(self._job), self._job.client.time(None))

    def _receive(self) -> None:
        with span("pull"):
            for store in self._stores:
                store.receive()
        self._tables.pull_dense()
        self._received = self._dense_now()

    def _dense_now(self) -> list[torch.Tensor]:
        return [dense.parameter.detach().to("cpu", torch.float32, copy=True) for dense in self._tables.dense]


def delta_options(job: Job, group: int = 0) -> _core.PushOptions:
    """Differences are added to what servers have, each worker's by its share."""
    return _core.PushOptions(_core.PushKind.delta, 0.0, 1.0 / job.world, 0, group, job.rank)


class GeoStore:
    """This worker's copy of the rows that it has used."""

    near = False

    def __init__(self, job: Job, trained: Trained, optimizer: DistributedOptimizer) -> None:
        self.options: TableOptions = trained.handle.options
        self._job = job
        self._group = trained.group
        self._served = trained.store
        self._remote: SparseTable = trained.store.table
        self._versions = [0] * job.client.servers
        self._replica: _core.Replica
        self.exchanges = 0
        self.forget(optimizer)

    @property
    def table(self) -> SparseTable:
        """The table on the servers."""
        return self._remote

    def forget(self, optimizer: DistributedOptimizer) -> None:
        """Begins without copies, and without an optimizer's state of them."""

        def make(rule: Rule) -> _core.SparseTable:
            self._replica = _core.Replica(local_spec(self.options, rule))
            return self._replica.table

        self.exchanges += 1
        self._sent = _NO_KEYS
        self._rows = train_rows(self.options, optimizer, self._group, True, make)

    # --- as a store ---

    def route(self, keys: torch.Tensor) -> Keys:
        return route(_core.Batch(), keys)

    def pull(self, keys: Keys, create: bool, device: torch.device) -> torch.Tensor:
        create = create and self._served.creates
        missing = self.missing(keys.distinct())
        rows = host_empty((len(keys.batch), self.options.dim), device)
        if len(missing) == 0:
            self._replica.table.pull_batch(keys.batch, rows.data_ptr(), False)
            return rows
        theirs = torch.as_tensor(self._remote.pull(missing, create=create))
        if create:
            self.fill(missing, theirs)
            self._replica.table.pull_batch(keys.batch, rows.data_ptr(), False)
            return rows
        # Looked at, not used: no copy is kept.
        self._replica.table.pull_batch(keys.batch, rows.data_ptr(), False)
        rows[torch.isin(keys.distinct(), missing)] = theirs
        return rows

    def pull_ahead(self, keys: Keys, create: bool, device: torch.device) -> GeoAhead:
        exchanges = self.exchanges
        missing = self.missing(keys.distinct()) if create and self._served.creates else _NO_KEYS
        pull = self._remote.pull_async(missing) if len(missing) > 0 else None
        return GeoAhead(self, keys, create, device, missing, pull, exchanges)

    # --- as rows that are trained ---

    @contextmanager
    def stepping(self, gradient: Gradient, group: dict[str, Any], step: int) -> Iterator[None]:
        self._replica.touch(gradient.keys.batch)
        with self._rows.stepping(gradient, group, step):
            yield

    # --- its copy ---

    def missing(self, keys: torch.Tensor) -> torch.Tensor:
        """Those of the keys (each once) that there is no copy of, in their order."""
        return keys_in(self._replica.missing(keys.data_ptr(), len(keys)))

    def fill(self, keys: torch.Tensor, rows: torch.Tensor) -> None:
        self._replica.fill(keys.data_ptr(), len(keys), rows.data_ptr())

    def refill(self) -> None:
        """Rows have gone on the servers: copies of them are what such rows begin with, the others what servers have."""
        for part in export_shards(self._replica.table.export_pages, range(_core.SHARDS), _REFILL_ROWS):
            keys = torch.from_numpy(part.page.keys.copy())
            self.fill(keys, torch.as_tensor(self._remote.pull(keys, create=False)))

    # --- exchanges ---

    def send(self) -> None:
        keys, moves = self._replica.take_moves()
        self._sent = keys_in(keys)
        if len(self._sent) > 0:
            values = torch.frombuffer(bytearray(moves), dtype=torch.float32)
            options = delta_options(self._job, _core.hash_name(_GROUP))
            client = self._job.client
            client.native.push(
                self._remote.native,
                self._sent.data_ptr(),
                len(self._sent),
                values.data_ptr(),
                options,
                client.time(None),
            )

    def receive(self) -> None:
        self.exchanges += 1
        client = self._job.client
        changed, self._versions = client.native.changes(
            self._remote.native, self._job.rank, self._versions, client.time(None)
        )
        others = keys_in(changed)
        held = others[~torch.isin(others, self.missing(others))]
        keys = torch.unique(torch.cat([self._sent, held]))
        self._sent = _NO_KEYS
        if len(keys) > 0:
            self.fill(keys, torch.as_tensor(self._remote.pull(keys)))


@dataclass
class GeoAhead:
    """Rows that this worker has no copy of yet, on their way before they are needed."""

    store: GeoStore
    keys: Keys
    create: bool
    device: torch.device
    missing: torch.Tensor
    pull: Future[Array] | None
    exchanges: int

    def rows(self) -> torch.Tensor:
        # Rows from before an exchange may be older than what it has told of, to a worker without a copy of them.
        if self.pull is not None and self.exchanges == self.store.exchanges:
            theirs = torch.as_tensor(self.pull.result())
            # A batch in between may have brought some of them, and trained them.
            still = torch.isin(self.missing, self.store.missing(self.missing))
            self.store.fill(self.missing[still].contiguous(), theirs[still].contiguous())
        return self.store.pull(self.keys, self.create, self.device)
