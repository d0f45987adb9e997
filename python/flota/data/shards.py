"""Which worker reads what: files and pieces of them, or its part of each batch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from flota import checks
from flota.data.formats.files import File as DataFile
from flota.errors import InvalidArgument

File = TypeVar("File", bound="str | os.PathLike[str]")

_MOST_WORKERS = 1 << 20

_LEAST_BYTES, _MOST_BYTES = 1 << 20, 64 << 20  # of a piece
_PIECES = 256  # of a data set, if it is large enough


@dataclass(frozen=True)
class Piece:
    """What is handed out at a time: a file, or a part of it. ``begin`` and ``end`` count in what its format counts
    in (bytes, row groups); None: to the end."""

    file: DataFile
    begin: int = 0
    end: int | None = None


def cut_by_bytes(file: DataFile, most: int) -> list[Piece]:
    """Pieces of a text of about the same size, ``most`` bytes or less. A line belongs to where it begins."""
    if not file.cuttable or file.size is None or file.size <= most:
        return [Piece(file)]
    count = -(-file.size // most)
    ends = [file.size * number // count for number in range(count + 1)]
    return [Piece(file, begin, end) for begin, end in pairwise(ends)]


def piece_bytes(files: Sequence[DataFile]) -> int:
    """How large pieces should be: small enough for workers to end together, large enough to be worth a request. It
    does not depend on the workers, so that others can go on with an epoch that some have begun."""
    total = sum(file.size or 0 for file in files)
    return min(max(total // _PIECES, _LEAST_BYTES), _MOST_BYTES)


def check_worker(worker_index: int, worker_num: int) -> tuple[int, int]:
    """This worker's index and the number of all, if they fit."""
    worker_num = checks.whole("worker_num", worker_num, 1, _MOST_WORKERS)
    return checks.whole("worker_index", worker_index, 0, worker_num - 1), worker_num


def get_file_shard(files: Sequence[File], worker_index: int, worker_num: int) -> list[File]:
    """The files that this worker reads: a block of the list, such that each file is read by exactly one worker and the
    first workers have one file more where they do not come out even.

    All workers must pass the same list in the same order: sort what ``os.listdir`` or ``glob`` return.
    """
    if isinstance(files, (str, bytes)) or not isinstance(files, Sequence):
        raise InvalidArgument(f"files must be a list of paths in an order that all workers share, not {files!r}")
    for file in files:
        if not isinstance(file, (str, os.PathLike)):
            raise InvalidArgument(f"files must be a list of paths, and {file!r} is none")
    worker_index, worker_num = check_worker(worker_index, worker_num)
    each, more = divmod(len(files), worker_num)
    begin = worker_index * each + min(worker_index, more)
    mine = list(files[begin : begin + each + (worker_index < more)])
    if worker_num > 1:
        _shards.add(_listed(mine))
    return mine


# Lists that were made for one worker. A list of this worker's own is nothing that workers share.
_shards: set[frozenset[str]] = set()


def is_shard(files: Sequence[str | os.PathLike[str]]) -> bool:
    """Whether these files are a worker's part that ``get_file_shard`` has made in this process."""
    return _listed(files) in _shards


def _listed(files: Sequence[str | os.PathLike[str]]) -> frozenset[str]:
    return frozenset(str(os.fspath(file)) for file in files)


def own_part(count: int, worker_index: int, worker_num: int) -> range:
    """This worker's samples of ``count`` that all workers share."""
    return range(count * worker_index // worker_num, count * (worker_index + 1) // worker_num)


def own_batches(rows: int, batch_size: int, worker_index: int, worker_num: int) -> Iterator[range]:
    """The places of this worker's batches among ``rows`` samples.

    The workers' batches of a step stand side by side: together they are the batch that one process would take with
    ``worker_num`` times the batch size. The samples that are left at the end are shared out; a worker for which none
    is left has a batch less.
    """
    together = batch_size * worker_num
    for begin in range(0, rows, together):
        part = own_part(min(together, rows - begin), worker_index, worker_num)
        if part:
            yield range(begin + part.start, begin + part.stop)
