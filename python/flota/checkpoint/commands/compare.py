"""``flota checkpoint diff``: what is different between two checkpoints, a few shards at a time."""

from __future__ import annotations

import heapq
import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from flota.checkpoint.commands.shards import rows_in, windows
from flota.checkpoint.commands.show import summary
from flota.checkpoint.lines import refuse_delta
from flota.checkpoint.manifest import TableEntry
from flota.checkpoint.reader import Checkpoint
from flota.errors import CheckpointError
from flota.pages import RowPage

_MOST_KEYS = 5
# What tables count, and what their rows' differences tell better.
_COUNTED = ("rows", "updates", "last_seen")


@dataclass
class Column:
    """How far weights, or a part of the state, are apart."""

    greatest: float = 0.0
    total: float = 0.0
    numbers: int = 0

    def add(self, apart: npt.NDArray[np.float32]) -> None:
        if apart.size:
            self.greatest = max(self.greatest, float(apart.max()))
            self.total += float(apart.sum(dtype=np.float64))
            self.numbers += apart.size

    def to_json(self) -> dict[str, float]:
        return {"max": self.greatest, "mean": self.total / self.numbers if self.numbers else 0.0}


@dataclass
class Table:
    """What is different in one table. Rows of a dense one are its numbers and its state's, without keys."""

    kind: str = "dense"
    settings: dict[str, list[Any]] = field(default_factory=dict)
    only_a: int = 0
    only_b: int = 0
    changed: int = 0
    same: int = 0
    counters: int = 0  # rows whose updates or last_seen differ
    columns: dict[str, Column] = field(default_factory=dict)
    most: list[tuple[float, int]] = field(default_factory=list)  # by how far which keys are apart

    @property
    def equal(self) -> bool:
        return not (self.settings or self.only_a or self.only_b or self.changed or self.counters)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "settings": self.settings,
            "rows": {"only_a": self.only_a, "only_b": self.only_b, "changed": self.changed, "same": self.same},
            "counters": self.counters,
            "difference": {name: column.to_json() for name, column in self.columns.items()},
            "most": [{"key": key, "max": apart} for apart, key in self.most],
        }


def diff(one: str, other: str, tolerance: float, as_json: bool) -> int:
    pair = (Checkpoint(one, kind=None), Checkpoint(other, kind=None))
    for each in pair:
        refuse_delta(each, "compare")
    if pair[0].manifest.kind != pair[1].manifest.kind:
        kinds = " and ".join(each.manifest.kind for each in pair)
        raise CheckpointError(f"they are of different kinds, {kinds}: there is nothing to compare")
    found = compare(*pair, tolerance)
    print(json.dumps(found, indent=1) if as_json else "\n".join(_told(found, pair)))
    return 0 if found["equal"] else 1


def compare(one: Checkpoint, other: Checkpoint, tolerance: float = 0.0) -> dict[str, Any]:
    """All differences. Numbers that are no further apart than ``tolerance`` are equal."""
    mine, yours = one.manifest.tables, other.manifest.tables
    settings = {
        name: [getattr(each.manifest, name) for each in (one, other)]
        for name in ("step", "data")
        if getattr(one.manifest, name) != getattr(other.manifest, name)
    }
    tables = {}
    for name in sorted(set(mine) & set(yours)):
        if mine[name].kind == yours[name].kind == "sparse":
            tables[name] = _rows(one, other, name, tolerance)
        else:
            tables[name] = Table(settings=_settings(mine[name], yours[name]))
    _parameters(one, other, tables, tolerance)
    files = _files(one, other, tables, tolerance)
    only_a, only_b = sorted(set(mine) - set(yours)), sorted(set(yours) - set(mine))
    equal = not (settings or only_a or only_b or files) and all(table.equal for table in tables.values())
    return {
        "equal": equal,
        "settings": settings,
        "only_a": only_a,
        "only_b": only_b,
        "files": files,
        "tables": {name: table.to_json() for name, table in tables.items()},
    }


def _settings(mine: TableEntry, yours: TableEntry) -> dict[str, list[Any]]:
    both = [_flat(table.to_json()) for table in (mine, yours)]
    names = [name for name in {**both[0], **both[1]} if name not in _COUNTED]
    for part in ("rule", "init"):
        if both[0][f"{part}.kind"] != both[1][f"{part}.kind"]:  # its settings are others, too, and so is its state
            names = [name for name in names if not name.startswith(f"{part}.") or name == f"{part}.kind"]
    return {name: [both[0].get(name), both[1].get(name)] for name in names if both[0].get(name) != both[1].get(name)}


