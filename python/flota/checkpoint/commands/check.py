"""``flota checkpoint verify``: every byte of a checkpoint is what was written, and what was written makes sense."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from flota.checkpoint import folder
from flota.checkpoint.commands.shards import shards_of
from flota.checkpoint.commands.show import human, size_of, summary
from flota.checkpoint.kept import find, others
from flota.checkpoint.lines import chain
from flota.checkpoint.manifest import Manifest
from flota.checkpoint.places import Place
from flota.checkpoint.reader import Checkpoint
from flota.errors import CheckpointError, FlotaError

# Smaller ones are read before anybody asks how far it is.
_LARGE = 256 << 20
_EVERY = 2.0
_SHOWN = 20

Keys = npt.NDArray[np.int64]
Tell = Callable[[int], None]


def verify(dirname: str) -> int:
    place = find(dirname)
    wrong = list(problems(place, tell=progress()))
    if not wrong:
        print(f"{place}: good\n  {summary(folder.manifest_at(place))}")
        return 0
    print(f"{place}: damaged")
    for problem in wrong[:_SHOWN]:
        print(f"  {problem}")
    if len(wrong) > _SHOWN:
        print(f"  and {len(wrong) - _SHOWN} more")
    good = next((other for other in others(place) if not any(problems(other, tell=progress()))), None)
    print(f"the newest other good checkpoint: {good}" if good else "there is no other good checkpoint beside it")
    return 1


def problems(place: Place, tell: Tell | None = None) -> Iterator[str]:
    """All that is wrong with a checkpoint, and with what it must be read with. ``tell`` hears how many bytes have been
    looked at, and first how many there are."""
    try:
        contents = folder.manifest_at(place)
        wrong = dict(folder.wrong_files(place, contents))
    except FlotaError as error:
        yield str(error)
        return
    yield from wrong.values()
    checkpoint = Checkpoint.unchecked(place, contents)
    before: list[Checkpoint] = []
    try:
        *before, _ = chain(checkpoint)
    except FlotaError as error:
        yield str(error)
    tell = tell or (lambda _: None)
    tell(sum(size_of(each.manifest) for each in (*before, checkpoint)))
    yield from _contents(checkpoint, wrong, tell)
    for each in before:
        yield from _contents(Checkpoint.unchecked(each.path, each.manifest), {}, tell)


def _contents(checkpoint: Checkpoint, wrong: Mapping[str, str], tell: Tell) -> Iterator[str]:
    """What is wrong in its files. ``wrong``: those that need no second look, and why."""
    contents = checkpoint.manifest
    keys = _Keys(checkpoint)
    # In the order of their shards, so that keys of those that are over can be forgotten.
    for name in sorted(contents.files, key=lambda name: (contents.files[name].table or "", _first(contents, name))):
        if name in wrong:
            continue
        try:
            yield from _file(checkpoint, name, keys)
        except FlotaError as error:
            yield str(error)
        tell(contents.files[name].bytes)
    yield from keys.finished()
    if not wrong:
        yield from _all_there(checkpoint)


def _first(contents: Manifest, name: str) -> tuple[int, str]:
    shards = contents.files[name].shards
    return (shards[0] if shards else 0), name


def _file(checkpoint: Checkpoint, name: str, keys: _Keys) -> Iterator[str]:
    file = checkpoint.manifest.files[name]
    strange = {*file.tables, *([] if file.table is None else [file.table])} - set(checkpoint.manifest.tables)
    if strange:
        yield f"{checkpoint.files / name} is of table {min(strange)!r}, which the manifest has not"
    elif file.table is not None and file.part != "rows":
        for _ in checkpoint.waiting(file.table) if file.part == "waiting" else checkpoint.removed(file.table):
            pass
    elif file.table is not None:
        yield from keys.add(name, checkpoint.page(name).keys)
    elif file.tables:
        for _ in checkpoint.parameters_in(name):
            pass
    elif name.endswith(".safetensors"):
        checkpoint.tensors(name)
    else:
        data = checkpoint.bytes_of(name)
        if name.endswith(".json"):
            try:
                json.loads(data)
            except ValueError as error:
                raise CheckpointError(f"{checkpoint.files / name} is no JSON ({error})") from error


class _Keys:
    """The keys of a table that may come again: those of shards that more files may have rows of."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._table: str | None = None
        self._last = -1  # shard, of all files so far
        self._held: list[Keys] = []

    def add(self, name: str, keys: Keys) -> Iterator[str]:
        file = self._checkpoint.manifest.files[name]
        assert file.table is not None
        inference = self._checkpoint.manifest.kind == "inference"
        first, last = file.shards or (0, 1023)
        if file.table != self._table or first > self._last:
            yield from self.finished()
            self._table, self._last = file.table, -1
        self._last = max(self._last, last)
        if file.shards is None and not inference:
            yield f"{self._checkpoint.files / name} does not say which shards its rows are of"
        shards = shards_of(keys)
        strangers = keys[(shards < first) | (shards > last)]
        if len(strangers):
            yield (
                f"{self._checkpoint.files / name} has {len(strangers)} keys of other shards than {first} to {last}, "
                f"such as {strangers[0]}"
            )
        if not inference:
            self._held.append(keys)
            return
        before = self._held[-1][-1:] if self._held else keys[:0]
        joined = np.concatenate([before, keys])
        if bool((joined[1:] <= joined[:-1]).any()):
            yield f"{self._checkpoint.files / name}: the keys of table {file.table!r} are not in order, each once"
        self._held = [keys[-1:]] if len(keys) else self._held

    def finished(self) -> Iterator[str]:
        """No more of these shards will come."""
        keys = np.sort(np.concatenate(self._held)) if self._held else np.empty(0, np.int64)
        self._held = []
        twice = keys[1:][keys[1:] == keys[:-1]]
        if len(twice):
            yield f"{self._checkpoint.path}: table {self._table!r} has {len(twice)} keys twice, such as {twice[0]}"


def _all_there(checkpoint: Checkpoint) -> Iterator[str]:
    """Whether the files together hold the tables."""
    files = checkpoint.manifest.files.values()
    dense = sorted(table for file in files for table in file.tables)
    for name, table in checkpoint.manifest.tables.items():
        if table.kind == "sparse":
            rows = sum(file.rows for _, file in checkpoint.files_of(name))
            if rows != table.rows:
                yield f"{checkpoint.path}: table {name!r} has {table.rows} rows, its files {rows}"
        elif dense.count(name) != 1:
            yield f"{checkpoint.path}: the dense table {name!r} is in {dense.count(name)} files, not in one"
    if checkpoint.manifest.kind == "inference":
        for name in ("program.json", "weights.safetensors"):
            if name not in checkpoint.manifest.files:
                yield f"{checkpoint.path}: a model to serve has a {name}"


def progress() -> Tell:
    """Tells how far a large checkpoint has been looked at."""
    seen, total, last = -1, 0, time.monotonic()

    def tell(size: int) -> None:
        nonlocal seen, total, last
        if seen < 0:
            seen, total = 0, size
            return
        seen += size
        if total >= _LARGE and (time.monotonic() - last > _EVERY or seen == total):
            last = time.monotonic()
            print(f"  {human(seen)} of {human(total)} looked at", file=sys.stderr, flush=True)

    return tell
