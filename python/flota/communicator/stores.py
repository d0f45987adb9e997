"""Where rows are: in tables of this process, or on servers."""

from __future__ import annotations

import threading
import weakref

import torch

from flota import _core
from flota.admission import to_native
from flota.arrays import Array
from flota.eras import LocalRows
from flota.nn.store import Keys
from flota.nn.table import TableOptions
from flota.nn.transfer import host_empty
from flota.rules import Rule
from flota.tables import Future, SparseTable


def route(batch: _core.Batch, keys: torch.Tensor) -> Keys:
    places = torch.empty(len(keys), dtype=torch.int32, device="cpu")
    batch.route(keys.data_ptr(), len(keys), places.data_ptr())
    return Keys(batch, places)


def keys_in(raw: bytes) -> torch.Tensor:
    """Keys that the core gives as bytes."""
    return (
        torch.frombuffer(bytearray(raw), dtype=torch.int64) if raw else torch.empty(0, dtype=torch.int64, device="cpu")
    )


def local_spec(options: TableOptions, rule: Rule) -> _core.TableSpec:
    """The table that servers would make, for one in this process."""
    spec = _core.TableSpec()
    spec.name = options.name
    spec.dim = options.dim
    spec.init = options.init.to_native()
    seed = _core.hash_name(options.name) if options.seed is None else options.seed
    spec.seed = seed & 0xFFFFFFFFFFFFFFFF
    spec.rule = rule.to_native()
    spec.admission = to_native(options.admission)
    return spec


class PulledLate:
    """Keys that are made ready ahead, and pulled when they are needed: where pulls cost little, or must see all."""

    def __init__(self, store: LocalStore | RemoteStore, keys: Keys, create: bool, device: torch.device) -> None:
        self._store = store
        self._keys = keys
        self._create = create
        self._device = device

    def rows(self) -> torch.Tensor:
        return self._store.pull(self._keys, self._create, self._device)


class LocalStore:
    """A table in this process: the same rows and rules as a server's, without a server."""

    near = True

    def __init__(self, options: TableOptions, rule: Rule) -> None:
        self.options = options
        self.table = _core.SparseTable(local_spec(options, rule))
        self.lasting = LocalRows(self.table)

    def route(self, keys: torch.Tensor) -> Keys:
        return route(_core.Batch(), keys)

    def pull(self, keys: Keys, create: bool, device: torch.device) -> torch.Tensor:
        rows = host_empty((len(keys.batch), self.options.dim), device)
        self.table.pull_batch(keys.batch, rows.data_ptr(), create)
        return rows

    def pull_ahead(self, keys: Keys, create: bool, device: torch.device) -> PulledLate:
        return PulledLate(self, keys, create, device)


class RemoteStore:
    """A table on servers.

    ``ahead``: rows may be pulled before they are needed; they are then as stale as the time between. In sync mode the
    communicator tells what has changed meanwhile, so that they are not.
    """

    near = False

    def __init__(self, table: SparseTable, ahead: bool = True) -> None:
        self.table = table
        self.creates = True  # False: no rows are made, whatever is asked for
        self._pulls_ahead = ahead
        self._lock = threading.Lock()
        # Weak: one that nobody takes must not be kept up to date for ever.
        self._under_way: weakref.WeakSet[RemoteAhead] = weakref.WeakSet()

    def route(self, keys: torch.Tensor) -> Keys:
        return route(self.table.make_batch(), keys)

    def pull(self, keys: Keys, create: bool, device: torch.device) -> torch.Tensor:
        rows = host_empty((len(keys.batch), self.table.dim), device)
        self.table.pull_batch(keys.batch, rows, create=create and self.creates)
        return rows

    def pull_ahead(self, keys: Keys, create: bool, device: torch.device) -> RemoteAhead | PulledLate:
        if not self._pulls_ahead:
            return PulledLate(self, keys, create, device)
        ahead = RemoteAhead(self, keys, create and self.creates, device)
        # Noted before it begins: what changes after this is either seen by the pull or told to it.
        with self._lock:
            self._under_way.add(ahead)
        ahead.begin()
        return ahead

    def refresh(self, changed: bytes) -> None:
        """These keys' rows (64 bits each) have changed: rows pulled ahead are brought up to date."""
        for ahead in self._those_under_way():
            ahead.refresh(changed)

    def forget_ahead(self) -> None:
        """Anything may have changed: rows pulled ahead are pulled again."""
        for ahead in self._those_under_way():
            ahead.forget()

    def has_ahead(self) -> bool:
        return bool(self._those_under_way())

    def _those_under_way(self) -> list[RemoteAhead]:
        with self._lock:
            return list(self._under_way)

    def end(self, ahead: RemoteAhead) -> None:
        with self._lock:
            self._under_way.discard(ahead)


class RemoteAhead:
    """Rows on their way from servers before they are needed."""

    def __init__(self, store: RemoteStore, keys: Keys, create: bool, device: torch.device) -> None:
        self._store = store
        self._keys = keys
        self._create = create
        self._device = device
        self._rows = host_empty((len(keys.batch), store.table.dim), device)
        self._pull: Future[Array] | None = None
        self._newer: list[tuple[torch.Tensor, Future[Array]]] = []
        self._forgotten = False

    def begin(self) -> None:
        self._pull = self._store.table.pull_batch_async(self._keys.batch, self._rows, create=self._create)

    def refresh(self, changed: bytes) -> None:
        places, keys = self._keys.batch.common(changed)
        if keys:
            pull = self._store.table.pull_async(keys_in(keys), create=self._create)
            self._newer.append((torch.frombuffer(bytearray(places), dtype=torch.int32), pull))

    def forget(self) -> None:
        self._forgotten = True

    def rows(self) -> torch.Tensor:
        assert self._pull is not None
        self._store.end(self)
        self._pull.result()
        if self._forgotten:
            return self._store.pull(self._keys, self._create, self._device)
        for places, rows in self._newer:
            self._rows[places] = torch.as_tensor(rows.result())
        return self._rows
