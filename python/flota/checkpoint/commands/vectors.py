"""``flota checkpoint convert --from SOURCE OUT``: a checkpoint of what other programs have trained.

It holds weights and nothing that an optimizer keeps, and need not hold all of a model's tables: it is for
``flota.load_model(OUT, weights_only=True)``. Keys of words are what ``flota.data``'s readers make of them.
"""

from __future__ import annotations

import io
import lzma
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import fsspec
import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from flota import _core
from flota.checkpoint.commands.export import DENSE
from flota.checkpoint.commands.shards import shards_of
from flota.checkpoint.manifest import CONVERTED
from flota.checkpoint.places import named, place_of
from flota.checkpoint.writer import CheckpointWriter
from flota.errors import CheckpointError, InvalidArgument
from flota.initializer import Constant
from flota.pages import RowPage, ShardPage
from flota.rules import SGD

Keys = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Rows = Iterator[tuple[Keys, Floats]]

_TENSORS = (".pt", ".pth", ".bin", ".safetensors")
_BATCH = 1 << 15


@dataclass(frozen=True)
class Words:
    """What becomes of words: ids as ``flota.data.Sparse`` makes them, or the whole numbers that they are."""

    space: str
    buckets: int = 0
    ids: bool = False

    def keys(self, words: Sequence[bytes], where: str) -> Keys:
        if self.ids:
            try:
                return np.array([int(word) for word in words], dtype=np.int64)
            except (ValueError, OverflowError) as error:
                raise CheckpointError(f"{where}: with --ids each line begins with a whole number: {error}") from error
        salt = _core.hash_text(0, self.space.encode())
        data = np.frombuffer(b"".join(words) + bytes(8), np.uint8)
        offsets = np.concatenate([[0], np.cumsum([len(word) for word in words])]).astype(np.int64)
        keys = np.empty(len(words), np.int64)
        _core.hash_texts(data.ctypes.data, offsets.ctypes.data, len(words), salt, self.buckets, keys.ctypes.data)
        return keys


def convert_from(source: str, out: str, tables: list[str], words: Words | None, columns: tuple[str, str]) -> int:
    """``words`` None: the table's name is their space. ``columns``: of a Parquet file, of keys and of weights."""
    suffix = os.path.splitext(source)[1].lower()
    with CheckpointWriter(out, source={"mode": CONVERTED, "of": os.path.basename(source)}) as writer:
        if suffix in _TENSORS:
            if words is not None:
                raise InvalidArgument("--ids, --space and --buckets are for words, and tensors have none")
            lines = _tensors(writer, source, _read_tensors(source, suffix), tables)
        else:
            if len(tables) != 1 or "=" in tables[0]:
                raise InvalidArgument(f"{source} holds rows of one table: name it with --table NAME")
            words = words or Words(space=tables[0])
            rows = _parquet_rows(source, words, *columns) if suffix == ".parquet" else text_rows(source, words)
            lines = [_add_table(writer, tables[0], rows)]
        writer.publish()
    print(f"{out}: for flota.load_model(…, weights_only=True)")
    for line in lines:
        print(f"  {line}")
    return 0


def _spec(name: str, dim: int = 0, shape: tuple[int, ...] | None = None) -> _core.TableSpec:
    spec = _core.TableSpec()
    spec.name, spec.seed = name, _core.hash_name(name)
    spec.rule, spec.init = SGD().to_native(), Constant(0.0).to_native()
    if shape is None:
        spec.dim = dim
    else:
        spec.kind, spec.shape = _core.TableKind.dense, list(shape)
    return spec


