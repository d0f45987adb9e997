"""All that a table holds, wherever its rows are: to save it, to serve it, to begin with other rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from flota import _core
from flota.admission import without
from flota.checkpoint.begun import begun_rows
from flota.checkpoint.job import import_parts
from flota.communicator.geo import GeoStore
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.stores import LocalStore, RemoteStore
from flota.eras import LastingRows
from flota.initializer import from_native
from flota.nn.store import Store
from flota.pages import RowPage, export_shards

Keys = npt.NDArray[np.int64]
Rows = npt.NDArray[np.float32]

_PAGE_ROWS = 4096
# Rows that are made to see what they begin with, at a time.
_FIRST_ROWS = 1 << 17


def spec_of(store: Store) -> _core.TableSpec:
    assert isinstance(store, (RemoteStore, LocalStore, GeoStore))
    return store.table.spec


def default_of(store: Store) -> float:
    """What a key gives that has no row, where none is made."""
    if not spec_of(store).admission.admits_all():
        return 0.0
    return from_native(spec_of(store).init).average()


def lasting_rows(store: Store) -> LastingRows:
    """The table as what becomes of its rows over time concerns it."""
    if isinstance(store, LocalStore):
        return store.lasting
    assert isinstance(store, (RemoteStore, GeoStore))
    return store.table


def forget_ahead(optimizer: DistributedOptimizer) -> None:
    """Tables have changed: rows that were pulled ahead are pulled again."""
    for handle, _ in optimizer.tables():
        if isinstance(handle.store, RemoteStore):
            handle.store.forget_ahead()


def pages_of(store: Store) -> Iterator[RowPage]:
    """All rows, with their state."""
    if isinstance(store, (RemoteStore, GeoStore)):
        yield from store.table.export()
        return
    assert isinstance(store, LocalStore)
    for part in export_shards(store.table.export_pages, range(_core.SHARDS), _PAGE_ROWS):
        yield part.page


def all_rows(store: Store) -> tuple[Keys, Rows]:
    """All keys in order, and their weights."""
    pages = list(pages_of(store))
    if not pages:
        return np.empty(0, dtype=np.int64), np.empty((0, spec_of(store).dim), dtype=np.float32)
    keys = np.concatenate([page.keys for page in pages])
    order = np.argsort(keys)
    return keys[order], np.concatenate([page.weights for page in pages])[order]


def first_rows(spec: _core.TableSpec, keys: Keys) -> Rows:
    """What these keys' rows begin with: a row follows from its key."""
    rows = np.empty((len(keys), spec.dim), dtype=np.float32)
    for begin in range(0, len(keys), _FIRST_ROWS):
        some = np.ascontiguousarray(keys[begin : begin + _FIRST_ROWS])
        fresh = _core.SparseTable(without(spec))
        fresh.pull(_address(some), len(some), _address(rows[begin : begin + _FIRST_ROWS]), True)
    return rows


def begin_anew(store: Store) -> None:
    """All rows are as before their first update."""
    for page in list(pages_of(store)):
        for part in begun_rows(spec_of(store), page.keys):
            import_page(store, part)


def import_page(store: Store, page: RowPage) -> None:
    """Whole rows take the place of those that are there."""
    if isinstance(store, LocalStore):
        spec = store.table.spec
        columns = page.columns(spec.name, spec.dim, page.state.shape[1])
        store.table.import_rows(len(columns.keys), spec.dim, page.state.shape[1], *columns.addresses())
        return
    assert isinstance(store, (RemoteStore, GeoStore))
    for part in import_parts(page):
        store.table.import_rows(part)


def assign(store: Store, keys: Keys, rows: Rows) -> None:
    """These rows take the place of those that are there, as if training began with them."""
    for page in begun_rows(spec_of(store), np.asarray(keys), np.asarray(rows, dtype=np.float32)):
        import_page(store, page)


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])
