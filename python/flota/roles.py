"""Who am I: a worker or a server, which one, and where the others are.

A role maker answers with a ``Placement``. ``PaddleCloudRoleMaker`` reads the variables that launchers set,
``UserDefinedRoleMaker`` is told, and ``LocalRoleMaker`` needs nothing: one process that holds the tables itself.
"""

from __future__ import annotations

import enum
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from flota import checks
from flota.errors import InvalidArgument

ROLE = "TRAINING_ROLE"
SERVERS = "PADDLE_PSERVERS_IP_PORT_LIST"
WORKER_NUM = "PADDLE_TRAINERS_NUM"
WORKER_ID = "PADDLE_TRAINER_ID"
WORKERS = "PADDLE_TRAINER_ENDPOINTS"
HOST = "POD_IP"
PORT = "PADDLE_PORT"
HETER_WORKERS = "PADDLE_HETER_TRAINER_IP_PORT_LIST"

_MAX_WORKERS = 1 << 20


class Role(enum.IntEnum):
    """What a process of a job does."""

    WORKER = 1
    SERVER = 2


_ROLES = {"TRAINER": Role.WORKER, "PSERVER": Role.SERVER}


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
        _refuse_collective(is_collective)
        if not isinstance(role, Role):
            raise InvalidArgument(f"role must be Role.WORKER or Role.SERVER, not {role!r}")
        worker_num = checks.whole("worker_num", worker_num, 1, _MAX_WORKERS)
        servers = _endpoints("server_endpoints", server_endpoints)
        if not servers:
            raise InvalidArgument(
                "server_endpoints is empty: name at least one host:port, or use LocalRoleMaker() to do without servers"
            )
        workers = _endpoints("worker_endpoints", worker_endpoints or ())
        _count_workers("worker_endpoints", workers, "worker_num", worker_num)
        peers = worker_num if role is Role.WORKER else len(servers)
        current_id = checks.whole(f"current_id of a {role.name.lower()}", current_id, 0, peers - 1)
        self._placement = Placement(role, current_id, worker_num, servers, workers)

    def placement(self) -> Placement:
        return self._placement


class PaddleCloudRoleMaker(RoleMaker):
    """The variables that ``flota launch``, Paddle's launchers and its clusters set.

    Every process has ``TRAINING_ROLE`` (``TRAINER`` or ``PSERVER``), ``PADDLE_PSERVERS_IP_PORT_LIST`` and
    ``PADDLE_TRAINERS_NUM``; a worker ``PADDLE_TRAINER_ID``; a server ``POD_IP`` and ``PADDLE_PORT``, by which it finds
    itself in the list. ``PADDLE_TRAINER_ENDPOINTS`` may be there. The ``PADDLE_GLOO_*`` variables are for a
    rendezvous that flota does not need: its workers meet at the servers.

    Where neither the role nor the list is set there is no job, and the process is local, as under Paddle: a script
    that names this role maker still runs as ``python train.py``.
    """

    def __init__(self, is_collective: bool = False) -> None:
        _refuse_collective(is_collective)

    def placement(self) -> Placement:
        if not _in_a_job():
            return LocalRoleMaker().placement()
        role = _role()
        if heter := os.environ.get(HETER_WORKERS):
            raise InvalidArgument(f"{HETER_WORKERS}={heter}: {_NO_HETER}")
        servers = _endpoints(SERVERS, _list(SERVERS, _needed(SERVERS, "every process of a job")))
        worker_num = _number(WORKER_NUM, _needed(WORKER_NUM, "every process of a job"), 1, _MAX_WORKERS)
        workers = _endpoints(WORKERS, _list(WORKERS, os.environ.get(WORKERS, "")))
        _count_workers(WORKERS, workers, WORKER_NUM, worker_num)
        if role is Role.WORKER:
            index = _number(WORKER_ID, _needed(WORKER_ID, "a worker"), 0, worker_num - 1)
        else:
            index = _server_index(servers)
        return Placement(role, index, worker_num, servers, workers)


