"""``flota checkpoint convert DIR OUT``: a checkpoint as other programs read it.

A sparse table is ``NAME.weight`` and ``NAME.keys`` in the order of the keys; a dense parameter has the name that it has
in the model. Files of torch and safetensors are made in memory; Parquet a file of the checkpoint at a time.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, cast
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from flota.checkpoint.lines import refuse_delta
from flota.checkpoint.manifest import TableEntry
from flota.checkpoint.places import Remote, named, place_of
from flota.checkpoint.reader import Checkpoint
from flota.checkpoint.writer import columns_of
from flota.errors import CheckpointError, InvalidArgument

# Of a Parquet file: what a reader of it holds at a time.
_GROUP_ROWS = 1 << 16

Arrays = dict[str, npt.NDArray[Any]]

# What flota puts before the names of a model's parameters.
DENSE = "dense/"


def export(dirname: str, out: str, state: bool, only: list[str]) -> int:
    checkpoint = Checkpoint(dirname, kind=None)
    refuse_delta(checkpoint, "convert")
    if strange := set(only) - set(checkpoint.manifest.tables):
        there = ", ".join(sorted(checkpoint.manifest.tables))
        raise InvalidArgument(f"{checkpoint.path} has no table {min(strange)!r}; it has {there}")
    suffix = os.path.splitext(out)[1].lower()
    write = WRITERS.get(suffix, _parquet_folder)
    if suffix not in ("", *WRITERS):
        raise InvalidArgument(
            f"{out}: what shall it be? Name it .pt, .safetensors or .parquet, or give a folder's name"
        )
    for line in write(checkpoint, out, state, set(only) or set(checkpoint.manifest.tables)):
        print(line)
    return 0


# --- all in one file ---


def arrays_of(checkpoint: Checkpoint, state: bool, tables: set[str]) -> Arrays:
    """Everything by name, in memory."""
    found: Arrays = {}

    def add(name: str, values: npt.NDArray[Any]) -> None:
        if name in found:
            raise CheckpointError(f"two things in {checkpoint.path} would be called {name!r}; convert them one by one")
        found[name] = values

    for name in sorted(tables & checkpoint.tables("sparse").keys()):
        columns = _rows(checkpoint, name)
        order = np.argsort(columns["keys"])
        add(f"{name}.weight", columns.pop("weights")[order])
        add(f"{name}.keys", columns.pop("keys")[order])
        for column, values in columns.items() if state and checkpoint.manifest.kind == "persistables" else ():
            add(f"{name}.{column}", values.astype(np.int64)[order] if values.dtype == np.uint64 else values[order])
    for name, file in checkpoint.manifest.files.items():
        for table, parameter in checkpoint.parameters_in(name) if tables & set(file.tables) else ():
            if table in tables:
                add(table.removeprefix(DENSE), parameter.weights)
                for slot, values in parameter.state.items() if state else ():
                    add(f"{table.removeprefix(DENSE)}.{slot}", values)
    if checkpoint.manifest.kind == "inference" and tables == set(checkpoint.manifest.tables):
        for name, values in checkpoint.tensors("weights.safetensors").items():
            add(name.partition("/")[2], values)
    return found


def _rows(checkpoint: Checkpoint, table: str) -> Arrays:
    """A table's columns, filled a file at a time: they are in memory once."""
    entry = checkpoint.manifest.tables[table]
    whole: Arrays = {}
    at = 0
    for columns in _parts(checkpoint, table, entry):
        for name, values in columns.items():
            whole.setdefault(name, np.empty((entry.rows, *values.shape[1:]), values.dtype))
            whole[name][at : at + len(values)] = values
        at += len(columns["keys"])
    return whole or {"keys": np.empty(0, np.int64), "weights": np.empty((0, entry.dim), np.float32)}


def _parts(checkpoint: Checkpoint, table: str, entry: TableEntry) -> Iterator[Arrays]:
    widths = entry.state_widths() if checkpoint.manifest.has_state else {}
    for name, _ in checkpoint.files_of(table):
        yield columns_of([checkpoint.page(name)], widths)


def _torch_file(checkpoint: Checkpoint, out: str, state: bool, tables: set[str]) -> Iterator[str]:
    import torch

    arrays = arrays_of(checkpoint, state, tables)
    with written(out) as file:
        torch.save({name: torch.from_numpy(values) for name, values in arrays.items()}, file)
    yield f"{out}: {len(arrays)} tensors, for torch.load(…, weights_only=True)"


