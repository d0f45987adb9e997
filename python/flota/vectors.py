"""Rows to begin training with: vectors that were trained before, here or elsewhere."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from flota.arrays import Keys, Values, as_keys, as_values
from flota.communicator.contents import assign, spec_of
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import Job
from flota.errors import FlotaError, InvalidArgument, NonFiniteValues
from flota.nn.table import TableParameter
from flota.nn.table_module import TableModule
from flota.saving import restored

# Rows that are on their way at a time.
_ROWS = 1 << 17

Rows = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]


def load_vectors(
    optimizer: DistributedOptimizer,
    job: Job | None,
    table: TableModule | str,
    keys: Keys | None,
    vectors: Values | None,
) -> bool:
    """Every worker calls it; worker 0's rows are the job's. Returns whether they were taken."""
    if job is None:
        _assign(_handle(optimizer, table), *_checked(optimizer, table, keys, vectors))
        return True
    assert optimizer.communicator is not None
    optimizer.communicator.pause()
    try:
        taken = _load_together(optimizer, job, table, keys, vectors)
    except FlotaError:
        optimizer.communicator.resume()
        raise
    if taken:
        optimizer.communicator.loaded(optimizer)
    else:
        optimizer.communicator.resume()
    return taken


def _load_together(
    optimizer: DistributedOptimizer, job: Job, table: TableModule | str, keys: Keys | None, vectors: Values | None
) -> bool:
    word = b""
    rows: Rows | None = None
    if job.rank == 0:
        try:
            rows = _checked(optimizer, table, keys, vectors)
            word = b"kept" if restored(job.client) is not None else b"rows"
        except FlotaError as error:
            _first_says(job, b"failed " + str(error).encode())
            raise
    word = _first_says(job, word)
    if word.startswith(b"failed "):
        raise InvalidArgument(f"worker 0 could not begin with its vectors: {word[7:].decode()}")
    if word == b"kept":
        return False
    # A worker 0 that was started again must not bring them a second time, over what was trained since.
    if rows is not None and not job.client.passed("flota/vectors_loaded"):
        _assign(_handle(optimizer, table), *rows)
    job.barrier("flota/vectors_loaded")
    return True


def _first_says(job: Job, word: bytes) -> bytes:
    return job.gather("flota/vectors", word)[0]


def _handle(optimizer: DistributedOptimizer, table: TableModule | str) -> TableParameter:
    name = table.weight.options.name if isinstance(table, TableModule) else table
    handles = {handle.options.name: handle for handle, _ in optimizer.tables()}
    if name not in handles:
        raise InvalidArgument(
            f"load_vectors: the optimizer trains no table {name!r}; it trains {', '.join(sorted(handles)) or 'none'}"
        )
    return handles[name]


def _checked(
    optimizer: DistributedOptimizer, table: TableModule | str, keys: Keys | None, vectors: Values | None
) -> Rows:
    """What is to be loaded, when it fits the table."""
    handle = _handle(optimizer, table)
    name, dim = handle.options.name, handle.options.dim
    if keys is None or vectors is None:
        raise InvalidArgument("load_vectors: worker 0 must give keys and vectors; only the others may leave them out")
    known = np.asarray(as_keys(keys)).view(np.int64)
    rows = np.asarray(as_values(vectors, (len(known), dim), f"vectors for table {name!r}"))
    ordered = np.sort(known)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise InvalidArgument(f"load_vectors: key {twice[0]} of table {name!r} comes twice; give each key one vector")
    most = table.num_embeddings if isinstance(table, TableModule) else None
    if most is not None and len(known) and not (ordered[0] >= 0 and ordered[-1] < most):
        beyond = ordered[-1] if ordered[-1] >= most else ordered[0]
        raise InvalidArgument(f"load_vectors: key {beyond} is not from 0 to {most - 1}, as those of {name!r} are")
    if not spec_of(handle.bound()).allow_nonfinite and not np.isfinite(rows).all():
        bad = known[int(np.argmin(np.isfinite(rows).all(axis=1)))]
        raise NonFiniteValues(f"load_vectors: the vector of key {bad} for table {name!r} holds NaN or infinity")
    return known, rows


def _assign(handle: TableParameter, keys: npt.NDArray[np.int64], vectors: npt.NDArray[np.float32]) -> None:
    for begin in range(0, len(keys), _ROWS):
        assign(handle.bound(), keys[begin : begin + _ROWS], vectors[begin : begin + _ROWS])
