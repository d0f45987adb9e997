"""CSV and Parquet, read by pyarrow; texts become ids in the core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from flota import _core
from flota.data.features import Dense, Features, Ignored, Label, Sparse
from flota.data.formats.files import File, opened, unpacked
from flota.data.formats.trouble import Trouble
from flota.data.shards import Piece
from flota.errors import DataError, InvalidArgument

_ROWS = 8192  # of a Parquet file that are looked at together

Array = Any  # pyarrow has no types


class Columns:
    """Turns tables of named columns into samples."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._columns = [column for column in features.columns if not isinstance(column, Ignored)]
        self.names = [column.name for column in self._columns]
        self._vocabularies = {
            column.name: _core.Vocabulary(list(column.vocabulary))
            for column in self._columns
            if isinstance(column, Sparse) and column.vocabulary is not None
        }

    def samples(self, batch: Any) -> _core.Samples:
        """The samples of a record batch. Raises ``_BadValue``, which names the row."""
        count = batch.num_rows
        fields = self._features.fields
        made: list[tuple[npt.NDArray[Any], npt.NDArray[np.int64] | None]] = []
        matrices = {
            place: np.empty((count, width), np.float32 if kind == 0 else np.int64)
            for place, (kind, width) in enumerate(fields)
            if kind < 2
        }
        lists: dict[int, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = {}
        for column in self._columns:
            place, position = self._features.place(column)
            array = batch.column(batch.schema.get_field_index(column.name))
            if isinstance(column, Sparse):
                if column.many:
                    lists[place] = self._many(column, array)
                else:
                    matrices[place][:, position] = self._ids(column, array)
            else:
                matrices[place][:, position] = _numbers(column, array)
        made = [(matrices[place], None) if place in matrices else lists[place] for place in range(len(fields))]
        addresses = [(values.ctypes.data, 0 if offsets is None else offsets.ctypes.data) for values, offsets in made]
        return _core.Samples.from_columns(self._features.layout, count, addresses)

    def _many(self, column: Sparse, array: Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
            array = pc.split_pattern(_texts(column, array), "," if column.many is True else str(column.many))
            array = pc.if_else(pc.equal(pc.list_value_length(array), 0), None, array)
        array = pc.fill_null(array, []) if array.null_count else array
        offsets = np.asarray(array.offsets, dtype=np.int64)
        values = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        ids = self._ids(column, values)
        # A text without values splits into one that is empty.
        kept = np.asarray(pc.not_equal(_texts(column, values), ""), dtype=bool) if not column.raw else None
        offsets = offsets - offsets[0]
        if kept is not None and not kept.all():
            before = np.concatenate([[0], np.cumsum(kept)])
            ids, offsets = ids[kept], before[offsets]
        return np.ascontiguousarray(ids), np.ascontiguousarray(offsets, dtype=np.int64)

    def _ids(self, column: Sparse, array: Array) -> npt.NDArray[np.int64]:
        if column.raw:
            return _raw_ids(column, array)
        missing = array.is_null()
        texts = pc.cast(_texts(column, array), pa.large_string())
        _, offsets, data = texts.buffers()
        starts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        ids = np.empty(len(texts), np.int64)
        address = 0 if data is None else data.address
        if column.name in self._vocabularies:
            vocabulary = self._vocabularies[column.name]
            _core.find_texts(vocabulary, address, starts.ctypes.data, len(texts), ids.ctypes.data)
        else:
            _core.hash_texts(address, starts.ctypes.data, len(texts), column.salt, column.buckets or 0, ids.ctypes.data)
        if column.missing is not None:
            empty = np.asarray(pc.or_(missing, pc.equal(texts, "")), dtype=bool)
            ids[empty] = column.missing
        return ids


class _BadValue(Exception):
    """A value that is not what its column should hold."""

    def __init__(self, row: int, what: str) -> None:
        super().__init__(what)
        self.row = row


def _first(mask: Array) -> int:
    return int(np.flatnonzero(np.asarray(mask, dtype=bool))[0])


def _texts(column: Sparse, array: Array) -> Array:
    """As text, what is missing being empty. A whole number is its digits."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_floating(array.type) or pa.types.is_nested(array.type):
        raise DataError(
            f"column {column.name!r} holds {array.type}, which cannot be ids: make it text or whole numbers"
        )
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        array = pc.cast(array, pa.string())
    return pc.fill_null(array, "")


def _raw_ids(column: Sparse, array: Array) -> npt.NDArray[np.int64]:
    missing = array.is_null()
    if array.null_count:
        if column.missing is None and not column.many:
            raise _BadValue(_first(missing), f"column {column.name!r}: it is empty")
        array = pc.fill_null(array, column.missing or 0) if not pa.types.is_string(array.type) else array
    try:
        return np.asarray(pc.cast(array, pa.int64()).to_numpy(zero_copy_only=False), dtype=np.int64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _BadValue(_bad_row(array, pa.int64()), f"column {column.name!r}: {error}") from None


def _numbers(column: Dense | Label, array: Array) -> npt.NDArray[np.float32]:
    default = column.missing if isinstance(column, Dense) else None
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        array = pc.if_else(pc.equal(array, ""), None, array)
    try:
        numbers = pc.cast(array, pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        row = _bad_row(array, pa.float64())
        raise _BadValue(row, f"column {column.name!r}: {str(array[row])!r} is no number") from None
    if numbers.null_count and default is None:
        raise _BadValue(_first(numbers.is_null()), f"column {column.name!r}: it is empty")
    values = np.asarray(pc.fill_null(numbers, np.nan).to_numpy(zero_copy_only=False), dtype=np.float64)
    if numbers.null_count == 0 or default is not None:
        bad = ~np.isfinite(values) & ~np.asarray(numbers.is_null(), dtype=bool)
        if bad.any():
            row = _first(bad)
            raise _BadValue(row, f"column {column.name!r}: {values[row]} is no finite number")
    if isinstance(column, Label):
        if column.binary and not np.isin(values, (0.0, 1.0)).all():
            row = _first(~np.isin(values, (0.0, 1.0)))
            raise _BadValue(row, f"the label {values[row]:g} of column {column.name!r} is neither 0 nor 1")
        return values.astype(np.float32)
    changed = np.log1p(np.maximum(values, 0.0)) if column.log1p else (values - column.shift) / column.scale
    if default is not None:
        changed = np.where(np.isnan(values), default, changed)
    return changed.astype(np.float32)


def _bad_row(array: Array, kind: Any) -> int:
    """The first row that cannot be cast."""
    for row, value in enumerate(array):
        try:
            value.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return row
    return 0


class _Columnar:
    def __init__(self, features: Features) -> None:
        self._columns = Columns(features)

    def _samples(self, batch: Any, name: str, before: int, unit: str, trouble: Trouble) -> Iterator[_core.Samples]:
        """The batch's samples, without the rows that are bad."""
        while batch.num_rows > 0:
            try:
                yield self._columns.samples(batch)
                return
            except _BadValue as error:
                if error.row > 0:
                    yield self._columns.samples(batch.slice(0, error.row))
                trouble.bad_lines([f"{name}, {unit} {before + error.row + 1}: {error}"], 1)
                batch, before = batch.slice(error.row + 1), before + error.row + 1
            except (DataError, pa.ArrowException) as error:
                raise DataError(f"{name}: {error}") from None

    def _check_names(self, names: list[str], path: str) -> None:
        if lost := [name for name in self._columns.names if name not in names]:
            raise DataError(f"{path} has no column {lost[0]!r}; it has {', '.join(names)}")


class CsvReader(_Columnar):
    def __init__(self, features: Features, delimiter: str, names: list[str] | None) -> None:
        super().__init__(features)
        self._delimiter = delimiter
        self._names = names

    def pieces(self, file: File, most_bytes: int) -> list[Piece]:
        """One: a newline may stand between quotes."""
        return [Piece(file)]

    def read(self, piece: Piece, trouble: Trouble) -> Iterator[_core.Samples]:
        path = piece.file.path
        if piece.file.size == 0:
            return
        line = 0 if self._names else 1
        with unpacked(piece.file) as stream:
            try:
                reader = self._open(stream, trouble, path)
                self._check_names(reader.schema.names, path)
                for batch in reader:
                    yield from self._samples(batch, path, line, "row", trouble)
                    line += batch.num_rows
            except pa.ArrowInvalid as error:
                trouble.bad_file(DataError(f"{path}: {error}"))

    def _open(self, stream: Any, trouble: Trouble, path: str) -> Any:
        def bad_row(row: Any) -> str:
            if not trouble.skips:
                return "error"
            where = f", row {row.number}" if row.number is not None else ""
            what = f"{path}{where}: {row.actual_columns} columns, not {row.expected_columns}"
            trouble.bad_lines([what], 1)
            return "skip"

        columns = self._columns
        return pyarrow.csv.open_csv(
            pa.PythonFile(stream, "r"),
            # One thread: readers are threads already, and rows have numbers only then.
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=1 << 20, column_names=self._names),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=bad_row
            ),
            # As text: what a column holds is what its feature says, not what its first rows look like.
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={name: pa.string() for name in columns.names},
                include_columns=columns.names,
                include_missing_columns=False,
                strings_can_be_null=True,
                null_values=[""],
            ),
        )


