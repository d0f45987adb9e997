"""Lines of saves: a base, which holds everything, and deltas, each of which holds what changed since the one before.

A delta is read together with all before it. What changed is told by eras (``flota.eras``): a save of a line begins one,
and the next delta takes the rows that were touched since. Each save has a mark, and tables know those that they have
passed, so that a delta to a save that they have not gone on from is refused.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flota.checkpoint.manifest import Manifest, SaveMode
from flota.checkpoint.places import Place, follow, way
from flota.checkpoint.reader import Checkpoint
from flota.checkpoint.writer import CheckpointWriter
from flota.eras import LastingRows, RowsOf, Standing, next_era
from flota.errors import CheckpointError, InvalidArgument
from flota.pages import RowPage, rows_a_page

MODES: tuple[SaveMode, ...] = ("all", "base", "delta", "inference")


@dataclass(frozen=True)
class Line:
    """What a save is in its line: ``since`` says from which era on rows are saved, by table (all, if it has none)."""

    mode: SaveMode
    era: int
    mark: int
    since: Mapping[str, int]
    parents: tuple[Mapping[str, Any], ...]

    def in_manifest(self) -> dict[str, Any]:
        return {"mode": self.mode, "era": self.era, "mark": self.mark, "parents": self.parents}


def check_mode(mode: str) -> SaveMode:
    for known in MODES:
        if mode == known:
            return known
    raise InvalidArgument(f"mode must be one of {', '.join(MODES)}, not {mode!r}")


def begin(tables: Mapping[str, LastingRows], mode: SaveMode, target: Place, before: Place | None) -> Line:
    """Begins a save of these tables. ``before``: the last one of the line, for a delta to go on from."""
    era = next_era(list(tables.values()))
    if mode in ("all", "inference"):
        return Line(mode, era, 0, {}, ())
    mark = secrets.randbits(63) | 1
    if mode == "base":
        # What other saves need stays: this one may fail.
        for table in tables.values():
            table.stand(begin=era, mark=mark)
        return Line(mode, era, mark, {}, ())
    parent = _parent(before, target)
    contents = parent.manifest
    since = {name: contents.era for name in tables if name in contents.tables}
    for name in since:
        _check_goes_on(name, tables[name].stand(), parent)
    for table in tables.values():
        table.stand(begin=era, mark=mark, keep_since=contents.era)
    own = {"path": way(target, parent.path), "identity": f"{contents.identity():016x}"}
    others = ({**each, "path": way(target, follow(parent.path, each["path"]))} for each in contents.parents)
    return Line(mode, era, mark, since, (*others, own))


def _check_goes_on(name: str, standing: Standing, parent: Checkpoint) -> None:
    contents = parent.manifest
    if contents.mark not in standing.marks:
        raise CheckpointError(
            f"table {name!r} has not gone on from {parent.path}: the job began anew without it, or from another save "
            'of the line; save a base first (mode="base")'
        )
    if contents.era < standing.removed_since:
        raise CheckpointError(
            f"table {name!r}: it is no longer known which rows went since {parent.path} was saved: a later delta was "
            'saved, or too many went; go on from the last one, or save a base (mode="base")'
        )


def _parent(before: Place | None, target: Place) -> Checkpoint:
    if before is None:
        raise InvalidArgument(
            'mode="delta": this worker has saved no base yet; save one (mode="base"), or say since=DIR, the last '
            "checkpoint of the line that the servers began with"
        )
    parent = Checkpoint(before)
    if parent.manifest.mode not in ("base", "delta"):
        raise InvalidArgument(f"{before} is no base and no delta: a delta goes on from those")
    needed = [parent.path, *(follow(parent.path, each["path"]) for each in parent.manifest.parents)]
    if target in needed:
        raise InvalidArgument(f"{target} holds what the delta is read with; give the delta a place of its own")
    return parent


def chain(checkpoint: Checkpoint) -> list[Checkpoint]:
    """All that it must be read with, the base first and itself last."""
    found = []
    for entry in checkpoint.manifest.parents:
        place = follow(checkpoint.path, entry["path"])
        try:
            each = Checkpoint(place)
        except CheckpointError as error:
            raise CheckpointError(f"{checkpoint.path} is a delta and needs {place}: {error}") from error
        if f"{each.manifest.identity():016x}" != entry["identity"]:
            raise CheckpointError(f"{checkpoint.path} is a delta to another checkpoint than {place} is now")
        found.append(each)
    return [*found, checkpoint]


def read_all(checkpoint: Checkpoint) -> Iterator[None]:
    """Reads every byte of it and of what it must be read with, and raises where one is not as it was written; a pause
    after each file."""
    for each in chain(checkpoint):
        yield from each.read_all()


def pieces(checkpoint: Checkpoint, table: str) -> Iterator[tuple[RowsOf, RowPage]]:
    """All of a sparse table, in the order in which it is put together: keys whose rows go, and rows that are there."""
    line = chain(checkpoint)
    for each in line:
        if table not in each.manifest.tables:
            continue
        for page in each.removed(table):
            yield RowsOf.removed, page
        for page in each.rows(table):
            yield RowsOf.table, page
    for page in checkpoint.waiting(table):
        yield RowsOf.waiting, page


def add_table(writer: CheckpointWriter, table: LastingRows, line: Line) -> None:
    """A sparse table into a checkpoint of this line."""
    spec = table.spec
    since = line.since.get(spec.name, 0)
    writer.add_table(spec, table.stand().shrinks)
    # First: a key that is let in meanwhile is then in both, and a row counts for more.
    if not spec.admission.admits_all() and line.mode != "inference":
        writer.add_keys(spec, RowsOf.waiting, table.export_shards(page_rows=16384, part=RowsOf.waiting))
    if since:
        writer.add_keys(spec, RowsOf.removed, table.export_shards(part=RowsOf.removed, since=since))
    page_rows = rows_a_page(24 + 4 * writer.row_floats(spec))
    writer.add_rows(spec, table.export_shards(page_rows=page_rows, since=since))


def refuse_delta(checkpoint: Checkpoint, doing: str) -> None:
    """Where a delta alone makes no sense."""
    if checkpoint.manifest.mode == "delta":
        raise InvalidArgument(
            f"{checkpoint.path} is a delta, which holds what has changed: {doing} a checkpoint that holds all (load "
            'it, and save it with mode="all" or "base")'
        )


def describe(contents: Manifest) -> str:
    """For people: what a checkpoint is in its line."""
    if contents.mode == "delta":
        return f"delta, after {' and '.join(str(each['path']) for each in contents.parents)}"
    return str(contents.mode)
