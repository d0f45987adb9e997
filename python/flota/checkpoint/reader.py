"""Tables out of files: each file is checked before anything in it is believed."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from flota.admission import SCORES
from flota.checkpoint import folder, manifest
from flota.checkpoint.kept import find, offering_another
from flota.checkpoint.manifest import FileEntry, Kind, TableEntry
from flota.checkpoint.places import Place
from flota.errors import CheckpointError
from flota.pages import RowPage

T = TypeVar("T")
Tensors = Mapping[str, npt.NDArray[Any]]
Layout = dict[str, tuple[type, tuple[int, ...]]]

_AHEAD = 2


@dataclass(frozen=True)
class Parameter:
    """A dense parameter, whole, with each part of its state by name."""

    weights: npt.NDArray[np.float32]
    state: dict[str, npt.NDArray[np.float32]]
    updates: int
    last_seen: int


class Checkpoint:
    """A checkpoint to read from. Opening it looks at the manifest, and whether the files are there in their sizes;
    their checksums are looked at as they are read. Of a folder of kept ones it is the newest. ``kind`` None: any."""

    def __init__(self, dirname: str | os.PathLike[str] | Place, kind: Kind | None = "persistables") -> None:
        self.path: Place = find(dirname)
        with offering_another(self.path):
            self.manifest = folder.read_manifest(self.path, kind)
        self.files: Place = self.path / self.manifest.folder
        self._offers = True

    @staticmethod
    def unchecked(path: Place, contents: manifest.Manifest) -> Checkpoint:
        """One of which some files may be wrong or missing: to find out which."""
        checkpoint = Checkpoint.__new__(Checkpoint)
        checkpoint.path, checkpoint.manifest, checkpoint.files = path, contents, path / contents.folder
        checkpoint._offers = False
        return checkpoint

    @property
    def step(self) -> int:
        """How many steps had been trained."""
        return self.manifest.step

    @property
    def partial(self) -> bool:
        """Whether it need not hold all of a model's tables."""
        return self.manifest.source.get("mode") == manifest.CONVERTED

    def tables(self, kind: str) -> dict[str, TableEntry]:
        return {name: table for name, table in self.manifest.tables.items() if table.kind == kind}

    def rows(self, table: str) -> Iterator[RowPage]:
        """A sparse table's rows, a file at a time."""
        entry = self.manifest.tables[table]
        files = self.files_of(table, "rows")
        total = 0
        for (name, file), tensors in zip(files, _ahead([self._reading(*named) for named in files]), strict=True):
            yield self._rows_of(name, file, entry, tensors)
            total += file.rows
        if total != entry.rows:
            raise CheckpointError(
                f"{self.path / manifest.NAME}: table {table!r} has {entry.rows} rows, its files {total}"
            )

    def waiting(self, table: str) -> Iterator[RowPage]:
        """Keys that are counted and have no row yet, with their shows and clicks for weights."""
        for name, file in self.files_of(table, "waiting"):
            tensors, rows = self._read(name, file), file.rows
            layout: Layout = {"keys": (np.int64, (rows,)), "last_seen": (np.uint64, (rows,))}
            self._check(name, tensors, layout | dict.fromkeys(SCORES, (np.float32, (rows,))), complete=True)
            counted = np.stack([tensors[score] for score in SCORES], axis=1)
            nothing = np.empty((rows, 0), np.float32)
            yield RowPage(tensors["keys"], np.zeros(rows, np.uint64), tensors["last_seen"], counted, nothing)

    def removed(self, table: str) -> Iterator[RowPage]:
        """Keys whose rows went since the save before."""
        for name, file in self.files_of(table, "removed"):
            tensors = self._read(name, file)
            self._check(name, tensors, {"keys": (np.int64, (file.rows,))}, complete=True)
            nobody, nothing = np.zeros(file.rows, np.uint64), np.empty((file.rows, 0), np.float32)
            yield RowPage(tensors["keys"], nobody, nobody, nothing, nothing)

    def files_of(self, table: str, part: str = "rows") -> list[tuple[str, FileEntry]]:
        """The files that hold this of a sparse table."""
        return [(name, file) for name, file in self.manifest.files.items() if file.table == table and file.part == part]

    def page(self, name: str) -> RowPage:
        """The rows in one file. Those of a model to serve have no state, and nobody counted their updates."""
        file = self.manifest.files[name]
        assert file.table is not None
        return self._rows_of(name, file, self.manifest.tables[file.table], self._read(name, file))

    def _rows_of(self, name: str, file: FileEntry, entry: TableEntry, tensors: Tensors) -> RowPage:
        if not self.manifest.has_state:
            layout: Layout = {"keys": (np.int64, (file.rows,)), "weights": (np.float32, (file.rows, entry.dim))}
            self._check(name, tensors, layout, complete=True)
            nobody, none = np.zeros(file.rows, np.uint64), np.empty((file.rows, 0), np.float32)
            return RowPage(tensors["keys"], nobody, nobody, tensors["weights"], none)
        page = self._page(name, entry, tensors)
        if len(page.keys) != file.rows:
            raise self._wrong(name, f"it has {len(page.keys)} rows, the manifest says {file.rows}")
        return page

    def embedding(self, table: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """A table's keys in order and their weights, as saved for serving."""
        entry = self.manifest.tables[table]
        keys = np.empty(entry.rows, dtype=np.int64)
        weights = np.empty((entry.rows, entry.dim), dtype=np.float32)
        at = 0
        for name, file in self.files_of(table):
            page = self._rows_of(name, file, entry, self._read(name, file))
            if at + file.rows > entry.rows:
                raise self._wrong(name, f"table {table!r} has no more than {entry.rows} rows")
            keys[at : at + file.rows], weights[at : at + file.rows] = page.keys, page.weights
            at += file.rows
        if at != entry.rows or bool((keys[1:] <= keys[:-1]).any()):
            raise CheckpointError(
                f"{self.path / manifest.NAME}: the files of table {table!r} do not hold its {entry.rows} rows in order"
            )
        return keys, weights

    def parameters(self) -> Iterator[tuple[str, Parameter]]:
        """All dense parameters, in the order of their files."""
        wanted = self.tables("dense")
        files = [(name, file) for name, file in self.manifest.files.items() if file.tables]
        found = [table for _, file in files for table in file.tables]
        if sorted(found) != sorted(wanted):
            raise CheckpointError(f"{self.path / manifest.NAME}: its files do not hold its dense tables")
        for (name, file), tensors in zip(files, _ahead([self._reading(*named) for named in files]), strict=True):
            for table in file.tables:
                yield table, self._parameter(name, table, wanted[table], tensors)

    def parameters_in(self, name: str) -> Iterator[tuple[str, Parameter]]:
        """The dense parameters in one file."""
        file = self.manifest.files[name]
        tensors = self._read(name, file)
        for table in file.tables:
            yield table, self._parameter(name, table, self.manifest.tables[table], tensors)

    def tensors(self, name: str) -> Tensors:
        """All of a safetensors file."""
        return self._read(name, self.manifest.files[name])

    def bytes_of(self, name: str) -> bytes:
        """Any file."""
        with offering_another(self.path) if self._offers else nullcontext():
            return folder.read_file(self.files / name, self.manifest.files[name])

    def read_all(self) -> Iterator[None]:
        """Every byte is what was written, or that is raised; a pause after each file."""
        for _ in _ahead([partial(self.bytes_of, name) for name in self.manifest.files]):
            yield

    def _reading(self, name: str, file: FileEntry) -> Callable[[], Tensors]:
        return lambda: self._read(name, file)

    def _read(self, name: str, file: FileEntry) -> Tensors:
        data = self.bytes_of(name)
        try:
            return safetensors.numpy.load(data)
        except (safetensors.SafetensorError, KeyError, ValueError) as error:
            raise self._wrong(name, f"it is no safetensors file ({error})") from error

    def _page(self, name: str, entry: TableEntry, tensors: Tensors) -> RowPage:
        rows = len(tensors.get("keys", ()))
        layout: Layout = {
            "keys": (np.int64, (rows,)),
            "updates": (np.uint64, (rows,)),
            "last_seen": (np.uint64, (rows,)),
        }
        widths = {"weights": entry.dim, **entry.state_widths()}
        layout |= {column: (np.float32, (rows, width)) for column, width in widths.items()}
        self._check(name, tensors, layout, complete=True)
        parts = [tensors[slot] for slot in entry.state_widths()]
        state = np.concatenate(parts, axis=1) if parts else np.empty((rows, 0), dtype=np.float32)
        return RowPage(tensors["keys"], tensors["updates"], tensors["last_seen"], tensors["weights"], state)

    def _parameter(self, name: str, table: str, entry: TableEntry, tensors: Tensors) -> Parameter:
        slots = ("weights", *(entry.rule.state if self.manifest.has_state else ()))
        self._check(name, tensors, {f"{table}/{slot}": (np.float32, entry.shape) for slot in slots}, complete=False)
        values = {slot: tensors[f"{table}/{slot}"] for slot in slots}
        return Parameter(values.pop("weights"), values, entry.updates, entry.last_seen)

    def _check(self, name: str, tensors: Tensors, layout: Layout, complete: bool) -> None:
        for tensor, (kind, shape) in layout.items():
            if tensor not in tensors:
                raise self._wrong(name, f"it has no tensor {tensor!r}")
            there = tensors[tensor]
            if there.dtype != kind or there.shape != shape:
                raise self._wrong(
                    name,
                    f"tensor {tensor!r} is {there.dtype} {list(there.shape)}, not {np.dtype(kind)} {list(shape)}",
                )
        if complete and (strange := set(tensors) - set(layout)):
            raise self._wrong(name, f"unknown tensors {', '.join(sorted(strange))}")

    def _wrong(self, name: str, reason: str) -> CheckpointError:
        return CheckpointError(f"{self.files / name} is not what the manifest says: {reason}")


def _ahead(calls: list[Callable[[], T]]) -> Iterator[T]:
    """The calls' results in order, the next ones being made while one is used."""
    with ThreadPoolExecutor(_AHEAD) as threads:
        running: deque[Future[T]] = deque()
        try:
            for call in calls:
                running.append(threads.submit(call))
                if len(running) > _AHEAD:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()
