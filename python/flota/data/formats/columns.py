"""Tables of named columns, as pyarrow has them, made into samples; texts become ids in the core."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flota import _core
from flota.data.features import Dense, Features, Ignored, Label, Sparse
from flota.data.slots import FLOATS, IDS
from flota.errors import DataError

Array = Any  # pyarrow has no types
Mask = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int64]

_MOST_QUOTED = 40  # characters
_WHOLE = re.compile("-?[0-9]{1,20}")


class BadValues(Exception):
    """Values that are not what their column should hold: all such rows of a column, and what is wrong with each."""

    def __init__(self, rows: Ids, what: Callable[[int], str]) -> None:
        super().__init__()
        self.rows = rows
        self._what = what

    def what(self, place: int) -> str:
        """What is wrong with ``rows[place]``."""
        return self._what(int(self.rows[place]))


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
        """The samples of a record batch. Raises ``BadValues`` for the first column that has some, and ``DataError`` for
        a column that is of another kind altogether."""
        count = batch.num_rows
        fields = self._features.fields
        matrices = {
            place: np.empty((count, width), np.float32 if kind == FLOATS else np.int64)
            for place, (kind, width) in enumerate(fields)
            if kind in (FLOATS, IDS)
        }
        lists: dict[int, tuple[Ids, Ids]] = {}
        for column in self._columns:
            place, position = self._features.place(column)
            array = batch.column(batch.schema.get_field_index(column.name))
            if not isinstance(column, Sparse):
                matrices[place][:, position] = _numbers(column, array)
            elif column.many:
                lists[place] = self._many(column, array)
            else:
                matrices[place][:, position] = self._ids(column, array)
        made = [(matrices[place], None) if place in matrices else lists[place] for place in range(len(fields))]
        addresses = [(values.ctypes.data, 0 if offsets is None else offsets.ctypes.data) for values, offsets in made]
        return _core.Samples.from_columns(self._features.layout, count, addresses)

    def _many(self, column: Sparse, array: Array) -> tuple[Ids, Ids]:
        """All ids, and where each sample's begin and end. What is missing or empty is no value."""
        array = _decoded(array)
        if pa.types.is_fixed_size_list(array.type):
            array = pc.cast(array, pa.list_(array.type.value_type))
        if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
            array = pc.split_pattern(_texts(column, array), "," if column.many is True else str(column.many))
        array = pc.fill_null(array, []) if array.null_count else array
        ends = np.asarray(array.offsets, dtype=np.int64)
        values = _without_blanks(_decoded(array.values.slice(int(ends[0]), int(ends[-1] - ends[0]))))
        kept = np.asarray(values.is_valid(), dtype=bool)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept, dtype=np.int64)])
        ends = np.ascontiguousarray(before[ends - ends[0]])
        try:
            return self._ids(column, values.filter(pa.array(kept))), ends
        except BadValues as bad:
            samples, firsts = np.unique(np.searchsorted(ends, bad.rows, "right") - 1, return_index=True)
            place_of = dict(zip(samples.tolist(), firsts.tolist(), strict=True))
            what = bad.what
            raise BadValues(samples, lambda sample: what(place_of[sample])) from None

    def _ids(self, column: Sparse, array: Array) -> Ids:
        array = _decoded(array)
        if column.raw:
            return _raw_ids(column, array)
        texts = pc.cast(_texts(column, array), pa.large_string())
        ids = np.empty(len(texts), np.int64)
        if len(texts) == 0:
            return ids
        _, offsets, data = texts.buffers()
        starts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        address = 0 if data is None else data.address
        if column.name in self._vocabularies:
            vocabulary = self._vocabularies[column.name]
            _core.find_texts(vocabulary, address, starts.ctypes.data, len(texts), ids.ctypes.data)
        else:
            _core.hash_texts(address, starts.ctypes.data, len(texts), column.salt, column.buckets or 0, ids.ctypes.data)
        if column.missing is not None:
            ids[np.asarray(pc.equal(texts, ""), dtype=bool)] = column.missing
        return ids


def _decoded(array: Array) -> Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _is_text(array: Array) -> bool:
    return bool(pa.types.is_string(array.type) or pa.types.is_large_string(array.type))


def _without_blanks(array: Array) -> Array:
    """An empty text is a missing one."""
    return pc.if_else(pc.equal(array, ""), None, array) if _is_text(array) else array


