"""Click logs in Criteo's text format: a label, 13 counts and 26 categories a line, by tabs; any may be missing but the
label."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flota import checks
from flota.data.planted import Integers, constant, mix
from flota.data.shards import check_worker, own_part
from flota.errors import InvalidArgument

DENSE = 13
FEATURES = 26

_FIELDS = 1 + DENSE + FEATURES
_LINE = "\t".join(["%d"] * (1 + DENSE) + ["%08x"] * FEATURES) + "\n"
_SALTS = np.array([constant(feature) for feature in range(FEATURES)], dtype=np.uint64)


class Batch(NamedTuple):
    """Some samples: ``dense`` float32 [B, 13], ``ids`` int64 [B, 26], ``label`` float32 [B]."""

    dense: npt.NDArray[np.float32]
    ids: npt.NDArray[np.int64]
    label: npt.NDArray[np.float32]


def read_criteo(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    batch_size: int,
    worker_index: int = 0,
    worker_num: int = 1,
    buckets: int | None = None,
) -> Iterator[Batch]:
    """This worker's batches of the files' lines, one file after the other.

    Counts become ``log1p(count)``; a missing or negative one becomes 0. A category becomes a hash of its feature and
    its text that is the same in every process and for ever; a missing one is a category too. Hashes of different
    features never meet, unless ``buckets`` asks for ids below it.

    Workers share each ``worker_num * batch_size`` lines as in ``Clicks.batches``: every worker reads all lines and
    takes apart its own. With many files it is cheaper to give each its own ``get_file_shard`` and leave
    ``worker_num`` at 1.
    """
    files = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not files:
        raise InvalidArgument("paths is empty; name at least one file")
    batch_size = checks.whole("batch_size", batch_size, 1, 1 << 30)
    worker_index, worker_num = check_worker(worker_index, worker_num)
    if buckets is not None:
        buckets = checks.whole("buckets", buckets, 1, (1 << 63) - 1)

    def batches() -> Iterator[Batch]:
        lines = _lines(files)
        while together := list(islice(lines, batch_size * worker_num)):
            part = own_part(len(together), worker_index, worker_num)
            if part:
                yield _parse(together[part.start : part.stop], buckets)

    return batches()


def write_criteo(path: Path, batches: Iterator[Batch]) -> None:
    """Writes batches whose dense values are ``log1p`` of counts."""
    with path.open("w", encoding="ascii") as file:
        for batch in batches:
            columns = (batch.label[:, None], np.rint(np.expm1(batch.dense)), batch.ids)
            table = np.concatenate([column.astype(np.int64) for column in columns], axis=1)
            file.writelines(_LINE % tuple(row) for row in table.tolist())


class _Line(NamedTuple):
    file: str | os.PathLike[str]
    number: int
    text: bytes

    def refuse(self, why: str) -> InvalidArgument:
        return InvalidArgument(f"{os.fspath(self.file)}, line {self.number}: {why}")


def _lines(files: Sequence[str | os.PathLike[str]]) -> Iterator[_Line]:
    for file in files:
        with open(file, "rb") as stream:
            for number, text in enumerate(stream, 1):
                yield _Line(file, number, text)


def _parse(lines: list[_Line], buckets: int | None) -> Batch:
    rows = [line.text.rstrip(b"\r\n").split(b"\t") for line in lines]
    for line, row in zip(lines, rows, strict=True):
        if len(row) != _FIELDS:
            raise line.refuse(
                f"{len(row)} fields by tabs, not {_FIELDS} (a label, {DENSE} counts, {FEATURES} categories)"
            )
        if row[0] not in (b"0", b"1"):
            raise line.refuse(f"the label is {row[0].decode(errors='replace')!r}, neither 0 nor 1")
    label = np.array([row[0] == b"1" for row in rows], dtype=np.float32)
    try:
        counts = np.array([[float(field or 0) for field in row[1 : 1 + DENSE]] for row in rows])
    except ValueError:
        raise _bad_count(lines, rows) from None
    if not np.isfinite(counts).all():
        raise _bad_count(lines, rows)
    dense = np.log1p(np.maximum(counts, 0.0)).astype(np.float32)
    return Batch(dense, _hash([row[1 + DENSE :] for row in rows], buckets), label)


def _bad_count(lines: list[_Line], rows: list[list[bytes]]) -> InvalidArgument:
    for line, row in zip(lines, rows, strict=True):
        for field in row[1 : 1 + DENSE]:
            try:
                good = np.isfinite(float(field or 0))
            except ValueError:
                good = False
            if not good:
                return line.refuse(f"{field.decode(errors='replace')!r} is no count")
    raise AssertionError("every count is good")


def _hash(categories: list[list[bytes]], buckets: int | None) -> Integers:
    """One id for each feature and text. Texts are taken eight bytes at a time; the zero bytes that fill up a shorter
    one do not count, so that its id does not depend on its neighbours."""
    texts = np.array(categories, dtype=np.bytes_)
    texts = texts.astype(f"S{-(-texts.dtype.itemsize // 8) * 8}")
    words = texts.view("<u8").astype(np.uint64).reshape(*texts.shape, -1)
    hashes = np.broadcast_to(_SALTS, texts.shape).copy()
    for place in range(words.shape[-1]):
        word = words[..., place]
        hashes = np.where(word != 0, mix(hashes ^ word), hashes)
    if buckets is not None:
        return (hashes % np.uint64(buckets)).astype(np.int64)
    features = np.arange(FEATURES, dtype=np.uint64) << np.uint64(56)
    return (features | hashes >> np.uint64(8)).view(np.int64)
