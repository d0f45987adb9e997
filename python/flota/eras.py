"""What becomes of a sparse table's rows over time, wherever they are: eras, rows that go, keys that wait for a row.

An era begins with a save or a shrink. Whatever is done to a row from then on shows in its ``last_seen``, which is the
era's number or a later step; so an era tells changed rows from others, at no cost for rows that are not touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from flota import _core
from flota.checks import whole
from flota.errors import InvalidArgument
from flota.pages import RowPage, ShardPage, export_shards

RowsOf = _core.RowsOf

MOST_SHRINKS = 4096  # that are remembered, and so the highest age
MOST_MARKS = 64


@dataclass(frozen=True)
class Standing:
    """Where a table stands: its latest step or era, the marks of the saves that it has passed and that deltas may go on
    from, since when it knows of all rows that went, and the eras that began when it was shrunk by age."""

    newest: int
    marks: tuple[int, ...] = ()
    removed_since: int = 0
    shrinks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Shrinking:
    """Which rows go: those not updated since so many shrinks ago, of a lower score after decay, of a smaller norm."""

    max_age: int | None = None
    min_score: float = 0.0
    decay: float = 1.0
    min_norm: float = 0.0
    everything: bool = False

    def __post_init__(self) -> None:
        if self.max_age is not None:
            whole("max_age", self.max_age, 1, MOST_SHRINKS)
        for name, low, high in (("min_score", 0.0, 1e30), ("decay", 0.0, 1.0), ("min_norm", 0.0, 1e30)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                raise InvalidArgument(f"{name} must be a number from {low:g} to {high:g}, not {value!r}")

    @property
    def by_score(self) -> bool:
        return self.min_score > 0 or self.decay != 1


class LastingRows(Protocol):
    """A sparse table of servers, or of this process."""

    @property
    def spec(self) -> _core.TableSpec: ...

    def stand(self, *, begin: int = 0, mark: int = 0, keep_since: int = 0) -> Standing:
        """Where it stands, after an era has begun. ``mark``: of a save that deltas may go on from; rows that are
        removed are remembered then, and those that were since an era."""

    def restore(self, era: int, mark: int, shrinks: Sequence[int]) -> None:
        """It stands as it did when it was saved."""

    def export_shards(
        self, shards: Sequence[int] | None = None, *, page_rows: int = 4096, part: RowsOf = ..., since: int = 0
    ) -> Iterator[ShardPage]:
        """Rows that were seen since an era, keys that wait, or keys whose rows were removed since."""

    def import_rows(self, page: RowPage, *, part: RowsOf = ...) -> None:
        """The opposite."""

    def shrink(self, which: Shrinking, era: int) -> int:
        """Removes rows and begins an era; returns how many."""


class LocalRows:
    """A table of this process, for the calls that servers answer for theirs."""

    def __init__(self, table: _core.SparseTable) -> None:
        self._table = table
        self._marks: list[int] = []
        self._shrinks: list[int] = []

    @property
    def spec(self) -> _core.TableSpec:
        return self._table.spec

    def stand(self, *, begin: int = 0, mark: int = 0, keep_since: int = 0) -> Standing:
        if begin:
            self._table.begin_era(begin)
        if mark:
            self._marks = [*self._marks, mark][-MOST_MARKS:]
            self._table.keep_removed(keep_since)
        newest = max(self._table.newest_step, self._table.era)
        return Standing(newest, tuple(self._marks), self._table.removed_since, tuple(self._shrinks))

    def restore(self, era: int, mark: int, shrinks: Sequence[int]) -> None:
        self._marks, self._shrinks = [], list(shrinks)
        self.stand(begin=era, mark=mark, keep_since=era)

    def export_shards(
        self,
        shards: Sequence[int] | None = None,
        *,
        page_rows: int = 4096,
        part: RowsOf = RowsOf.table,
        since: int = 0,
    ) -> Iterator[ShardPage]:
        return export_shards(
            lambda places, rows: self._table.export_pages(places, rows, part, since),
            range(_core.SHARDS) if shards is None else shards,
            page_rows,
        )

    def import_rows(self, page: RowPage, *, part: RowsOf = RowsOf.table) -> None:
        dim, state_floats = page.weights.shape[1], page.state.shape[1]
        columns = page.columns(self.spec.name, dim, state_floats)
        self._table.import_rows(len(columns.keys), dim, state_floats, *columns.addresses(), part)

    def shrink(self, which: Shrinking, era: int) -> int:
        check_scores(self.spec, which)
        self._table.begin_era(era)
        since = 0
        if which.max_age is not None:
            if which.max_age <= len(self._shrinks):
                since = self._shrinks[-which.max_age]
            self._shrinks = [*self._shrinks, era][-MOST_SHRINKS:]
        return self._table.shrink(since, which.decay, which.min_score, which.min_norm, which.everything)


def check_scores(spec: _core.TableSpec, which: Shrinking) -> None:
    if which.by_score and not spec.admission.keeps_scores():
        raise InvalidArgument(
            f"table {spec.name!r} keeps no scores: min_score and decay are for tables with "
            "admission=flota.admission.ShowClick(…)"
        )


def next_era(tables: Sequence[LastingRows]) -> int:
    """One that is later than all that was done to these tables."""
    return 1 + max((table.stand().newest for table in tables), default=0)
