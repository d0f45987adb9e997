"""Rows as before their first update."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from flota import _core
from flota.admission import score_floats, without
from flota.pages import RowPage, export_shards

_PAGE_ROWS = 16384


def begun_rows(
    spec: _core.TableSpec, keys: npt.NDArray[np.int64], weights: npt.NDArray[np.float32] | None = None
) -> Iterator[RowPage]:
    """These rows as before their first update: with these weights (each key once), or those that follow from their
    keys."""
    keys = np.ascontiguousarray(keys)
    begun = _core.SparseTable(without(spec))
    first = np.empty((len(keys), spec.dim), dtype=np.float32)
    begun.pull(_address(keys), len(keys), _address(first), True)
    order = np.argsort(keys)
    for part in export_shards(begun.export_pages, range(_core.SHARDS), _PAGE_ROWS):
        page = part.page
        scores = np.zeros((len(page.keys), score_floats(spec)), dtype=np.float32)
        state = np.concatenate([page.state, scores], axis=1)
        given = page.weights
        if weights is not None:
            given = weights[order[np.searchsorted(keys, page.keys, sorter=order)]]
        yield RowPage(page.keys, page.updates, page.last_seen, given, state)


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])
