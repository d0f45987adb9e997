"""Fleet's ``util``: what the workers of a job do together beside training.

    files = flota.util.get_file_shard(sorted(glob("data/part-*")))   # this worker's
    scores = np.concatenate(flota.util.all_gather(scores))           # everybody's, on every worker

All workers make these calls in the same order. Each waits for the slowest worker until the job's deadline; alone, a
process is the one worker of its job.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from flota.checks import whole
from flota.data import shards
from flota.errors import InvalidArgument
from flota.fleet import Reduction, fleet

__all__ = ["all_gather", "all_reduce", "barrier", "get_file_shard", "print_on_rank"]

File = TypeVar("File", bound="str | os.PathLike[str]")


def get_file_shard(files: Sequence[File]) -> list[File]:
    """The files that this worker reads: a block of the list, each file with exactly one worker, the first workers with
    one more where they do not come out even (as Fleet splits them).

    All workers must pass the same list in the same order: sort what ``os.listdir`` or ``glob`` return.
    """
    _only_workers("get_file_shard")
    return shards.get_file_shard(files, fleet.worker_index(), fleet.worker_num())


def barrier(comm_world: str = "worker") -> None:
    """Waits until all workers are here."""
    _check_world("barrier", comm_world)
    fleet.barrier_worker()


def all_reduce(
    value: float | Sequence[float] | torch.Tensor, mode: Reduction = "sum", comm_world: str = "worker"
) -> np.ndarray:
    """All workers' values, element by element summed (or the least or greatest), the same on every worker."""
    _check_world("all_reduce", comm_world)
    return fleet.all_reduce(value, mode)


def all_gather(value: Any, comm_world: str = "worker") -> list[Any]:
    """Every worker's value, in the order of the workers, the same on every worker.

    Numbers come back as numbers, arrays and tensors as numpy arrays; shapes may differ from worker to worker.
    """
    _check_world("all_gather", comm_world)
    array = np.asarray(value.detach().cpu() if isinstance(value, torch.Tensor) else value)
    if array.dtype.kind not in "fiub":
        raise InvalidArgument(f"all_gather takes numbers and arrays of numbers, not {value!r}")
    stream = io.BytesIO()
    # numpy's own file format, which says type and shape; no object of any other kind gets through it.
    np.save(stream, array, allow_pickle=False)
    parts = [np.load(io.BytesIO(part), allow_pickle=False) for part in fleet.gather("all_gather", stream.getvalue())]
    return [part.item() if part.ndim == 0 else part for part in parts]


def print_on_rank(message: object, rank: int) -> None:
    """Prints the message on worker ``rank`` and on no other."""
    _only_workers("print_on_rank")
    if whole("rank", rank, 0, fleet.worker_num() - 1) == fleet.worker_index():
        print(message, flush=True)


def _check_world(what: str, comm_world: str) -> None:
    if comm_world != "worker":
        raise InvalidArgument(
            f"{what}: comm_world must be 'worker', not {comm_world!r}: servers answer workers and never meet each other"
        )
    _only_workers(what)


def _only_workers(what: str) -> None:
    if not fleet.is_worker():
        raise InvalidArgument(f"util.{what} is for workers; this process is a server")
