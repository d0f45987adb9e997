"""``flota checkpoint inspect``: what a checkpoint says about itself."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from flota.checkpoint import folder, manifest
from flota.checkpoint.kept import find, others
from flota.checkpoint.lines import describe
from flota.checkpoint.manifest import FileEntry, Manifest, TableEntry
from flota.checkpoint.places import Place

_WIDTH = 80
_MOST_FILES = 20
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def inspect(dirname: str, as_json: bool) -> int:
    place = find(dirname)
    contents = folder.manifest_at(place)
    wrong = [problem for _, problem in folder.wrong_files(place, contents)]
    if as_json:
        print(json.dumps(_as_json(place, contents, wrong), indent=1))
    else:
        print("\n".join(_described(place, contents)))
        for problem in wrong:
            print(f"\nwrong: {problem}")
    return 1 if wrong else 0


def size_of(contents: Manifest) -> int:
    return sum(file.bytes for file in contents.files.values())


def human(size: float) -> str:
    """A size for people."""
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def summary(contents: Manifest) -> str:
    """A checkpoint in one line."""
    files = f"{len(contents.files)} file{'' if len(contents.files) == 1 else 's'}"
    step = f", step {contents.step:,}" if contents.kind == "persistables" else ""
    return f"{contents.kind}{step}, {human(size_of(contents))} in {files}"


def _as_json(place: Place, contents: Manifest, wrong: list[str]) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(contents.to_bytes())
    body.pop("checksum")
    return {**body, "path": str(place), "bytes": size_of(contents), "wrong": wrong}


def _described(place: Place, contents: Manifest) -> Iterator[str]:
    yield str(place)
    yield f"  {summary(contents)}"
    if contents.mode != "all":
        yield from _wrapped("  mode  ", describe(contents))
    yield f"  format {manifest.VERSION}, written by flota {contents.flota}{_source(contents.source)}"
    if beside := [other.name for other in others(place)]:
        yield from _wrapped("  beside it: ", ", ".join(beside))
    for entry in contents.data:
        yield from _wrapped("  data  ", _position(entry))
    for name, table in sorted(contents.tables.items()):
        yield ""
        yield from _table(name, table, contents)
    yield ""
    yield "files"
    names = sorted(contents.files)
    width = max(map(len, names), default=0)
    for name in names[:_MOST_FILES]:
        file = contents.files[name]
        yield f"  {name:<{width}}  {human(file.bytes):>10}  {_held(file)}".rstrip()
    if len(names) > _MOST_FILES:
        yield f"  and {len(names) - _MOST_FILES} more; --json lists all"


def _source(source: Mapping[str, Any]) -> str:
    if not source:
        return ""
    counts = [(source[name], name) for name in ("servers", "workers") if source.get(name)]
    words = [f"{count} {name.removesuffix('s') if count == 1 else name}" for count, name in counts]
    words += [f"{name} {value}" for name, value in source.items() if name not in ("mode", "servers", "workers")]
    return f"; {', '.join([str(source.get('mode', '')), *words])}"


def _position(entry: Mapping[str, Any]) -> str:
    if not entry["pieces"]:
        return f"{entry['pass']}: {entry['over_below']} epochs trained"
    done = sum(end - begin for begin, end in entry["done"])
    return (
        f"{entry['pass']}: in epoch {entry['epoch']}, {done} of {entry['pieces']} pieces trained and "
        f"{len(entry['begun'])} begun"
    )


def _table(name: str, table: TableEntry, contents: Manifest) -> Iterator[str]:
    if table.kind == "sparse":
        files = [file for file in contents.files.values() if file.table == name]
        what = f"sparse, {table.rows:,} rows of {table.dim}, {table.storage}, {human(sum(f.bytes for f in files))}"
    else:
        sides = " x ".join(map(str, table.shape)) or "one number"
        what = f"dense, {sides}, {table.storage}, {table.updates:,} updates"
    yield from _wrapped(f"{name}  ", what + (", NaN let in" if table.allow_nonfinite else ""))
    yield from _wrapped("  rule   ", repr(table.rule))
    if table.state_widths() and contents.has_state:
        yield from _wrapped("  state  ", ", ".join(table.state_widths()))
    if table.admission is not None:
        waiting = f", {table.waiting:,} keys wait for a row" if table.waiting else ""
        yield from _wrapped("  admits ", f"{table.admission!r}{waiting}")
    if table.removed:
        yield f"  {table.removed:,} rows were removed since the save before"
    yield from _wrapped("  init   ", f"{table.init!r}, seed {table.seed}")


def _held(file: FileEntry) -> str:
    if file.table is not None:
        shards = "" if file.shards is None else f", shards {file.shards[0]} to {file.shards[1]}"
        if file.part != "rows":
            return f"{file.table}: {file.rows:,} keys, {file.part}"
        return f"{file.table}: {file.rows:,} rows{shards}"
    return f"{len(file.tables)} dense" if file.tables else ""


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(head + text, _WIDTH, subsequent_indent=" " * min(len(head), 9), break_on_hyphens=False)
