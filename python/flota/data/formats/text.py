"""Samples a line: slot text, and columns between delimiters. Parsed by the core, the interpreter released."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from flota import _core
from flota.data.features import Dense, Feature, Features, Ignored, Label, Sparse
from flota.data.formats.files import Bytes, File, lines_before, opened, unpacked
from flota.data.formats.lines import LONGEST, TooLong, whole_lines
from flota.data.formats.trouble import Trouble
from flota.data.shards import Piece, cut_by_bytes
from flota.data.slots import SlotPlace
from flota.errors import DataError, InvalidArgument

# The core's conversions.
_SKIP, _NUMBER, _LOG_NUMBER, _LABEL, _HASH, _RAW, _VOCABULARY = range(7)


class Parser(Protocol):
    def parse(
        self, text: bytes, begin: int, end: int, skip_bad: bool
    ) -> tuple[_core.Samples, int, int, list[tuple[int, str]]]: ...


class Text:
    """Lines of any kind, each a sample."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser

    def pieces(self, file: File, most_bytes: int) -> list[Piece]:
        return cut_by_bytes(file, most_bytes)

    def read(self, piece: Piece, trouble: Trouble) -> Iterator[_core.Samples]:
        try:
            yield from self._read(piece, trouble)
        except DataError as error:
            trouble.bad_file(error)

    def _read(self, piece: Piece, trouble: Trouble) -> Iterator[_core.Samples]:
        file = piece.file
        if piece.begin == 0 and piece.end is None:
            with unpacked(file) as stream:
                yield from self.parse(stream, file.path, trouble)
            return
        with opened(file) as stream:
            stream.seek(max(piece.begin - 1, 0))
            limit = None if piece.end is None else piece.end - piece.begin
            yield from self.parse(stream, file.path, trouble, piece, limit)

    def parse(
        self, stream: Bytes, name: str, trouble: Trouble, piece: Piece | None = None, limit: int | None = None
    ) -> Iterator[_core.Samples]:
        """The samples of a stream's lines. ``name`` is what errors call it."""
        begins_inside = piece is not None and piece.begin > 0
        line = 0
        for part in whole_lines(stream, limit, begins_inside):
            if isinstance(part, TooLong):
                before = self._lines_before(piece)
                what = f"{name}, line {before + line + 1}: it is longer than {LONGEST >> 20} MiB: is this text at all?"
                trouble.bad_lines([what], 1)
                line += 1
                continue
            samples, lines, bad, faults = self._parser.parse(part.text, 0, part.end, trouble.skips)
            if len(samples) > 0:
                yield samples
            if bad:
                before = self._lines_before(piece) + line
                trouble.bad_lines([f"{name}, line {before + at + 1}: {what}" for at, what in faults], bad)
            line += lines

    def _lines_before(self, piece: Piece | None) -> int:
        # Only an error wants to know.
        return 0 if piece is None or piece.begin == 0 else lines_before(piece.file, piece.begin)


def slot_text(layout: _core.Layout, slots: Sequence[SlotPlace], binary: Sequence[str]) -> Text:
    """``binary``: the slots that hold 0 or 1."""
    return Text(_core.SlotText(layout, list(slots), list(binary)))


def column_text(features: Features, delimiter: str) -> Text:
    if len(delimiter) != 1 or not delimiter.isascii():
        raise InvalidArgument(f"delimiter must be one ASCII character, not {delimiter!r}")
    columns = [_text_column(features, column) for column in features.columns]
    return Text(_core.ColumnText(features.layout, columns, ord(delimiter)))


def _text_column(features: Features, column: Feature) -> _core.TextColumn:
    text = _core.TextColumn()
    text.name = column.name
    if isinstance(column, Ignored):
        text.conversion = _SKIP
        return text
    text.field, text.position = features.place(column)
    if isinstance(column, Label):
        text.conversion = _LABEL if column.binary else _NUMBER
    elif isinstance(column, Dense):
        text.conversion = _LOG_NUMBER if column.log1p else _NUMBER
        text.shift, text.scale, text.missing = column.shift, column.scale, column.missing
    else:
        _text_ids(text, column)
    return text


def _text_ids(text: _core.TextColumn, column: Sparse) -> None:
    text.missing = None if column.missing is None else float(column.missing)
    if column.many:
        text.separator = ord("," if column.many is True else column.many)
    if column.raw:
        text.conversion = _RAW
    elif column.vocabulary is not None:
        text.conversion = _VOCABULARY
        text.vocabulary = _core.Vocabulary(list(column.vocabulary))
    else:
        text.conversion = _HASH
        text.salt = column.salt
        text.buckets = column.buckets or 0
