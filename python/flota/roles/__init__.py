"""Who am I: a worker or a server, which one, and where the others are.

A role maker answers with a ``Placement``. ``PaddleCloudRoleMaker`` and ``GeneralRoleMaker`` read the variables that
launchers set, ``UserDefinedRoleMaker`` is told, ``MPISymmetricRoleMaker`` asks the other ranks, ``SlurmRoleMaker``
counts the tasks of a step, ``PserverRoleMaker`` takes the settings of 0.10, and ``LocalRoleMaker`` needs nothing: one
process that holds the tables itself.
"""

from __future__ import annotations

from flota.roles.default import default_role_maker, role_maker_told, tell_role_maker
from flota.roles.environment import (
    GeneralRoleMaker,
    PaddleCloudRoleMaker,
    in_a_job,
)
from flota.roles.mpi import MPISymmetricRoleMaker, under_mpi
from flota.roles.placement import LocalRoleMaker, Placement, Role, RoleMaker
from flota.roles.pservers import PserverRoleMaker, PserverSettings
from flota.roles.secret import share_own_secret
from flota.roles.slurm import SlurmRoleMaker, tasks_of_slurm
from flota.roles.user import UserDefinedRoleMaker

__all__ = [
    "GeneralRoleMaker",
    "LocalRoleMaker",
    "MPISymmetricRoleMaker",
    "PaddleCloudRoleMaker",
    "Placement",
    "PserverRoleMaker",
    "PserverSettings",
    "Role",
    "RoleMaker",
    "SlurmRoleMaker",
    "UserDefinedRoleMaker",
    "default_role_maker",
    "in_a_job",
    "role_maker_told",
    "share_own_secret",
    "tasks_of_slurm",
    "tell_role_maker",
    "under_mpi",
]
