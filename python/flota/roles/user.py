"""A place that the script itself knows."""

from __future__ import annotations

from collections.abc import Sequence

from flota import checks
from flota.errors import InvalidArgument
from flota.roles.endpoints import check_endpoints, check_worker_count
from flota.roles.placement import MAX_WORKERS, Placement, Role, RoleMaker, check_role, refuse_collective


class UserDefinedRoleMaker(RoleMaker):
    """A place in the job that the script itself knows.

    ``current_id`` counts from 0 among the workers or among the servers. Workers listen nowhere, so
    ``worker_endpoints`` may be left out; what is given must name each of them.
    """

    def __init__(
        self,
        current_id: int,
        role: Role,
        worker_num: int,
        server_endpoints: Sequence[str],
        worker_endpoints: Sequence[str] | None = None,
        *,
        is_collective: bool = False,
    ) -> None:
        refuse_collective(is_collective)
        role = check_role(role)
        worker_num = checks.whole("worker_num", worker_num, 1, MAX_WORKERS)
        servers = check_endpoints("server_endpoints", server_endpoints)
        if not servers:
            raise InvalidArgument(
                "server_endpoints is empty: name at least one host:port, or use LocalRoleMaker() to do without servers"
            )
        workers = check_endpoints("worker_endpoints", worker_endpoints or ())
        check_worker_count("worker_endpoints", workers, "worker_num", worker_num)
        peers = worker_num if role is Role.WORKER else len(servers)
        current_id = checks.whole(f"current_id of a {role.name.lower()}", current_id, 0, peers - 1)
        self._placement = Placement(role, current_id, worker_num, servers, workers)

    def placement(self) -> Placement:
        return self._placement
