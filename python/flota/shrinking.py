"""Rows that go: by age, by score, by norm. Every worker takes part, so that nobody trains a row that is going."""

from __future__ import annotations

from collections.abc import Sequence

from flota.communicator.contents import lasting_rows
from flota.communicator.geo import GeoStore
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import Job
from flota.eras import LastingRows, Shrinking, next_era
from flota.errors import FlotaError, InvalidArgument


def shrink(
    optimizer: DistributedOptimizer, job: Job | None, which: Shrinking, names: Sequence[str] | None = None
) -> int:
    """Removes rows of the optimizer's sparse tables, or of those that are named; returns how many, on every worker."""
    stores = {handle.options.name: handle.bound() for handle, _ in optimizer.tables()}
    if names is not None and (unknown := set(names) - set(stores)):
        known = ", ".join(sorted(stores)) or "none"
        raise InvalidArgument(f"shrink: there is no sparse table {', '.join(sorted(unknown))}; there is {known}")
    tables = [lasting_rows(stores[name]) for name in stores if names is None or name in names]
    if which.by_score and names is None:
        # Tables that keep no scores are not meant, unless they are named.
        scored = [table for table in tables if table.spec.admission.keeps_scores()]
        if not scored:
            raise InvalidArgument(
                "shrink: no table keeps scores: min_score and decay are for tables with "
                "admission=flota.admission.ShowClick(…)"
            )
        tables = scored
    if job is None:
        return _shrink_all(tables, which)
    job.barrier("flota/shrink")
    removed = _as_first_worker(job, tables, which)
    for store in stores.values():
        if isinstance(store, GeoStore):
            store.refill()
    return removed


def _as_first_worker(job: Job, tables: Sequence[LastingRows], which: Shrinking) -> int:
    """Worker 0 does it, and tells the others how it went."""
    said, failure = b"", None
    if job.rank == 0:
        try:
            said = b"%d" % _shrink_all(tables, which)
        except FlotaError as error:
            said, failure = f"failed {error}".encode(), error
    first = job.client.native.gather("flota/shrunk", job.rank, job.world, said, job.client.time(None))[0]
    if failure is not None:
        raise failure
    if first.startswith(b"failed "):
        raise FlotaError(f"worker 0 could not shrink the tables: {first[7:].decode()}")
    return int(first)


def _shrink_all(tables: Sequence[LastingRows], which: Shrinking) -> int:
    era = next_era(tables)
    return sum(table.shrink(which, era) for table in tables)
