"""1.x's ``fleet``: the current one, but for whom it takes this process for when it is not told."""

from __future__ import annotations

from typing import Any

import flota
from flota import roles
from flota.paddle.distributed import fleet as _current
from flota.paddle.distributed.role_maker import MPISymetricRoleMaker


def init(role_maker: Any = None) -> None:
    """Finds out this process's place: without a role maker, under MPI (1.x's default), or by what ``paddle.init`` or a
    launcher has said."""
    flota.init(_default() if role_maker is None else role_maker)


def _default() -> roles.RoleMaker:
    if roles.under_mpi():
        return roles.role_maker_told() or MPISymetricRoleMaker()
    if roles.role_maker_told() is not None or roles.in_a_job():
        return roles.default_role_maker()
    return MPISymetricRoleMaker()  # which says what is missing


def __getattr__(name: str) -> Any:
    return getattr(_current, name)


def __dir__() -> list[str]:
    return dir(_current)
