"""A place under ``mpirun``: each rank is one worker, and starts its script once more as one server.

    mpirun -n 4 -hostfile machines python -m flota.paddle train.py     # 4 workers, 4 servers

Ranks tell each other where their servers are over mpi4py where it is installed. Without it they use the folder that
``mpirun`` keeps for its ranks, which only works while all of them are on one host.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import random
import re
import secrets
import signal
import socket
import stat
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from flota import config
from flota.errors import InvalidArgument, SystemFailure
from flota.roles import environment
from flota.roles.environment import PaddleCloudRoleMaker
from flota.roles.placement import Placement, Role, RoleMaker

RANK = "OMPI_COMM_WORLD_RANK"
SIZE = "OMPI_COMM_WORLD_SIZE"
LOCAL_SIZE = "OMPI_COMM_WORLD_LOCAL_SIZE"
FOLDER = "PMIX_SERVER_TMPDIR"
JOB = "PMIX_NAMESPACE"
HEAD = "OMPI_MCA_orte_hnp_uri"

# The process whose server this one is.
RANK_PROCESS = "FLOTA_RANK_PROCESS"

_LOOPBACK = "127.0.0.1"
# Below the range from which the kernel takes the ports of outgoing connections.
_PORTS = range(10_000, 32_768)
_SAID = 1024  # bytes of what a rank tells the others
_LOOK = 0.02  # seconds between two looks for what other ranks have written
_LAST_WAIT = 5.0  # seconds that a server has to end after its worker


def under_mpi() -> bool:
    """Whether ``mpirun`` started this process."""
    return RANK in os.environ


class MPISymmetricRoleMaker(RoleMaker):
    """A rank of an MPI job: worker ``rank``, with a server beside it. The server is a process of its own that runs the
    script from its start, so that ``if fleet.is_server()`` and ``else`` mean what they say."""

    def __init__(self) -> None:
        self._placement: Placement | None = None

    def placement(self) -> Placement:
        if self._placement is None:
            self._placement = self._find()
        return self._placement

    def _find(self) -> Placement:
        if os.environ.get(RANK_PROCESS):
            _end_with(int(os.environ[RANK_PROCESS]))
            return PaddleCloudRoleMaker().placement()
        if not under_mpi():
            raise InvalidArgument(
                "MPISymetricRoleMaker, which fleet.init() of 1.x means when it is given none, needs MPI: start the "
                "script with mpirun -n N, or pass a UserDefinedRoleMaker(…) or PaddleCloudRoleMaker()"
            )
        rank, size = int(os.environ[RANK]), int(os.environ[SIZE])
        one_host = os.environ.get(LOCAL_SIZE) == str(size)
        address = _LOOPBACK if one_host else _address()
        mine = {"server": f"{address}:{_free_port(address)}", "secret": "" if config.has_secret() else _new_secret()}
        told = _exchange(rank, size, mine, one_host=one_host)
        if not config.has_secret():
            if not told[0]["secret"]:
                raise InvalidArgument(f"rank 0 has a secret and rank {rank} has none: mpirun -x {config.SECRET} …")
            os.environ[config.SECRET] = told[0]["secret"]
        servers = tuple(str(entry["server"]) for entry in told)
        _start_server(rank, size, servers)
        return Placement(Role.WORKER, rank, size, servers)


def _new_secret() -> str:
    return secrets.token_hex(32)


def _address() -> str:
    """This host's address as the others know it: ``POD_IP``, or the one that it has towards mpirun's host."""
    if named := config.pod_ip():
        return named
    head = re.search(r"tcp://([0-9.]+)", os.environ.get(HEAD, ""))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((head[1] if head else socket.gethostname(), 9))  # nothing is sent
        except OSError as error:
            raise SystemFailure(f"this host's address is not known: {error.strerror}; set {config.POD_IP}") from error
        return str(probe.getsockname()[0])


def _free_port(address: str) -> int:
    for _ in range(100):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((address, random.choice(_PORTS)))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise SystemFailure(f"found no free port on {address} for this rank's server")


def _exchange(rank: int, size: int, mine: dict[str, str], *, one_host: bool) -> list[dict[str, Any]]:
    """What every rank says, in their order."""
    if find_spec("mpi4py") is not None:
        return _gather(import_module("mpi4py.MPI").COMM_WORLD, size, mine)
    if not one_host or not os.environ.get(FOLDER):
        raise InvalidArgument(
            "ranks on several hosts tell each other their addresses over mpi4py, which is not installed: "
            "pip install mpi4py"
        )
    return _exchange_in(_private(Path(os.environ[FOLDER]) / f"flota-{os.environ.get(JOB, '')}"), rank, size, mine)


def _gather(world: Any, size: int, mine: dict[str, str]) -> list[dict[str, Any]]:
    """As text in buffers of one size: mpi4py would pickle objects, and no code travels here."""
    said = json.dumps(mine).encode().ljust(_SAID)
    if len(said) > _SAID:
        raise InvalidArgument(f"this rank's address is too long: {mine['server']}")
    told = bytearray(_SAID * size)
    world.Allgather(said, told)
    return [json.loads(told[i * _SAID : (i + 1) * _SAID]) for i in range(size)]


def _private(folder: Path) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.stat()
    if state.st_uid != os.getuid() or stat.S_IMODE(state.st_mode) & 0o077:
        raise SystemFailure(f"{folder} may be written to by others: the job's secret cannot be kept there")
    return folder


def _exchange_in(folder: Path, rank: int, size: int, mine: dict[str, str]) -> list[dict[str, Any]]:
    draft = folder / f"draft-{rank}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(json.dumps(mine))
    draft.rename(folder / str(rank))
    end = time.monotonic() + config.default_timeout()
    while missing := [other for other in range(size) if not (folder / str(other)).exists()]:
        if time.monotonic() > end:
            raise SystemFailure(
                f"rank {rank} waited {config.default_timeout():g} s for rank {', '.join(map(str, missing))}: every "
                "rank must call fleet.init()"
            )
        time.sleep(_LOOK)
    return [json.loads((folder / str(other)).read_text()) for other in range(size)]


def _start_server(rank: int, size: int, servers: tuple[str, ...]) -> None:
    host, _, port = servers[rank].rpartition(":")
    # The server is no rank: were it to speak to mpirun under its worker's name, both would fail.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PMIX_", "OMPI_MCA_"))}
    told = {
        environment.ROLE: "PSERVER",
        environment.SERVERS: ",".join(servers),
        environment.WORKER_NUM: str(size),
        environment.HOST: host,
        environment.PORT: port,
        RANK_PROCESS: str(os.getpid()),
    }
    server = subprocess.Popen([sys.executable, *sys.orig_argv[1:]], env={**kept, **told}, stdin=subprocess.DEVNULL)
    atexit.register(_await, server)


def _await(server: subprocess.Popen[bytes]) -> None:
    """A server ends when all workers have; one that does not is left over from a job that failed."""
    for end in (server.terminate, server.kill):
        try:
            server.wait(_LAST_WAIT)
            return
        except subprocess.TimeoutExpired:
            end()
    server.wait()  # the kernel's promise


def _end_with(process: int) -> None:
    """The kernel stops this process when its worker is gone, in whatever way."""
    set_parent_death_signal = 1
    ctypes.CDLL(None, use_errno=True).prctl(set_parent_death_signal, signal.SIGTERM)
    if os.getppid() != process:
        raise SystemExit(0)  # it was gone before that
