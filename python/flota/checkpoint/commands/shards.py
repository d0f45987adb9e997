"""A table's rows a few shards at a time: what is compared fits into memory whatever the size of the table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from flota import _core
from flota.checkpoint.manifest import TableEntry
from flota.checkpoint.reader import Checkpoint
from flota.pages import RowPage

# As in native/common/hash.h: the shards of many keys at once.
_MULTIPLIERS = (np.uint64(0x9FB21C651E98DF25), np.uint64(0xD6E8FEB86659FD93))
_HALF = np.uint64(32)
_TO_SHARD = np.uint64(64 - 10)

_WINDOW_BYTES = 128 << 20


def shards_of(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The virtual shard of each key."""
    hashes = np.ascontiguousarray(keys).view(np.uint64)
    for multiplier in _MULTIPLIERS:
        hashes = (hashes ^ (hashes >> _HALF)) * multiplier
    return ((hashes ^ (hashes >> _HALF)) >> _TO_SHARD).astype(np.int64)


def windows(tables: list[TableEntry], window_bytes: int = _WINDOW_BYTES) -> Iterator[tuple[int, int]]:
    """Runs of shards, first and last, of which all of these tables' rows fit into so many bytes."""
    most = max(table.rows * (24 + 4 * (table.dim + sum(table.state_widths().values()))) for table in tables)
    count = min(_core.SHARDS, 1 + most // window_bytes)
    edges = [place * _core.SHARDS // count for place in range(count + 1)]
    yield from ((first, after - 1) for first, after in itertools.pairwise(edges))


def rows_in(checkpoint: Checkpoint, table: str, window: tuple[int, int]) -> RowPage:
    """The table's rows in these shards, by key."""
    first, last = window
    parts = []
    for name, file in checkpoint.files_of(table):
        held = file.shards or (0, _core.SHARDS - 1)
        if held[0] > last or held[1] < first:
            continue
        page = checkpoint.page(name)
        if held[0] < first or held[1] > last:
            shards = shards_of(page.keys)
            page = taken(page, (shards >= first) & (shards <= last))
        parts.append(page)
    if not parts:
        entry = checkpoint.manifest.tables[table]
        state = sum(entry.state_widths().values()) if checkpoint.manifest.has_state else 0
        nobody = np.empty(0, np.uint64)
        return RowPage(
            np.empty(0, np.int64),
            nobody,
            nobody,
            np.empty((0, entry.dim), np.float32),
            np.empty((0, state), np.float32),
        )
    whole = RowPage(
        *(np.concatenate(columns) for columns in zip(*(vars(part).values() for part in parts), strict=True))
    )
    return taken(whole, np.argsort(whole.keys, kind="stable"))


def taken(page: RowPage, which: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> RowPage:
    """Some of a page's rows."""
    return RowPage(**{name: column[which] for name, column in vars(page).items()})
