"""Which of the workers this process is, by the names of collective scripts."""

from __future__ import annotations

from typing import Any

from flota.errors import InvalidArgument
from flota.fleet import fleet
from flota.roles import Placement, default_role_maker

__all__ = ["ParallelEnv", "get_rank", "get_world_size"]


def _placement() -> Placement:
    """As ``fleet.init`` found it, or would."""
    try:
        return fleet.placement
    except InvalidArgument:
        return default_role_maker().placement()


def _one_group(group: Any) -> None:
    if group is not None:
        raise InvalidArgument("there is one group, of all workers: leave group out")


def get_rank(group: Any = None) -> int:
    """The worker's number."""
    _one_group(group)
    return _placement().index


def get_world_size(group: Any = None) -> int:
    """How many workers there are."""
    _one_group(group)
    return _placement().worker_num


class ParallelEnv:
    """The same as attributes."""

    @property
    def rank(self) -> int:
        return get_rank()

    local_rank = rank

    @property
    def world_size(self) -> int:
        return get_world_size()

    nranks = world_size

    @property
    def trainer_endpoints(self) -> list[str]:
        return list(_placement().worker_endpoints)

    @property
    def current_endpoint(self) -> str:
        endpoints = self.trainer_endpoints
        return endpoints[self.rank] if self.rank < len(endpoints) else ""