def _add_table(writer: CheckpointWriter, name: str, rows: Rows) -> str:
    first = next(rows, None)
    if first is None:
        raise CheckpointError(f"there are no rows for table {name!r}")
    dim = first[1].shape[1]
    seen, double = _Seen(), 0

    def pages() -> Iterator[ShardPage]:
        nonlocal double
        part: tuple[Keys, Floats] | None = first
        while part is not None:
            keys, places = np.unique(part[0], return_index=True)
            if part[1].shape[1] != dim:
                raise CheckpointError(f"table {name!r}: rows of {dim} weights, and rows of {part[1].shape[1]}")
            new = seen.add(keys)
            keys, weights = keys[new], part[1][places[new]]
            double += len(part[0]) - len(keys)
            if len(keys):
                shards = shards_of(keys)
                counted, state = np.zeros(len(keys), np.uint64), np.empty((len(keys), 0), np.float32)
                page = RowPage(keys, counted, counted, np.ascontiguousarray(weights), state)
                yield ShardPage((int(shards.min()), int(shards.max())), page)
            part = next(rows, None)

    writer.add_rows(_spec(name, dim), pages())
    again = f"; {double:,} more were of keys that had come before, and are left out" if double else ""
    return f"{name}: {seen.count:,} rows of {dim}{again}"


