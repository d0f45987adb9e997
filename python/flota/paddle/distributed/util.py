"""``fleet.util``: what the workers of a job do together beside training. It is flota's own, by Paddle's arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

import flota.util
from flota.util import barrier, get_file_shard

__all__ = ["all_gather", "all_reduce", "all_reduce_into", "barrier", "get_file_shard", "print_on_rank"]


def all_reduce(input: Any, mode: Any = "sum", comm_world: str = "worker") -> np.ndarray:
    """All workers' values, element by element summed (or the least or greatest)."""
    return flota.util.all_reduce(_plain(input), mode, comm_world)


def all_reduce_into(output: Any, input: Any, mode: Any = "sum") -> None:
    """The same into a list or an array that is there, as 1.x has it."""
    reduced = flota.util.all_reduce(_plain(input), mode)
    if isinstance(output, np.ndarray):
        output[...] = reduced.reshape(output.shape)
    else:
        output[:] = reduced.reshape(-1).tolist()


def all_gather(input: Any, comm_world: str = "worker") -> list[Any]:
    """Every worker's value, in the order of the workers."""
    return flota.util.all_gather(_plain(input), comm_world)


def print_on_rank(message: object, rank_id: int) -> None:
    """Prints the message on worker ``rank_id`` and on no other."""
    flota.util.print_on_rank(message, rank_id)


def _plain(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value