def _texts(column: Sparse, array: Array) -> Array:
    """As text, what is missing being empty. A whole number is its digits."""
    if pa.types.is_floating(array.type) or pa.types.is_nested(array.type):
        raise _wrong_kind(column, array, "ids: make it text or whole numbers")
    if not _is_text(array):
        array = pc.cast(array, pa.string())
    return pc.fill_null(array, "")


def _wrong_kind(column: Dense | Label | Sparse, array: Array, wanted: str) -> DataError:
    return DataError(f"column {column.name!r} holds {array.type}, which cannot be {wanted}")


def _quoted(array: Array, row: int) -> str:
    text = str(array[row].as_py())
    return repr(text if len(text) <= _MOST_QUOTED else text[:_MOST_QUOTED] + "…")


def _refuse(column: Dense | Label | Sparse, array: Array, bad: Mask, what: str) -> None:
    """Raises ``BadValues`` if there are some. ``what`` is said of each value."""
    if bad.any():
        quoted = "{}" in what
        raise BadValues(
            np.flatnonzero(bad),
            lambda row: f"column {column.name!r}: {what.format(_quoted(array, row)) if quoted else what}",
        )


def _uncastable(array: Array, kind: Any) -> Mask:
    """The rows that are in the way of a cast."""
    bad = np.zeros(len(array), bool)
    for row, value in enumerate(array):
        try:
            value.cast(kind)
        except pa.ArrowInvalid:
            bad[row] = True
    return bad


def _raw_ids(column: Sparse, array: Array) -> Ids:
    array = _without_blanks(array)
    missing = np.asarray(array.is_null(), dtype=bool)
    if column.missing is None:
        _refuse(column, array, missing, "it is empty")
    ids = _whole_numbers(column, array)
    ids[missing] = column.missing or 0
    return ids


def _whole_numbers(column: Sparse, array: Array) -> Ids:
    """Of 64 bits, signed or not, as slot text has them. What is missing becomes 0."""
    try:
        # Ids above 2**63 keep their bits.
        whole = pc.cast(array, pa.int64(), safe=not pa.types.is_uint64(array.type))
        return np.array(pc.fill_null(whole, 0), dtype=np.int64)
    except pa.ArrowNotImplementedError:
        raise _wrong_kind(column, array, "ids: make it whole numbers") from None
    except pa.ArrowInvalid:
        if not _is_text(array):
            _refuse(column, array, _uncastable(array, pa.int64()), "{} is no whole number")
    ids, bad = np.zeros(len(array), np.int64), np.zeros(len(array), bool)
    for row, text in enumerate(array.to_pylist()):
        number = 0 if text is None else int(text) if _WHOLE.fullmatch(text) else None
        if number is None or not -(1 << 63) <= number < 1 << 64:
            bad[row] = True
        else:
            ids[row] = number if number < 1 << 63 else number - (1 << 64)
    _refuse(column, array, bad, "{} is no whole number")
    return ids


def _numbers(column: Dense | Label, array: Array) -> npt.NDArray[np.float32]:
    array = _without_blanks(_decoded(array))
    default = column.missing if isinstance(column, Dense) else None
    try:
        # Whole numbers beyond 2**53 may lose their last digits, as floats do.
        numbers = pc.cast(array, pa.float64(), safe=_is_text(array))
    except pa.ArrowNotImplementedError:
        raise _wrong_kind(column, array, "numbers") from None
    except pa.ArrowInvalid:
        _refuse(column, array, _uncastable(array, pa.float64()), "{} is no number")
        raise
    missing = np.asarray(numbers.is_null(), dtype=bool)
    if default is None:
        _refuse(column, array, missing, "it is empty")
    values = np.asarray(pc.fill_null(numbers, 0.0), dtype=np.float64)
    _refuse(column, array, ~np.isfinite(values), "{} is no finite number")
    if isinstance(column, Label):
        if column.binary:
            _refuse(column, array, ~np.isin(values, (0.0, 1.0)), "the label {} is neither 0 nor 1")
        changed = values
    else:
        changed = np.log1p(np.maximum(values, 0.0)) if column.log1p else (values - column.shift) / column.scale
    with np.errstate(over="ignore"):
        narrow = changed.astype(np.float32)
    _refuse(column, array, ~np.isfinite(narrow), "{} is too large a number")
    if default is not None:
        narrow[missing] = default
    return narrow
