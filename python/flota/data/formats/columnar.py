"""CSV and Parquet, read by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from flota import _core
from flota.data.features import Features
from flota.data.formats.columns import BadValues, Columns
from flota.data.formats.files import Bytes, File, opened, unpacked
from flota.data.formats.trouble import Trouble
from flota.data.shards import Piece
from flota.errors import DataError, InvalidArgument

_ROWS = 8192  # of a Parquet file that are looked at together
_BLOCK = 1 << 20  # bytes of a CSV file that are, and the most that a row may have
_MOST_TOLD = 8


class _Columnar:
    def __init__(self, features: Features) -> None:
        self._columns = Columns(features)

    def _samples(self, batch: Any, numbers: Any, path: str, trouble: Trouble) -> Iterator[_core.Samples]:
        """The samples of a batch's rows, which have these numbers in their file, without those that are bad."""
        error = None
        while batch.num_rows > 0:
            try:
                yield self._columns.samples(batch)
                break
            except BadValues as bad:
                told = [
                    f"{path}, row {numbers[row]}: {bad.what(place)}"
                    for place, row in enumerate(bad.rows[:_MOST_TOLD].tolist())
                ]
                if trouble.skips:
                    trouble.bad_lines(told, len(bad.rows))
                    kept = np.ones(batch.num_rows, bool)
                    kept[bad.rows] = False
                    batch, numbers = batch.filter(pa.array(kept)), numbers[kept]
                else:
                    # Another column may have a bad value in a row before.
                    error = told[0]
                    batch = batch.slice(0, int(bad.rows[0]))
            except DataError as wrong:
                raise DataError(f"{path}: {wrong}") from None
        if error is not None:
            trouble.bad_lines([error], 1)


class _CsvBytes:
    """What pyarrow reads: the file's bytes, a read ending with a line. If they cannot be read to their end, whole lines
    only, and ``error`` says why."""

    closed = False

    def __init__(self, stream: Bytes) -> None:
        self._stream = stream
        self._held = b""
        self._over = False
        self.empty = True
        self.error: DataError | None = None

    def read(self, size: int, /) -> bytes:
        while len(self._held) < size and not self._over:
            self._read_more(size - len(self._held))
        end = size if self._over else self._held.rfind(b"\n", 0, size) + 1 or size
        data, self._held = self._held[:end], self._held[end:]
        self.empty = self.empty and not data.strip()
        return data

    def _read_more(self, size: int) -> None:
        try:
            more = self._stream.read(size)
        except DataError as error:
            self.error = error
            self._over = True
            self._held = self._held[: self._held.rfind(b"\n") + 1]
            return
        self._held += more
        if not more:
            self._over = True
            if self._held and not self._held.endswith(b"\n"):
                self._held += b"\n"  # a header alone is refused without it

    def close(self) -> None:
        """It is closed by who opened it."""


