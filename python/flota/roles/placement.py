"""A process's place in its job, and what all role makers share."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass

from flota import checks
from flota.errors import InvalidArgument

MAX_WORKERS = 1 << 20
NO_HETER = "flota has no heterogeneous workers; a worker with a GPU is an ordinary one, with model.to('cuda')"


class Role(enum.IntEnum):
    """What a process of a job does. The last three have no part in a job here: role makers refuse them."""

    WORKER = 1
    SERVER = 2
    HETER_WORKER = 3
    ALL = 4
    COORDINATOR = 5


_REFUSED = {
    Role.HETER_WORKER: NO_HETER,
    Role.ALL: "a process is a worker or a server; MPISymmetricRoleMaker() makes two processes of each rank",
    Role.COORDINATOR: "flota has no federated training and so no coordinator",
}


@dataclass(frozen=True)
class Placement:
    """One process's place in its job. ``index`` counts from 0 among the processes of the same role."""

    role: Role
    index: int
    worker_num: int
    server_endpoints: tuple[str, ...]
    worker_endpoints: tuple[str, ...] = ()
    local: bool = False

    @property
    def server_num(self) -> int:
        return len(self.server_endpoints)


class RoleMaker(ABC):
    """What all role makers share. Use one of the subclasses."""

    @abstractmethod
    def placement(self) -> Placement:
        """This process's place in its job, or ``InvalidArgument`` with what is missing."""


class LocalRoleMaker(RoleMaker):
    """No job at all: one worker that holds the tables itself."""

    def placement(self) -> Placement:
        return Placement(Role.WORKER, 0, 1, (), local=True)


def check_role(role: object) -> Role:
    if not isinstance(role, Role):
        raise InvalidArgument(f"role must be Role.WORKER or Role.SERVER, not {role!r}")
    if role in _REFUSED:
        raise InvalidArgument(f"role=Role.{role.name}: {_REFUSED[role]}")
    return role


def refuse_collective(is_collective: bool) -> None:
    if checks.flag("is_collective", is_collective):
        raise InvalidArgument(
            "is_collective=True: flota trains with parameter servers only; for collective training use "
            "torch.nn.parallel.DistributedDataParallel"
        )
