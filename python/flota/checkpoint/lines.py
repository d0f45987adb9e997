"""Lines of saves: a base, which holds everything, and deltas, each of which holds what changed since the one before.

A delta is read together with all before it. What changed is told by eras (``flota.eras``): a save of a line begins one,
and the next delta takes the rows that were touched since. The tables know which line their eras belong to, so that a
delta to another one, or to a job that was started anew without it, is refused.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flota.checkpoint.manifest import Manifest, SaveMode
from flota.checkpoint.places import Place, place_of
from flota.checkpoint.reader import Checkpoint
from flota.checkpoint.writer import CheckpointWriter
from flota.eras import LastingRows, RowsOf, next_era
from flota.errors import CheckpointError, InvalidArgument
from flota.pages import RowPage, rows_a_page

MODES: tuple[SaveMode, ...] = ("all", "base", "delta", "inference")


@dataclass(frozen=True)
class Line:
    """What a save is in its line: ``since`` says from which era on rows are saved, by table (all, if it has none)."""

    mode: SaveMode
    era: int
    lineage: int
    since: Mapping[str, int]
    parents: tuple[Mapping[str, Any], ...]

    def in_manifest(self) -> dict[str, Any]:
        return {"mode": self.mode, "era": self.era, "lineage": self.lineage, "parents": self.parents}


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
    if mode == "base":
        lineage = secrets.randbits(63) | 1
        for table in tables.values():
            table.stand(begin=era, lineage=lineage, keep_since=era)
        return Line(mode, era, lineage, {}, ())
    parent = _parent(before, target)
    contents = parent.manifest
    new = set(tables) - set(contents.tables)
    lost = [name for name in tables if name not in new and tables[name].stand().lineage != contents.lineage]
    if lost:
        raise CheckpointError(
            f"table {lost[0]!r} does not go on from {parent.path}: since then another base was saved, or the job began "
            'anew without it; save a base first (mode="base")'
        )
    for table in tables.values():
        table.stand(begin=era, lineage=contents.lineage, keep_since=contents.era)
    own = {"path": _way(target, parent.path), "identity": f"{contents.identity():016x}"}
    return Line(
        mode,
        era,
        contents.lineage,
        {name: contents.era for name in tables if name not in new},
        (*({**each, "path": _way_on(target, parent.path, each)} for each in contents.parents), own),
    )


def _parent(before: Place | None, target: Place) -> Checkpoint:
    if before is None:
        raise InvalidArgument(
            'mode="delta": this worker has saved no base yet; save one (mode="base"), or say since=DIR, the last '
            "checkpoint of the line that the servers began with"
        )
    if before == target:
        raise InvalidArgument(f"{target} holds what the delta goes on from; give the delta a place of its own")
    parent = Checkpoint(before)
    if parent.manifest.mode not in ("base", "delta"):
        raise InvalidArgument(f"{before} is no base and no delta: a delta goes on from those")
    return parent


def _way(here: Place, there: Place) -> str:
    """From one checkpoint to another: so that both may be moved together."""
    if isinstance(here, Path) and isinstance(there, Path):
        return os.path.relpath(there, here)
    return str(there)


def _way_on(here: Place, parent: Place, entry: Mapping[str, Any]) -> str:
    there = _follow(parent, entry["path"])
    return _way(here, there)


def _follow(here: Place, way: str) -> Place:
    if isinstance(here, Path) and "://" not in way:
        return Path(os.path.normpath(here / way))
    return place_of(way)


def chain(checkpoint: Checkpoint) -> list[Checkpoint]:
    """All that it must be read with, the base first and itself last."""
    found = []
    for entry in checkpoint.manifest.parents:
        place = _follow(checkpoint.path, entry["path"])
        try:
            each = Checkpoint(place)
        except CheckpointError as error:
            raise CheckpointError(f"{checkpoint.path} is a delta and needs {place}: {error}") from error
        if f"{each.manifest.identity():016x}" != entry["identity"]:
            raise CheckpointError(f"{checkpoint.path} is a delta to another checkpoint than {place} is now")
        found.append(each)
    return [*found, checkpoint]


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
    row_bytes = 24 + 4 * writer.row_floats(spec)
    pages = table.export_shards(page_rows=rows_a_page(row_bytes), since=since)
    writer.add_rows(spec, pages, shrinks=table.stand().shrinks)
    if since:
        writer.add_keys(spec, RowsOf.removed, table.export_shards(part=RowsOf.removed, since=since))
    if not spec.admission.admits_all() and line.mode != "inference":
        writer.add_keys(spec, RowsOf.waiting, table.export_shards(page_rows=16384, part=RowsOf.waiting))


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