class _BadRows:
    """The rows of a CSV file that have the wrong number of columns, and the numbers of those that have the right one.

    pyarrow leaves out the bad ones, and may be a block ahead of the rows that it gives.
    """

    def __init__(self, path: str, header: bool, trouble: Trouble) -> None:
        self._path = path
        self._trouble = trouble
        self._next = 2 if header else 1  # number of the next row
        self._found: list[tuple[int, str]] = []

    def found(self, row: Any) -> str:
        what = f"{self._path}, row {row.number}: {row.actual_columns} columns, not {row.expected_columns}"
        self._found.append((row.number, what))
        return "skip"

    def numbers(self, count: int) -> Any:
        """The numbers of the next ``count`` good rows."""
        numbers = np.arange(self._next, self._next + count)
        for number, _ in self._found:
            numbers[numbers >= number] += 1
        return numbers

    def passed(self, numbers: Any) -> None:
        """These rows were looked at: tells of the bad ones among and right behind them."""
        self._next = int(numbers[-1]) + 1 if len(numbers) else self._next
        while self._found and self._found[0][0] <= self._next:
            number, what = self._found.pop(0)
            self._next = max(self._next, number + 1)
            self._trouble.bad_lines([what], 1)

    def before(self, numbers: Any) -> int:
        """How many of these good rows come before the first bad one."""
        return int(np.searchsorted(numbers, self._found[0][0])) if self._found else len(numbers)


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
        bad_rows = _BadRows(path, self._names is None, trouble)
        try:
            with unpacked(piece.file) as stream:
                source = _CsvBytes(stream)
                try:
                    for batch in self._open(source, bad_rows):
                        yield from self._read_batch(batch, bad_rows, path, trouble)
                    bad_rows.passed([])
                except pa.ArrowException as error:
                    if not source.empty:
                        raise DataError(f"{path}{_why(error)}") from None
                if source.error is not None:
                    raise source.error
        except DataError as error:
            trouble.bad_file(error)

    def _read_batch(self, batch: Any, bad_rows: _BadRows, path: str, trouble: Trouble) -> Iterator[_core.Samples]:
        numbers = bad_rows.numbers(batch.num_rows)
        if not trouble.skips:
            before = bad_rows.before(numbers)
            batch, numbers = batch.slice(0, before), numbers[:before]
        yield from self._samples(batch, numbers, path, trouble)
        bad_rows.passed(numbers)

    def _open(self, source: _CsvBytes, bad_rows: _BadRows) -> Any:
        columns = self._columns
        return pyarrow.csv.open_csv(
            pa.PythonFile(source, "r"),
            # One thread: readers are threads already, and rows have numbers only then.
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK, column_names=self._names),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=bad_rows.found
            ),
            # As text: what a column holds is what its feature says, not what its first rows look like.
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={name: pa.string() for name in columns.names},
                include_columns=columns.names,
                strings_can_be_null=True,
                null_values=[""],
            ),
        )


def _why(error: Exception) -> str:
    """What pyarrow says, in words that do not speak of its options."""
    if isinstance(error, pa.ArrowKeyError):
        return " has no column " + str(error.args[0]).removeprefix("Column ").partition(" in include_columns")[0]
    if "straddling object" in str(error):
        return f": a row is longer than {_BLOCK >> 20} MiB, or a quote is never closed"
    return f": {error}"


class ParquetReader(_Columnar):
    def pieces(self, file: File, most_bytes: int) -> list[Piece]:
        """Runs of row groups of about so many bytes."""
        with opened(file) as stream:
            try:
                metadata = pyarrow.parquet.read_metadata(pa.PythonFile(stream, "r"))
            except pa.ArrowException as error:
                raise DataError(f"{file.path} is no Parquet file: {error}") from None
        names = metadata.schema.to_arrow_schema().names
        if lost := [name for name in self._columns.names if name not in names]:
            raise DataError(f"{file.path} has no column {lost[0]!r}; it has {', '.join(names)}")
        pieces, begin, size = [], 0, 0
        for group in range(metadata.num_row_groups):
            size += metadata.row_group(group).total_byte_size
            if size >= most_bytes or group + 1 == metadata.num_row_groups:
                pieces.append(Piece(file, begin, group + 1))
                begin, size = group + 1, 0
        return pieces

    def read(self, piece: Piece, trouble: Trouble) -> Iterator[_core.Samples]:
        path = piece.file.path
        try:
            with opened(piece.file) as stream:
                try:
                    yield from self._read_groups(stream, piece, trouble)
                except (pa.ArrowException, OSError) as error:
                    raise DataError(f"{path} is damaged or cut short: {error}") from None
        except DataError as error:
            trouble.bad_file(error)

    def _read_groups(self, stream: Any, piece: Piece, trouble: Trouble) -> Iterator[_core.Samples]:
        file = pyarrow.parquet.ParquetFile(pa.PythonFile(stream, "r"))
        row = 1 + sum(file.metadata.row_group(group).num_rows for group in range(piece.begin))
        groups = list(range(piece.begin, cast(int, piece.end)))
        for batch in file.iter_batches(_ROWS, groups, columns=self._columns.names, use_threads=False):
            numbers = np.arange(row, row + batch.num_rows)
            yield from self._samples(batch, numbers, piece.file.path, trouble)
            row += batch.num_rows


class Csv:
    """CSV files with a header, as the ``format`` of a data set: ``features`` by their names in any order; other columns
    are not read. Without a header, ``header=False``: features are the columns in order (``Ignored`` ones too)."""

    def __init__(self, features: Features, delimiter: str = ",", header: bool = True) -> None:
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '\n\r"':
            raise InvalidArgument(f"delimiter must be one ASCII character, no quote and no newline, not {delimiter!r}")
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
