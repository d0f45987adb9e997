"""Role makers: who a process is in its job. They are flota's own, with the questions that scripts ask them.

1.x asks ``role.worker_index()``, 2.x ``role._worker_index()``: both are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flota
from flota import checks, roles
from flota.errors import InvalidArgument
from flota.roles import Placement, Role

__all__ = [
    "GeneralRoleMaker",
    "MPISymetricRoleMaker",
    "MPISymmetricRoleMaker",
    "PaddleCloudRoleMaker",
    "Role",
    "RoleMakerBase",
    "UserDefinedRoleMaker",
]

# Where and how workers of the reference find each other before they can speak. Here they meet at the servers, always,
# so what these ask for is there.
_RENDEZVOUS = frozenset({"dfs_name", "dfs_path", "dfs_ugi", "hdfs_name", "hdfs_ugi", "http_ip_port", "path", "prefix"})
_REFUSED = {
    "init_timeout_seconds": "set FLOTA_TIMEOUT to the seconds that workers and servers may wait for each other",
    "run_timeout_seconds": "set FLOTA_TIMEOUT to the seconds that workers and servers may wait for each other",
    "use_ps_gpu": "tables live in the servers' memory",
}


class RoleMakerBase(roles.RoleMaker):
    """The questions that scripts ask a role maker."""

    def generate_role(self) -> None:
        """Finds out who this process is, or says what is missing."""
        self.placement()

    def is_worker(self) -> bool:
        return self.placement().role is Role.WORKER

    def is_server(self) -> bool:
        return self.placement().role is Role.SERVER

    def is_first_worker(self) -> bool:
        return self.is_worker() and self.placement().index == 0

    def worker_num(self) -> int:
        return self.placement().worker_num

    def server_num(self) -> int:
        return self.placement().server_num

    def worker_index(self) -> int:
        return self.placement().index if self.is_worker() else -1

    def server_index(self) -> int:
        return self.placement().index if self.is_server() else -1

    def role_id(self) -> int:
        return self.placement().index

    def get_trainer_endpoints(self) -> list[str]:
        return list(self.placement().worker_endpoints)

    def get_pserver_endpoints(self) -> list[str]:
        return list(self.placement().server_endpoints)

    def to_string(self) -> str:
        place = self.placement()
        return (
            f"role: {int(place.role)}, current_id: {place.index}, worker_endpoints: {list(place.worker_endpoints)}, "
            f"server_endpoints: {list(place.server_endpoints)}"
        )

    def barrier_worker(self) -> None:
        """Waits until all workers are here; after ``init_worker``."""
        flota.barrier_worker()

    def barrier_all(self) -> None:
        raise InvalidArgument("barrier_all: servers answer workers and wait for nobody; use barrier_worker()")

    def all_gather(self, input: Any) -> list[Any]:
        """Every worker's value, in the order of the workers."""
        return list(flota.util.all_gather(input))

    def all_reduce_worker(self, input: Any, output: Any, mode: Any = "sum") -> None:
        """Fills ``output`` with all workers' ``input``, element by element summed, or the least or greatest."""
        from flota.paddle.distributed.util import all_reduce_into  # with torch, which asking who one is does without

        all_reduce_into(output, input, mode)

    # --- 2.x ---

    _generate_role = generate_role
    _is_worker = is_worker
    _is_server = is_server
    _is_first_worker = is_first_worker
    _worker_num = worker_num
    _server_num = server_num
    _worker_index = worker_index
    _server_index = server_index
    _role_id = role_id
    _get_trainer_endpoints = get_trainer_endpoints
    _get_pserver_endpoints = get_pserver_endpoints

    def _is_non_distributed(self) -> bool:
        return self.placement().local

    def _is_heter_worker(self) -> bool:
        return False

    def _heter_worker_num(self) -> int:
        return 0

    def _node_num(self) -> int:
        """Hosts that workers are on; where nobody has said, one."""
        return len({endpoint.rpartition(":")[0] for endpoint in self.placement().worker_endpoints}) or 1

    def _barrier(self, comm_world: str = "worker") -> None:
        _check_world(comm_world)
        self.barrier_worker()

    def _all_gather(self, input: Any, comm_world: str = "worker") -> list[Any]:
        _check_world(comm_world)
        return self.all_gather(input)

    def _all_reduce(self, input: Any, mode: Any = "sum", comm_world: str = "worker") -> Any:
        _check_world(comm_world)
        return flota.all_reduce(input, mode)


class PaddleCloudRoleMaker(RoleMakerBase, roles.PaddleCloudRoleMaker):
    """The variables that launchers set."""

    def __init__(self, is_collective: bool = False, **settings: Any) -> None:
        _check_settings("PaddleCloudRoleMaker", settings)
        super().__init__(is_collective)


class GeneralRoleMaker(RoleMakerBase, roles.GeneralRoleMaker):
    """1.x's variables for any cluster."""

    def __init__(self, **settings: Any) -> None:
        _check_settings("GeneralRoleMaker", settings)
        super().__init__()


class MPISymmetricRoleMaker(RoleMakerBase, roles.MPISymmetricRoleMaker):
    """A rank of an MPI job: one worker, and one server beside it."""


MPISymetricRoleMaker = MPISymmetricRoleMaker  # so 1.x spells it


class UserDefinedRoleMaker(RoleMakerBase):
    """A place that the script knows.

    1.x: ``UserDefinedRoleMaker(current_id, role, worker_num, server_endpoints)``. 2.x has ``is_collective`` and
    ``init_gloo`` first, the rest by name, and counts the workers by ``worker_endpoints`` without ``worker_num``.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        names: Sequence[str] = ("current_id", "role", "worker_num", "server_endpoints")
        if arguments and isinstance(arguments[0], bool):
            names = ("is_collective", "init_gloo")
        if len(arguments) > len(names):
            raise InvalidArgument(f"UserDefinedRoleMaker takes {', '.join(names)}; give the rest by name")
        for name, value in zip(names, arguments, strict=False):
            if settings.setdefault(name, value) is not value:
                raise InvalidArgument(f"UserDefinedRoleMaker was given {name} twice")
        known = {"current_id": 0, "role": Role.WORKER, "worker_num": 0, "server_endpoints": (), "worker_endpoints": ()}
        given = {name: settings.pop(name, default) for name, default in known.items()}
        is_collective = settings.pop("is_collective", False)
        _check_settings("UserDefinedRoleMaker", settings, known)
        if not given["worker_num"] and given["worker_endpoints"]:
            given["worker_num"] = len(given["worker_endpoints"])
        if (
            isinstance(given["role"], int)
            and not isinstance(given["role"], (bool, Role))
            and given["role"] in list(Role)
        ):
            given["role"] = Role(given["role"])  # in the reference these are plain numbers
        self._maker = roles.UserDefinedRoleMaker(**given, is_collective=is_collective)

    def placement(self) -> Placement:
        return self._maker.placement()


def _check_settings(owner: str, settings: dict[str, Any], known: Any = ()) -> None:
    for name, value in settings.items():
        if name in _REFUSED and value:
            raise InvalidArgument(f"{owner}: {name}={value!r} has no effect: {_REFUSED[name]}")
        if name in ("init_gloo", "use_metric"):
            checks.flag(name, value)  # workers meet and count together in any case
        elif name not in _RENDEZVOUS and name not in _REFUSED:
            raise checks.unknown(owner, name, {*known, *_RENDEZVOUS, "init_gloo", "is_collective"})


def _check_world(comm_world: str) -> None:
    if comm_world != "worker":
        raise InvalidArgument(f"comm_world={comm_world!r}: servers answer workers and wait for nobody; use 'worker'")
