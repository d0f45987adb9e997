"""All that a table holds, for tests that compare tables bit by bit."""

from __future__ import annotations

import numpy as np

from flota import DenseTable, SparseTable


def contents(table: SparseTable | DenseTable) -> list[bytes]:
    """Every bit of a table, as its servers give it."""
    return [column.tobytes() for page in table.export() for column in vars(page).values()]


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
