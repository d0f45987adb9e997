"""Whole rows, a bounded page at a time: what export gives, import takes, and a checkpoint holds.

It knows neither torch nor servers, so that a server process can use it before it listens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flota.errors import InvalidArgument

# What the core gives for a page: five columns as bytes, dim, floats of state a row, the next cursor, and whether there
# is none.
NativePage = tuple[bytes, bytes, bytes, bytes, bytes, int, int, int, bool]
# A shard (or block), and where in it a page begins.
Place = tuple[int, int]

# Shards that are asked for at once: enough for the answers to overlap, few enough for their pages to be kept.
_WINDOW = 32
_WINDOW_BYTES = 32 << 20
_MOST_ROWS = 16384


@dataclass(frozen=True)
class RowPage:
    """Some whole rows, column by column. For a dense table a row is a block, and its key the block's id."""

    keys: npt.NDArray[np.int64]
    updates: npt.NDArray[np.uint64]
    last_seen: npt.NDArray[np.uint64]
    weights: npt.NDArray[np.float32]
    state: npt.NDArray[np.float32]

    @staticmethod
    def of(native: NativePage) -> RowPage:
        keys, updates, last_seen, weights, state, dim, state_floats, _, _ = native
        count = len(keys) // 8
        return RowPage(
            np.frombuffer(keys, dtype=np.int64),
            np.frombuffer(updates, dtype=np.uint64),
            np.frombuffer(last_seen, dtype=np.uint64),
            np.frombuffer(weights, dtype=np.float32).reshape(count, dim),
            np.frombuffer(state, dtype=np.float32).reshape(count, state_floats),
        )

    def columns(self, what: str, dim: int, state_floats: int) -> RowPage:
        """The same rows as the core takes them: contiguous, of the right types, and all of one length."""
        page = RowPage(
            np.ascontiguousarray(self.keys, dtype=np.int64),
            np.ascontiguousarray(self.updates, dtype=np.uint64),
            np.ascontiguousarray(self.last_seen, dtype=np.uint64),
            np.ascontiguousarray(self.weights, dtype=np.float32),
            np.ascontiguousarray(self.state, dtype=np.float32),
        )
        count = len(page.keys)
        sizes = (page.updates.size, page.last_seen.size, page.weights.size, page.state.size)
        if sizes != (count, count, count * dim, count * state_floats):
            raise InvalidArgument(f"{what}: the columns of the rows have different lengths")
        return page

    def addresses(self) -> tuple[int, int, int, int, int]:
        """Where the columns lie. Requires: they are what ``columns`` gives, and are kept."""
        keys, updates, last_seen, weights, state = (
            int(column.__array_interface__["data"][0])
            for column in (self.keys, self.updates, self.last_seen, self.weights, self.state)
        )
        return keys, updates, last_seen, weights, state


@dataclass(frozen=True)
class ShardPage:
    """A page, and the virtual shards (first and last) that its rows are of."""

    shards: tuple[int, int]
    page: RowPage


def rows_a_page(row_bytes: int) -> int:
    """How many rows of this size to ask for in a page, so that those under way together stay bounded."""
    return max(1, min(_MOST_ROWS, _WINDOW_BYTES // _WINDOW // row_bytes))


def export_shards(
    ask: Callable[[list[Place], int], list[NativePage]], shards: Sequence[int], page_rows: int
) -> Iterator[ShardPage]:
    """All rows of these shards. ``ask`` gives a page of so many rows at most from each of some places."""
    for begin in range(0, len(shards), _WINDOW):
        window = shards[begin : begin + _WINDOW]
        places = [(shard, 0) for shard in window]
        while places:
            pages = ask(places, page_rows)
            places = [(shard, page[7]) for (shard, _), page in zip(places, pages, strict=True) if not page[8]]
            for native in pages:
                if native[0]:
                    yield ShardPage((min(window), max(window)), RowPage.of(native))
