"""Click logs in Criteo's text format: a label, 13 counts and 26 categories a line, by tabs; any may be missing but the
label."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from flota.data.dataset import QueueDataset, Sharing
from flota.data.features import Batch, Dense, Features, Label, Sparse
from flota.data.formats.text import Text, column_text
from flota.data.formats.trouble import Policy
from flota.errors import InvalidArgument

DENSE = 13
FEATURES = 26

Counts = Literal["classic", "log1p"]

# By how much the classic reader shifts and scales each count, so that most lie between 0 and 1.
_SHIFTS = (0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
_SCALES = (20, 603, 100, 50, 64000, 500, 100, 50, 500, 10, 10, 10, 50)

_LINE = "\t".join(["%d"] * (1 + DENSE) + ["%08x"] * FEATURES) + "\n"


class Criteo:
    """Criteo's format, as the ``format`` of a data set. Batches are ``Batch(dense [B, 13], ids [B, 26], label [B])``.

    Counts are shifted and scaled as the classic reader does it, or with ``counts="log1p"`` become ``log(1 + count)``; a
    missing one becomes 0, and in logarithms a negative one too. A category becomes a hash of its column and its text
    that is the same in every process and for ever, below ``buckets`` if that is given; a missing one is a category too.
    """

    def __init__(self, counts: Counts = "classic", buckets: int | None = None) -> None:
        if counts not in ("classic", "log1p"):
            raise InvalidArgument(f"counts must be 'classic' or 'log1p', not {counts!r}")
        dense = [
            Dense(f"I{column}", log1p=True) if counts == "log1p" else Dense(f"I{column}", shift=shift, scale=scale)
            for column, (shift, scale) in enumerate(zip(_SHIFTS, _SCALES, strict=True), 1)
        ]
        sparse = [Sparse(f"C{column}", buckets=buckets) for column in range(1, FEATURES + 1)]
        self.schema = Features([Label("label"), *dense, *sparse])

    def reader(self) -> Text:
        return column_text(self.schema, "\t")


def read_criteo(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    batch_size: int,
    thread_num: int = 1,
    *,
    counts: Counts = "classic",
    buckets: int | None = None,
    sharing: Sharing | None = None,
    on_error: Policy = "stop",
) -> QueueDataset:
    """The files' samples in batches, each iteration an epoch; see ``Criteo`` and ``QueueDataset.init``."""
    dataset = QueueDataset()
    dataset.init(batch_size, thread_num, format=Criteo(counts, buckets), sharing=sharing, on_error=on_error)
    dataset.set_filelist([paths] if isinstance(paths, (str, os.PathLike)) else paths)
    return dataset


def write_criteo(path: Path, batches: Iterator[Batch]) -> None:
    """Writes batches whose dense values are ``log1p`` of counts."""
    with path.open("w", encoding="ascii") as file:
        for dense, ids, label in batches:
            columns = (np.asarray(label)[:, None], np.rint(np.expm1(np.asarray(dense))), np.asarray(ids))
            table = np.concatenate([column.astype(np.int64) for column in columns], axis=1)
            file.writelines(_LINE % tuple(row) for row in table.tolist())