def _safetensors_file(checkpoint: Checkpoint, out: str, state: bool, tables: set[str]) -> Iterator[str]:
    arrays = arrays_of(checkpoint, state, tables)
    with written(out) as file:
        file.write(safetensors.numpy.save({name: np.ascontiguousarray(values) for name, values in arrays.items()}))
    yield f"{out}: {len(arrays)} tensors"


# --- Parquet ---


def _parquet_file(checkpoint: Checkpoint, out: str, state: bool, tables: set[str]) -> Iterator[str]:
    sparse = sorted(tables & checkpoint.tables("sparse").keys())
    if len(sparse) != 1:
        raise InvalidArgument(
            f"{out} can hold one sparse table, not {', '.join(sparse) or 'none'}: choose one with --table, or give a "
            "folder's name"
        )
    yield _parquet(checkpoint, sparse[0], out, state)


def _parquet_folder(checkpoint: Checkpoint, out: str, state: bool, tables: set[str]) -> Iterator[str]:
    place = place_of(out)
    if not isinstance(place, Remote):
        with named("make", place):
            place.mkdir(parents=True, exist_ok=True)
    for name in sorted(tables):
        # Names of tables have slashes in them.
        yield _parquet(checkpoint, name, f"{out.rstrip('/')}/{quote(name, safe=' ')}.parquet", state)


def _parquet(checkpoint: Checkpoint, table: str, out: str, state: bool) -> str:
    import pyarrow as pa
    import pyarrow.parquet

    entry = checkpoint.manifest.tables[table]
    parts = _parts(checkpoint, table, entry) if entry.kind == "sparse" else _sides(checkpoint, table)
    width = entry.dim if entry.kind == "sparse" else int(np.prod(entry.shape[1:], dtype=np.int64))
    counted = ("updates", "last_seen") if entry.kind == "sparse" and checkpoint.manifest.has_state else ()
    widths = dict.fromkeys(entry.rule.state, width) if entry.kind == "dense" else entry.state_widths()
    widths = widths if state and checkpoint.manifest.has_state else {}
    kinds = {"key": pa.int64(), "weights": pa.list_(pa.float32(), width), **dict.fromkeys(counted, pa.uint64())}
    kinds |= {slot: pa.list_(pa.float32(), floats) for slot, floats in widths.items()}
    about = {"flota.table": table, "flota.shape": str(list(entry.shape)), "flota.step": str(checkpoint.step)}
    schema = pa.schema(list(kinds.items()), metadata=about)
    rows = 0
    with written(out) as file, pa.parquet.ParquetWriter(file, schema, use_dictionary=False) as writer:
        for columns in parts:
            columns["key"] = columns.pop("keys")
            made = [
                pa.array(columns[name])
                if columns[name].ndim == 1
                else pa.FixedSizeListArray.from_arrays(pa.array(columns[name].reshape(-1)), type=kind)
                for name, kind in kinds.items()
            ]
            writer.write_table(pa.table(made, schema=schema), row_group_size=_GROUP_ROWS)
            rows += len(columns["key"])
    return f"{out}: {rows:,} rows of {table}"


def _sides(checkpoint: Checkpoint, table: str) -> Iterator[Arrays]:
    """A dense parameter as rows: its first side counts them."""
    file = next(name for name, file in checkpoint.manifest.files.items() if table in file.tables)
    for name, parameter in checkpoint.parameters_in(file):
        if name == table:
            rows = parameter.weights.shape[0] if parameter.weights.ndim else 1
            columns = {"weights": parameter.weights, **parameter.state}
            yield {"keys": np.arange(rows), **{each: values.reshape(rows, -1) for each, values in columns.items()}}


Writer = Callable[[Checkpoint, str, bool, set[str]], Iterator[str]]
WRITERS: Mapping[str, Writer] = {
    ".pt": _torch_file,
    ".pth": _torch_file,
    ".safetensors": _safetensors_file,
    ".parquet": _parquet_file,
}


@contextmanager
def written(out: str) -> Iterator[IO[bytes]]:
    """A new file, which is there when all of it is: on a disk by a rename, elsewhere by one upload."""
    place = place_of(out)
    if isinstance(place, Remote):
        with named("write", place), tempfile.NamedTemporaryFile(suffix=".flota") as whole:
            yield cast(IO[bytes], whole)
            whole.flush()
            place.upload(whole.name)
        return
    partial = place.with_name(f"{place.name}.tmp-{secrets.token_hex(8)}")
    with named("write", place):
        try:
            with partial.open("xb") as file:
                yield file
            os.replace(partial, place)
        finally:
            partial.unlink(missing_ok=True)