def _flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in entry.items():
        flat |= {f"{name}.{inner}": each for inner, each in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def apart(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """How far numbers are apart; those that are the same infinity, or both NaN, not at all, and other NaNs for ever."""
    kind = np.float32 if one.dtype == other.dtype == np.float32 else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(one.astype(kind, copy=False) - other.astype(kind, copy=False)).astype(np.float32)
        same = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.where(same, np.float32(0), np.where(np.isnan(distance), np.float32(np.inf), distance))


def _columns(page: RowPage, table: TableEntry) -> dict[str, npt.NDArray[np.float32]]:
    columns = {"weights": page.weights}
    if page.state.shape[1]:
        widths = table.state_widths()
        parts = np.split(page.state, np.cumsum(list(widths.values()))[:-1], axis=1)
        columns |= dict(zip(widths, parts, strict=True))
    return columns


def _rows(one: Checkpoint, other: Checkpoint, name: str, tolerance: float) -> Table:
    mine, yours = one.manifest.tables[name], other.manifest.tables[name]
    found = Table(kind="sparse", settings=_settings(mine, yours))
    for window in windows([mine, yours]):
        ours, theirs = rows_in(one, name, window), rows_in(other, name, window)
        common, left, right = np.intersect1d(ours.keys, theirs.keys, assume_unique=True, return_indices=True)
        found.only_a += len(ours.keys) - len(common)
        found.only_b += len(theirs.keys) - len(common)
        furthest = np.zeros(len(common), np.float32)
        there = _columns(theirs, yours)
        for column, values in _columns(ours, mine).items():
            if column in there and there[column].shape[1] == values.shape[1]:
                distance = apart(values[left], there[column][right])
                found.columns.setdefault(column, Column()).add(distance)
                furthest = np.maximum(furthest, distance.max(axis=1, initial=0.0))
        changed = furthest > tolerance
        found.changed += int(changed.sum())
        found.same += int((~changed).sum())
        found.counters += int(
            ((ours.updates[left] != theirs.updates[right]) | (ours.last_seen[left] != theirs.last_seen[right])).sum()
        )
        nearest = np.argsort(furthest)[::-1][:_MOST_KEYS]
        some = [(float(furthest[at]), int(common[at])) for at in nearest if changed[at]]
        found.most = heapq.nlargest(_MOST_KEYS, [*found.most, *some])
    return found


def _numbers(found: Table, column: str, one: npt.NDArray[Any], other: npt.NDArray[Any], tolerance: float) -> None:
    distance = apart(one, other)
    found.columns.setdefault(column, Column()).add(distance)
    found.changed += int((distance > tolerance).sum())
    found.same += int((distance <= tolerance).sum())


def _parameters(one: Checkpoint, other: Checkpoint, tables: dict[str, Table], tolerance: float) -> None:
    """Dense parameters: a file of one side in memory, and one parameter of the other."""
    where = {table: name for name, file in other.manifest.files.items() for table in file.tables}
    for name, file in one.manifest.files.items():
        shared = [table for table in file.tables if table in where and table in tables]
        mine = dict(one.parameters_in(name)) if shared else {}
        for theirs in sorted({where[table] for table in shared}):
            for table, yours in other.parameters_in(theirs):
                if table not in mine:
                    continue
                found, ours = tables[table], mine[table]
                found.counters += (ours.updates, ours.last_seen) != (yours.updates, yours.last_seen)
                if ours.weights.shape == yours.weights.shape:
                    _numbers(found, "weights", ours.weights, yours.weights, tolerance)
                    for slot in [slot for slot in ours.state if slot in yours.state]:
                        _numbers(found, slot, ours.state[slot], yours.state[slot], tolerance)


def _files(one: Checkpoint, other: Checkpoint, tables: dict[str, Table], tolerance: float) -> list[str]:
    """Files that are no tables and differ. Tensors in them are compared as dense parameters are."""
    plain = [
        {name: file for name, file in each.manifest.files.items() if file.table is None and not file.tables}
        for each in (one, other)
    ]
    differ = []
    for name in sorted({**plain[0], **plain[1]}):
        mine, yours = plain[0].get(name), plain[1].get(name)
        if mine is None or yours is None:
            differ.append(name)
        elif mine.sha256 != yours.sha256:
            tensors = (one.tensors(name), other.tensors(name)) if name.endswith(".safetensors") else ({}, {})
            shapes = [{tensor: values.shape for tensor, values in each.items()} for each in tensors]
            if not tensors[0] or shapes[0] != shapes[1]:
                differ.append(name)
            for tensor in sorted(tensors[0].keys() & tensors[1].keys()):
                found = tables.setdefault(f"{name}/{tensor}", Table())
                if tensors[0][tensor].shape == tensors[1][tensor].shape:
                    _numbers(found, "weights", tensors[0][tensor], tensors[1][tensor], tolerance)
    return differ


def _told(found: Mapping[str, Any], pair: tuple[Checkpoint, Checkpoint]) -> Iterator[str]:
    for letter, checkpoint in zip("AB", pair, strict=True):
        yield f"{letter}  {checkpoint.path}"
        yield f"   {summary(checkpoint.manifest)}"
    if found["equal"]:
        yield "equal"
        return
    for name, (mine, yours) in found["settings"].items():
        yield f"{name}: {mine} in A, {yours} in B" if name == "step" else f"{name}: not the same"
    for letter in "ab":
        for name in found[f"only_{letter}"]:
            yield f"table {name}: only in {letter.upper()}"
    for name in found["files"]:
        yield f"file {name}: not the same"
    for name, table in found["tables"].items():
        yield from _table(name, table)


def _table(name: str, table: Mapping[str, Any]) -> Iterator[str]:
    rows = table["rows"]
    differs = rows["only_a"] or rows["only_b"] or rows["changed"] or table["counters"] or table["settings"]
    if not differs:
        yield f"table {name}: equal"
        return
    yield f"table {name}"
    for setting, (mine, yours) in table["settings"].items():
        yield f"  {setting}: {mine} in A, {yours} in B"
    ours = {"A": rows["only_a"], "B": rows["only_b"]}
    only = "".join(f"{count:,} only in {letter}, " for letter, count in ours.items() if count)
    what = "rows" if table["kind"] == "sparse" else "numbers"
    yield f"  {what}: {only}{rows['changed']:,} changed, {rows['same']:,} equal"
    if table["counters"]:
        which = f"{table['counters']:,} rows" if table["kind"] == "sparse" else "it was"
        yield f"  {which} updated more often, or later, in one than in the other"
    width = max(map(len, table["difference"]), default=0)
    for column, apart in table["difference"].items():
        yield f"  {column:<{width}}  max {apart['max']:<11.5g} mean {apart['mean']:.5g}"
    if table["most"]:
        most = [f"{each['key']} ({each['max']:.4g})" for each in table["most"]]
        yield from textwrap.wrap(f"  furthest apart: {', '.join(most)}", 80, subsequent_indent="    ")
