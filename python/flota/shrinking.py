"""Rows that go: by age, by score, by norm. Every worker takes part, so that nobody trains a row that is going."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flota.communicator.contents import forget_ahead, lasting_rows
from flota.communicator.geo import GeoStore
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import Job
from flota.eras import LastingRows, Shrinking, next_era
from flota.errors import MAY_PASS, FlotaError, InvalidArgument

# A table, and which of its rows go.
Wanted = tuple[LastingRows, Shrinking]


def shrink(
    optimizer: DistributedOptimizer, job: Job | None, which: Shrinking, names: Sequence[str] | None = None
) -> int:
    """Removes rows of the optimizer's sparse tables, or of those that are named; returns how many, on every worker."""
    if isinstance(names, str):
        raise InvalidArgument(f"shrink: tables is a list of names: give [{names!r}]")
    stores = {handle.options.name: handle.bound() for handle, _ in optimizer.tables()}
    if names is not None and (unknown := set(names) - set(stores)):
        known = ", ".join(sorted(stores)) or "none"
        raise InvalidArgument(f"shrink: there is no sparse table {', '.join(sorted(unknown))}; there is {known}")
    tables = [lasting_rows(stores[name]) for name in stores if names is None or name in names]
    wanted = _by_table(tables, which, named=names is not None)
    if job is None:
        return _shrink_all(wanted)
    job.barrier("flota/shrink")
    removed = _as_first_worker(job, wanted)
    forget_ahead(optimizer)
    for store in stores.values():
        if isinstance(store, GeoStore):
            store.refill()
    return removed


def _by_table(tables: Sequence[LastingRows], which: Shrinking, named: bool) -> list[Wanted]:
    """What is wanted of each table: of one that keeps no scores, and was not named, what does not need them."""
    if not which.by_score or named:
        return [(table, which) for table in tables]
    if not any(table.spec.admission.keeps_scores() for table in tables):
        raise InvalidArgument(
            "shrink: no table keeps scores: min_score and decay are for tables with "
            "admission=flota.admission.ShowClick(…)"
        )
    plain = replace(which, min_score=0.0, decay=1.0)
    return [
        (table, which if table.spec.admission.keeps_scores() else plain)
        for table in tables
        if table.spec.admission.keeps_scores() or plain != Shrinking()
    ]


def _as_first_worker(job: Job, wanted: Sequence[Wanted]) -> int:
    """Worker 0 does it, and tells the others how it goes: the era, what was removed of each table, and of all.

    If it is started again in between, it hears what it has said and goes on. A table that was shrunk into this era
    already is not shrunk again: servers know.
    """

    def tell(said: bytes = b"") -> tuple[bytes, bytes]:
        word, _, rest = job.gather("flota/shrunk", said)[0].partition(b" ")
        if word == b"failed":
            raise FlotaError(f"worker 0 could not shrink the tables: {rest.decode()}")
        return word, rest

    era, removed, done = 0, 0, 0
    while job.rank != 0 or job.client.passed("flota/shrunk"):
        word, rest = tell()
        if word == b"done":
            return int(rest)
        if word == b"era":
            era = int(rest)
        else:
            removed, done = removed + int(rest), done + 1
    try:
        if era == 0:
            era = next_era([table for table, _ in wanted])
            tell(b"era %d" % era)
        for table, which in wanted[done:]:
            gone = table.shrink(which, era)
            removed += gone
            tell(b"more %d" % gone)  # each table has a deadline of its own
    except MAY_PASS:
        raise  # this worker may be started again, and then goes on
    except FlotaError as error:
        job.gather("flota/shrunk", f"failed {error}".encode())
        raise
    tell(b"done %d" % removed)
    return removed


def _shrink_all(wanted: Sequence[Wanted]) -> int:
    era = next_era([table for table, _ in wanted])
    return sum(table.shrink(which, era) for table, which in wanted)
