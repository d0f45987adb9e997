"""Tables into files."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from types import TracebackType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from flota import _core
from flota.admission import SCORES
from flota.checkpoint.manifest import FileEntry, Kind, Manifest, TableEntry
from flota.checkpoint.objects import staging
from flota.checkpoint.places import Place
from flota.eras import RowsOf
from flota.errors import CheckpointError
from flota.pages import RowPage, ShardPage

# A file is complete in memory before it is written, and when it is read; so are the few that are being written.
FILE_BYTES = 64 << 20
_WRITERS = 2

Floats = npt.NDArray[np.float32]


class CheckpointWriter:
    """Writes a checkpoint beside the one it will replace. ``publish`` makes it the one; leaving without removes it.

    Memory stays bounded whatever the size of the tables: a few files' worth.
    """

    def __init__(
        self,
        dirname: str | os.PathLike[str] | Place,
        *,
        kind: Kind = "persistables",
        step: int = 0,
        source: Mapping[str, Any] | None = None,
        data: Sequence[Mapping[str, Any]] = (),
        line: Mapping[str, Any] | None = None,
        file_bytes: int = FILE_BYTES,
    ) -> None:
        self._manifest = Manifest(kind, version("flota"), step, source or {}, data=data, **(line or {}))
        self._file_bytes = file_bytes
        self._tables: dict[str, TableEntry] = {}
        self._files: dict[str, FileEntry] = {}
        self._writers = ThreadPoolExecutor(_WRITERS)
        self._writing: deque[tuple[str, FileEntry, Future[tuple[int, str]]]] = deque()
        self._parameters: dict[str, Floats] = {}
        self._parameter_tables: list[str] = []
        self._staging = staging(dirname, kind)
        self._published = False

    def __enter__(self) -> CheckpointWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writers.shutdown(cancel_futures=True)
        if not self._published:
            self._staging.abandon()

    def row_floats(self, spec: _core.TableSpec) -> int:
        """How many floats a row has."""
        return spec.dim + sum(TableEntry.of(spec).state_widths().values())

    def add_table(self, spec: _core.TableSpec, shrinks: Sequence[int] = ()) -> None:
        """A sparse table, whose rows and keys come after."""
        self._tables[spec.name] = replace(TableEntry.of(spec), shrinks=tuple(shrinks))

    def add_rows(self, spec: _core.TableSpec, pages: Iterable[ShardPage]) -> None:
        """The rows of a sparse table."""
        if spec.name not in self._tables:
            self.add_table(spec)
        entry = self._tables[spec.name]
        width = sum(entry.state_widths().values())
        total, waiting, size = 0, list[ShardPage](), 0
        for part in pages:
            page = part.page
            if page.weights.shape[1:] != (spec.dim,) or page.state.shape[1:] != (width,):
                raise CheckpointError(f"table {spec.name!r}: rows of another shape than its rule and dim make")
            total += len(page.keys)
            waiting.append(part)
            size += sum(column.nbytes for column in vars(page).values())
            if size >= self._file_bytes:
                self._write_rows(spec, entry, waiting)
                waiting, size = [], 0
        if waiting:
            self._write_rows(spec, entry, waiting)
        self._tables[spec.name] = replace(self._tables[spec.name], rows=total)

    def _write_rows(self, spec: _core.TableSpec, entry: TableEntry, parts: list[ShardPage]) -> None:
        tensors = columns_of([part.page for part in parts], entry.state_widths())
        if not self._manifest.has_state:
            tensors = {name: tensors[name] for name in ("keys", "weights")}
        shards = (min(part.shards[0] for part in parts), max(part.shards[1] for part in parts))
        self.add_file("sparse", tensors, table=spec.name, rows=len(tensors["keys"]), shards=shards)

    def add_keys(self, spec: _core.TableSpec, part: RowsOf, pages: Iterable[ShardPage]) -> None:
        """Of a sparse table that was added: keys that wait for their rows, or whose rows were removed."""
        name: Literal["waiting", "removed"] = "waiting" if part == RowsOf.waiting else "removed"
        some, size, total = list[RowPage](), 0, 0
        for each in pages:
            some.append(each.page)
            size += 32 * len(each.page.keys)
            if size >= self._file_bytes:
                total += self._write_keys(spec, name, some)
                some, size = [], 0
        if some:
            total += self._write_keys(spec, name, some)
        counts: dict[str, Any] = {name: total}
        self._tables[spec.name] = replace(self._tables[spec.name], **counts)

    def _write_keys(self, spec: _core.TableSpec, name: Literal["waiting", "removed"], pages: list[RowPage]) -> int:
        keys = np.concatenate([page.keys for page in pages])
        tensors: dict[str, npt.NDArray[Any]] = {"keys": keys}
        if name == "waiting":
            counted = np.concatenate([page.weights for page in pages])
            tensors["last_seen"] = np.concatenate([page.last_seen for page in pages])
            tensors |= {score: counted[:, place].copy() for place, score in enumerate(SCORES)}
        self.add_file(name, tensors, table=spec.name, rows=len(keys), shards=(0, _core.SHARDS - 1), part=name)
        return len(keys)

    def add_parameter(
        self,
        spec: _core.TableSpec,
        weights: Floats,
        state: Mapping[str, Floats],
        *,
        updates: int,
        last_seen: int,
    ) -> None:
        """A dense parameter, whole."""
        entry = TableEntry.of(spec)
        if not self._manifest.has_state:
            state = {}
        elif tuple(state) != entry.rule.state:
            raise CheckpointError(f"table {spec.name!r}: the state is not that of its rule")
        if any(part.shape != entry.shape for part in (weights, *state.values())):
            raise CheckpointError(f"table {spec.name!r}: values of another shape than the parameter's")
        self._tables[spec.name] = replace(entry, updates=updates, last_seen=last_seen)
        self._parameter_tables.append(spec.name)
        for name, values in {"weights": weights, **state}.items():
            self._parameters[f"{spec.name}/{name}"] = np.asarray(values, order="C")
        if sum(values.nbytes for values in self._parameters.values()) >= self._file_bytes:
            self._write_parameters()

    def _write_parameters(self) -> None:
        if self._parameters:
            self.add_file("dense", self._parameters, tables=tuple(self._parameter_tables))
        self._parameters, self._parameter_tables = {}, []

    def add_embedding(self, spec: _core.TableSpec, keys: npt.NDArray[np.int64], weights: Floats) -> None:
        """A sparse table's keys in order and their weights, without state: for serving."""
        rows = max(1, self._file_bytes // (8 + 4 * spec.dim))
        for begin in range(0, len(keys), rows):
            some = slice(begin, begin + rows)
            tensors: dict[str, npt.NDArray[Any]] = {"keys": keys[some], "weights": weights[some]}
            self.add_file("embedding", tensors, table=spec.name, rows=len(tensors["keys"]))
        self._tables[spec.name] = replace(TableEntry.of(spec), rows=len(keys))

    def add_file(self, prefix: str, tensors: Mapping[str, npt.NDArray[Any]], **about: Any) -> str:
        """A safetensors file, written in the background. Returns its name."""
        number = sum(name.startswith(f"{prefix}-") for name in (*self._files, *(name for name, _, _ in self._writing)))
        name = f"{prefix}-{number:05d}.safetensors"
        self._begin(name, FileEntry(0, "", **about), lambda: safetensors.numpy.save(dict(tensors)))
        return name

    def add_bytes(self, name: str, data: bytes) -> None:
        """Any other file."""
        self._begin(name, FileEntry(0, ""), lambda: data)

    def _begin(self, name: str, entry: FileEntry, make: Any) -> None:
        while len(self._writing) >= _WRITERS:
            self._finish_oldest()
        future = self._writers.submit(lambda: self._staging.write(name, make()))
        self._writing.append((name, entry, future))

    def _finish_oldest(self) -> None:
        name, entry, future = self._writing.popleft()
        size, checksum = future.result()
        self._files[name] = replace(entry, bytes=size, sha256=checksum)

    def publish(self, inference: Mapping[str, Any] | None = None) -> Manifest:
        """The checkpoint is complete: from here on it is what loads."""
        self._write_parameters()
        while self._writing:
            self._finish_oldest()
        contents = replace(self._manifest, tables=self._tables, files=self._files, inference=inference or {})
        contents = replace(contents, folder=self._staging.folder)
        self._staging.publish(contents)
        self._published = True
        return contents


def columns_of(pages: list[RowPage], widths: Mapping[str, int]) -> dict[str, npt.NDArray[Any]]:
    """The pages' rows as named tensors; each part of the state has one of its own."""
    tensors: dict[str, npt.NDArray[Any]] = {
        name: np.concatenate([getattr(page, name) for page in pages])
        for name in ("keys", "updates", "last_seen", "weights")
    }
    at = 0
    for slot, width in widths.items():
        tensors[slot] = np.concatenate([page.state[:, at : at + width] for page in pages])
        at += width
    return tensors