class _Seen:
    """Keys that have come before, in runs that grow: a key is moved as often as their number doubles."""

    def __init__(self) -> None:
        self.count = 0
        self._runs: list[Keys] = []

    def add(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Which of these are new. They are in order, each once."""
        new = np.ones(len(keys), dtype=bool)
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, keys), len(run) - 1)
            new &= run[places] != keys
        if new.any():
            self._runs.append(keys[new])
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            self._runs.append(np.sort(np.concatenate([self._runs.pop(), self._runs.pop()])))
        self.count += int(new.sum())
        return new


# --- files of tensors ---


def _read_tensors(source: str, suffix: str) -> dict[str, npt.NDArray[Any]]:
    place = place_of(source)
    with named("read", place), fsspec.open(str(place), "rb") as file:
        data = file.read()
    if suffix == ".safetensors":
        try:
            return safetensors.numpy.load(data)
        except (safetensors.SafetensorError, KeyError, ValueError) as error:
            raise CheckpointError(f"{source} is no safetensors file that numpy can hold ({error})") from error
    import torch

    try:
        # weights_only: tensors and plain containers, no code.
        state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)  # noqa: TID251
    except Exception as error:  # whatever torch raises
        raise CheckpointError(
            f"{source} is no file of tensors that torch loads with weights_only=True: {error}"
        ) from error
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise CheckpointError(f"{source} is no state_dict: it must be a mapping from names to tensors")
    return {
        str(name): (value.float() if value.is_floating_point() else value).contiguous().numpy()
        for name, value in state.items()
    }


def _tensors(
    writer: CheckpointWriter, source: str, tensors: dict[str, npt.NDArray[Any]], tables: list[str]
) -> list[str]:
    """Tables that are named, or have keys; everything else is a dense parameter."""
    wanted = dict(_wanted(table) for table in tables) if tables else _with_keys(tensors)
    lines, used = [], set()
    for table, weight in wanted.items():
        if weight not in tensors or tensors[weight].ndim != 2:
            matrices = ", ".join(name for name, values in tensors.items() if values.ndim == 2)
            raise CheckpointError(f"{source} has no matrix {weight!r} for table {table!r}; it has {matrices or 'none'}")
        beside = weight.removesuffix(".weight")
        weights, keys = tensors[weight], tensors.get(f"{beside}.keys")
        if keys is not None and (keys.shape != weights.shape[:1] or keys.dtype != np.int64):
            raise CheckpointError(f"{source}: {beside}.keys must be an int64 for each row of {weight}")
        lines.append(_add_table(writer, table, _batches(np.arange(len(weights)) if keys is None else keys, weights)))
        used |= {name for name in tensors if name == weight or name.startswith(f"{beside}.")}
    for name, values in tensors.items():
        # What is called as another tensor and more is that one's state.
        if name in used or name.rpartition(".")[0] in tensors:
            continue
        if values.dtype.kind != "f":
            lines.append(f"{name}: left out, since it is {values.dtype}")
            continue
        weights = np.ascontiguousarray(values, np.float32).reshape(values.shape)
        writer.add_parameter(_spec(DENSE + name, shape=values.shape), weights, {}, updates=0, last_seen=0)
        lines.append(f"{DENSE}{name}: {' x '.join(map(str, values.shape)) or 'one number'}")
    return lines


def _wanted(table: str) -> tuple[str, str]:
    name, _, tensor = table.partition("=")
    return name, tensor or f"{name}.weight"


def _with_keys(tensors: dict[str, npt.NDArray[Any]]) -> dict[str, str]:
    names = [name.removesuffix(".keys") for name in tensors if name.endswith(".keys")]
    return {name: f"{name}.weight" for name in names if f"{name}.weight" in tensors}


def _batches(keys: Keys, weights: npt.NDArray[Any]) -> Rows:
    for begin in range(0, len(keys), _BATCH):
        yield keys[begin : begin + _BATCH], weights[begin : begin + _BATCH].astype(np.float32)


# --- rows in files ---


def _parquet_rows(source: str, words: Words, key: str, weights: str) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet

    place = place_of(source)
    with named("read", place), fsspec.open(str(place), "rb") as stream:
        try:
            file = pa.parquet.ParquetFile(stream)
            if missing := {key, weights} - set(file.schema_arrow.names):
                there = ", ".join(file.schema_arrow.names)
                raise CheckpointError(
                    f"{source} has no column {min(missing)!r}; name it with --columns (it has {there})"
                )
            for batch in file.iter_batches(_BATCH, columns=[key, weights]):
                column, lists = batch.column(key), batch.column(weights)
                if column.null_count or lists.null_count:
                    raise CheckpointError(f"{source}: a key or its weights are missing (null)")
                values = np.asarray(lists.flatten(), dtype=np.float32)
                if not len(column):
                    continue
                if len(values) % len(column):
                    raise CheckpointError(f"{source}: column {weights!r} holds lists of different lengths")
                if pa.types.is_integer(column.type):
                    keys = np.asarray(column.cast(pa.int64()))
                else:
                    keys = words.keys([str(word).encode() for word in column.to_pylist()], source)
                yield keys, values.reshape(len(column), -1)
        except pa.ArrowException as error:
            raise CheckpointError(f"{source} is no Parquet file of keys and weights: {error}") from error


def text_rows(source: str, words: Words) -> Rows:
    """``word v1 v2 …``, a row a line, as GloVe and word2vec write them; the latter's first line says how many there
    are. A word may have spaces in it: the last values are the weights."""
    place = place_of(source)
    dim, texts, rows = 0, list[bytes](), list[Floats]()
    with named("read", place), fsspec.open(str(place), "rb", compression="infer") as stream:
        for number, line in enumerate(_lines(stream, source), 1):
            parts = line.split()
            if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
                dim = int(parts[1])
                continue
            if not parts:
                continue
            dim = dim or len(parts) - 1
            if dim < 1 or len(parts) <= dim:
                raise CheckpointError(f"{source}, line {number}: {len(parts) - 1} weights, not {dim or 'one or more'}")
            texts.append(b" ".join(parts[:-dim]))
            rows.append(_floats(parts[-dim:], f"{source}, line {number}"))
            if len(texts) == _BATCH:
                yield words.keys(texts, source), np.stack(rows)
                texts, rows = [], []
    if texts:
        yield words.keys(texts, source), np.stack(rows)


def _lines(stream: Any, source: str) -> Iterator[bytes]:
    try:
        yield from stream
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise CheckpointError(f"{source} is damaged or cut short: {error}") from error


def _floats(texts: list[bytes], where: str) -> Floats:
    try:
        row = np.array(list(map(float, texts)), np.float32)
    except ValueError as error:
        raise CheckpointError(f"{where}: {error}") from error
    if not np.isfinite(row).all():
        raise CheckpointError(f"{where}: a weight is not finite")
    return row