class ParquetReader(_Columnar):
    def pieces(self, file: File, most_bytes: int) -> list[Piece]:
        """Runs of row groups of about so many bytes."""
        with opened(file) as stream:
            try:
                metadata = pyarrow.parquet.read_metadata(pa.PythonFile(stream, "r"))
            except pa.ArrowException as error:
                raise DataError(f"{file.path} is no Parquet file: {error}") from None
        self._check_names(metadata.schema.to_arrow_schema().names, file.path)
        pieces, begin, size = [], 0, 0
        for group in range(metadata.num_row_groups):
            size += metadata.row_group(group).total_byte_size
            if size >= most_bytes or group + 1 == metadata.num_row_groups:
                pieces.append(Piece(file, begin, group + 1))
                begin, size = group + 1, 0
        return pieces

    def read(self, piece: Piece, trouble: Trouble) -> Iterator[_core.Samples]:
        path = piece.file.path
        with opened(piece.file) as stream:
            try:
                file = pyarrow.parquet.ParquetFile(pa.PythonFile(stream, "r"))
                row = sum(file.metadata.row_group(group).num_rows for group in range(piece.begin))
                groups = list(range(piece.begin, cast(int, piece.end)))
                for batch in file.iter_batches(_ROWS, groups, columns=self._columns.names, use_threads=False):
                    yield from self._samples(batch, path, row, "row", trouble)
                    row += batch.num_rows
            except (pa.ArrowException, OSError) as error:
                trouble.bad_file(DataError(f"{path} is damaged or cut short: {error}"))


class Csv:
    """CSV files with a header, as the ``format`` of a data set: ``features`` by their names in any order; other columns
    are not read. Without a header, ``header=False``: features are the columns in order (``Ignored`` ones too)."""

    def __init__(self, features: Features, delimiter: str = ",", header: bool = True) -> None:
        if len(delimiter) != 1:
            raise InvalidArgument(f"delimiter must be one character, not {delimiter!r}")
        self.schema = features
        self._delimiter = delimiter
        self._header = header

    def reader(self) -> CsvReader:
        names = None if self._header else [column.name for column in self.schema.columns]
        return CsvReader(self.schema, self._delimiter, names)


class Parquet:
    """Parquet files, as the ``format`` of a data set: ``features`` by their names. Columns of many values are lists, or
    texts with separators."""

    def __init__(self, features: Features) -> None:
        self.schema = features

    def reader(self) -> ParquetReader:
        return ParquetReader(self.schema)
