"""1.x's ``fleet``: the current one, but for whom it takes this process for when it is not told, and some calls that
2.x has elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flota import roles
from flota.errors import InvalidArgument
from flota.paddle.distributed import fleet as _current
from flota.paddle.distributed import job as _job
from flota.paddle.distributed import saving as _saving
from flota.paddle.distributed import util
from flota.paddle.distributed.role_maker import MPISymetricRoleMaker
from flota.paddle.graph.program import Program


def init(role_maker: Any = None) -> None:
    """Finds out this process's place: without a role maker, under MPI (1.x's default), or by what ``paddle.init`` or a
    launcher has said."""
    _job.init(_default() if role_maker is None else role_maker)


def _default() -> roles.RoleMaker:
    if roles.role_maker_told() is not None or roles.in_a_job():
        return roles.default_role_maker()
    if not roles.under_mpi() and roles.tasks_of_slurm() > 1:
        return roles.default_role_maker()
    return MPISymetricRoleMaker()  # which says what is missing, where there is no MPI


def split_files(files: Sequence[str]) -> list[str]:
    """The files that this worker reads: each is one worker's. All workers pass the same list in the same order."""
    return util.get_file_shard(files)


def all_reduce_worker(input: Any, output: Any) -> None:
    """Fills ``output``, of the same shape, with all workers' ``input`` summed element by element."""
    util.all_reduce_into(output, input)


def load_persistables(executor: Any, dirname: str, main_program: Program | None = None) -> None:
    """Brings back what ``save_persistables`` saved, on any number of servers. Every worker calls it."""
    if main_program is not None and main_program is not _job.trained_program():
        raise InvalidArgument("load_persistables: the job trains another program than main_program: leave it out")
    _saving.load_model(dirname)


def __getattr__(name: str) -> Any:
    return getattr(_current, name)


def __dir__() -> list[str]:
    return sorted({*dir(_current), "all_reduce_worker", "load_persistables", "split_files"})
