"""A place by the variables that launchers set."""

from __future__ import annotations

import os

from flota.errors import InvalidArgument
from flota.roles.endpoints import check_endpoints, check_worker_count, split_list
from flota.roles.placement import MAX_WORKERS, NO_HETER, LocalRoleMaker, Placement, Role, RoleMaker, refuse_collective

ROLE = "TRAINING_ROLE"
SERVERS = "PADDLE_PSERVERS_IP_PORT_LIST"
WORKER_NUM = "PADDLE_TRAINERS_NUM"
WORKER_ID = "PADDLE_TRAINER_ID"
SERVER_ID = "PADDLE_PSERVER_ID"
WORKERS = "PADDLE_TRAINER_ENDPOINTS"
HOST = "POD_IP"
PORT = "PADDLE_PORT"
HETER_WORKERS = "PADDLE_HETER_TRAINER_IP_PORT_LIST"

_ROLES = {"TRAINER": Role.WORKER, "PSERVER": Role.SERVER}


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
        refuse_collective(is_collective)

    def placement(self) -> Placement:
        if not in_a_job():
            return LocalRoleMaker().placement()
        role = _role()
        if heter := os.environ.get(HETER_WORKERS):
            raise InvalidArgument(f"{HETER_WORKERS}={heter}: {NO_HETER}")
        servers = check_endpoints(SERVERS, split_list(SERVERS, _needed(SERVERS, "every process of a job")))
        workers = check_endpoints(WORKERS, split_list(WORKERS, os.environ.get(WORKERS, "")))
        worker_num = self.count_workers(workers)
        check_worker_count(WORKERS, workers, WORKER_NUM, worker_num)
        if role is Role.WORKER:
            index = _number(WORKER_ID, _needed(WORKER_ID, "a worker"), 0, worker_num - 1)
        else:
            index = self.find_server(servers)
        return Placement(role, index, worker_num, servers, workers)

    def count_workers(self, workers: tuple[str, ...]) -> int:
        """How many there are, of whom ``workers`` may be the endpoints."""
        return _number(WORKER_NUM, _needed(WORKER_NUM, "every process of a job"), 1, MAX_WORKERS)

    def find_server(self, servers: tuple[str, ...]) -> int:
        """This server's place among ``servers``."""
        host = _needed(HOST, "a server")
        port = _number(PORT, _needed(PORT, "a server"), 1, 65535)
        me = f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
        if me not in servers:
            raise InvalidArgument(
                f"{HOST}={host} and {PORT}={port} make this server {me}, which {SERVERS}={','.join(servers)} does not "
                "name; spell it the same in both"
            )
        return servers.index(me)


class GeneralRoleMaker(PaddleCloudRoleMaker):
    """The variables of 1.x's role maker for any cluster: ``PADDLE_TRAINER_ENDPOINTS`` is enough to count the workers,
    and a server may be told its place by ``PADDLE_PSERVER_ID``."""

    def __init__(self) -> None:
        super().__init__()

    def count_workers(self, workers: tuple[str, ...]) -> int:
        if workers and not os.environ.get(WORKER_NUM):
            return len(workers)
        return super().count_workers(workers)

    def find_server(self, servers: tuple[str, ...]) -> int:
        if text := os.environ.get(SERVER_ID, "").strip():
            return _number(SERVER_ID, text, 0, len(servers) - 1)
        return super().find_server(servers)


def in_a_job() -> bool:
    """Whether the environment speaks of a job, be it a wrong one."""
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
        raise InvalidArgument(f"{ROLE}={text}: {NO_HETER}")
    if text not in _ROLES:
        raise InvalidArgument(f"{ROLE}={text}: it must be TRAINER for a worker or PSERVER for a server")
    return _ROLES[text]


def _number(name: str, text: str, low: int, high: int) -> int:
    if not (text.isascii() and text.isdigit()) or not low <= int(text) <= high:
        why = f"; {WORKER_NUM} is {high + 1}" if name == WORKER_ID else ""
        raise InvalidArgument(f"{name}={text}: it must be a whole number from {low} to {high}{why}")
    return int(text)
