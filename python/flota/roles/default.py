"""Who a process is when ``init()`` is not told."""

from __future__ import annotations

from flota.errors import InvalidArgument
from flota.roles.beside import is_beside_a_rank
from flota.roles.environment import ROLE, PaddleCloudRoleMaker, in_a_job
from flota.roles.mpi import MPISymmetricRoleMaker, ranks_of_mpi, under_mpi
from flota.roles.placement import LocalRoleMaker, RoleMaker
from flota.roles.slurm import SlurmRoleMaker, tasks_of_slurm

_told: RoleMaker | None = None


def tell_role_maker(role_maker: RoleMaker | None) -> None:
    """From here on this is the one that ``init()`` takes when it is given none; None: nobody has said."""
    global _told
    _told = role_maker


def role_maker_told() -> RoleMaker | None:
    """The one that was told. A launcher's environment beside it would be a second answer."""
    if _told is not None and in_a_job():
        raise InvalidArgument(
            f"paddle.init() says who this process is, and so does the environment ({ROLE} and its like): start the "
            "script without a launcher, or leave the job's settings out of paddle.init()"
        )
    return _told


def default_role_maker() -> RoleMaker:
    """What was told, else by the environment where it speaks of a job, else local.

    A launcher's word counts most: it may have been started by mpirun itself, and its processes are no ranks. The list
    of servers without a role is a job too, one set up wrongly: taken as local, each of its processes would train alone
    and nobody would notice. mpirun or srun around a single process is no job: it is run for something else. mpirun
    within Slurm is what started this process, so it counts before that.
    """
    if told := role_maker_told():
        return told
    if is_beside_a_rank():
        return MPISymmetricRoleMaker()
    if in_a_job():
        return PaddleCloudRoleMaker()
    if under_mpi():
        return MPISymmetricRoleMaker() if ranks_of_mpi() > 1 else LocalRoleMaker()
    return SlurmRoleMaker() if tasks_of_slurm() > 1 else LocalRoleMaker()
