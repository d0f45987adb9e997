"""All that a table holds, for tests that compare tables bit by bit."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from flota import SparseTable, _core


def contents(table: SparseTable, keys: Iterable[int] = (1, 2, 3, 4)) -> list[int | bytes]:
    """How many rows there are, and every bit of those that share a shard with one of the keys."""
    shards = sorted({_core.shard_of(key) for key in keys})
    return [table.rows(), *(column.tobytes() for page in table.export(shards) for column in vars(page).values())]


def rows_of(table: SparseTable) -> list[np.ndarray]:
    """Keys, updates, last_seen, weights and state of all rows, by key: the same for any number of servers."""
    pages = list(table.export())
    columns = [np.concatenate([getattr(page, name) for page in pages]) for name in vars(pages[0])]
    order = np.argsort(columns[0])
    assert len(np.unique(columns[0])) == len(columns[0]), "a row came twice"
    return [column[order] for column in columns]


def assert_same_bits(first: list[np.ndarray], *others: list[np.ndarray]) -> None:
    for other in others:
        for mine, theirs in zip(first, other, strict=True):
            assert mine.shape == theirs.shape
            assert mine.tobytes() == theirs.tobytes()