def default_role_maker() -> RoleMaker:
    """By the environment where it speaks of a job, else local.

    The list of servers without a role is a job too, one set up wrongly: taken as local, each of its processes would
    train alone and nobody would notice.
    """
    return PaddleCloudRoleMaker() if _in_a_job() else LocalRoleMaker()


_NO_HETER = "flota has no heterogeneous workers; a worker with a GPU is an ordinary one, with model.to('cuda')"


def _refuse_collective(is_collective: bool) -> None:
    if checks.flag("is_collective", is_collective):
        raise InvalidArgument(
            "is_collective=True: flota trains with parameter servers only; for collective training use "
            "torch.nn.parallel.DistributedDataParallel"
        )


def _in_a_job() -> bool:
    return bool(os.environ.get(ROLE) or os.environ.get(SERVERS))


def _needed(name: str, who: str) -> str:
    text = os.environ.get(name, "").strip()
    if not text:
        state = "is empty" if name in os.environ else "is not set"
        raise InvalidArgument(f"{name} {state}: {who} needs it; set it, or start the script with flota launch")
    return text


def _role() -> Role:
    text = _needed(ROLE, "every process of a job")
    if text == "HETER_TRAINER":
        raise InvalidArgument(f"{ROLE}={text}: {_NO_HETER}")
    if text not in _ROLES:
        raise InvalidArgument(f"{ROLE}={text}: it must be TRAINER for a worker or PSERVER for a server")
    return _ROLES[text]


def _number(name: str, text: str, low: int, high: int) -> int:
    if not (text.isascii() and text.isdigit()) or not low <= int(text) <= high:
        why = f"; {WORKER_NUM} is {high + 1}" if name == WORKER_ID else ""
        raise InvalidArgument(f"{name}={text}: it must be a whole number from {low} to {high}{why}")
    return int(text)


def _list(name: str, text: str) -> list[str]:
    entries = [entry.strip() for entry in text.split(",")] if text.strip() else []
    if "" in entries:
        raise InvalidArgument(f"{name}={text}: an entry is empty; write host:port,host:port without a comma too many")
    return entries


def _endpoints(name: str, entries: Sequence[str]) -> tuple[str, ...]:
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise InvalidArgument(f"{name} must be a list such as ['127.0.0.1:6001'], not {entries!r}")
    endpoints = tuple(_endpoint(name, entry) for entry in entries)
    for place, endpoint in enumerate(endpoints):
        if endpoint in endpoints[:place]:
            raise InvalidArgument(f"{name} names {endpoint} twice; each process has a host:port of its own")
    return endpoints


def _endpoint(name: str, entry: object) -> str:
    """host:port with the port in its shortest spelling; an IPv6 address stands in brackets."""
    if isinstance(entry, str):
        host, _, port = entry.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]") and len(host) > 2
        well_formed = bool(host) and not any(c.isspace() or c in ",/" for c in host) and (bracketed or ":" not in host)
        if well_formed and port.isascii() and port.isdigit() and 1 <= int(port) <= 65535:
            return f"{host}:{int(port)}"
    raise InvalidArgument(f"{name}: {entry!r} is not host:port with a port from 1 to 65535, such as 127.0.0.1:6001")


def _count_workers(name: str, workers: tuple[str, ...], number_name: str, worker_num: int) -> None:
    if workers and len(workers) != worker_num:
        raise InvalidArgument(
            f"{name} names {len(workers)} workers and {number_name} is {worker_num}; make them agree, or leave "
            f"{name} out: workers listen nowhere"
        )


def _server_index(servers: tuple[str, ...]) -> int:
    host = _needed(HOST, "a server")
    port = _number(PORT, _needed(PORT, "a server"), 1, 65535)
    me = f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
    if me not in servers:
        raise InvalidArgument(
            f"{HOST}={host} and {PORT}={port} make this server {me}, which {SERVERS}={','.join(servers)} does not "
            "name; spell it the same in both"
        )
    return servers.index(me)
