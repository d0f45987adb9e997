"""A place under ``mpirun``: each rank is one worker, and starts its script once more as one server.

    mpirun -n 4 -hostfile machines python train.py     # 4 workers, 4 servers

Ranks tell each other where their servers are. Where they are on several hosts and nobody has set a secret or
certificates, rank 0 makes some for this job, and they go the same way, which is in the clear (docs/security.md).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import secrets
import socket
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flota import certificates, config
from flota.errors import InvalidArgument, SystemFailure
from flota.roles import environment
from flota.roles.beside import end_with_mpirun, end_with_rank, is_beside_a_rank, start_beside
from flota.roles.environment import PaddleCloudRoleMaker, in_a_job
from flota.roles.placement import Placement, Role, RoleMaker
from flota.roles.ranks import Ranks, all_ranks

RANK = "OMPI_COMM_WORLD_RANK"
SIZE = "OMPI_COMM_WORLD_SIZE"
LOCAL_SIZE = "OMPI_COMM_WORLD_LOCAL_SIZE"
FOLDER = "PMIX_SERVER_TMPDIR"
HEAD = "OMPI_MCA_orte_hnp_uri"

_LOOPBACK = "127.0.0.1"
# Below the range from which the kernel takes the ports of outgoing connections.
_PORTS = range(10_000, 32_768)


def under_mpi() -> bool:
    """Whether ``mpirun`` started this process."""
    return RANK in os.environ


def ranks_of_mpi() -> int:
    """How many there are, of whom this process is one; 0 where it is none."""
    return int(os.environ.get(SIZE, "0")) if under_mpi() else 0


@dataclass(frozen=True)
class _Said:
    """What a rank tells the others."""

    host: str
    server: str  # where its server will listen
    secret: str  # how it was told the job's secret: the variable's name, or nothing
    protection: str  # the same for certificates, or for doing without


class MPISymmetricRoleMaker(RoleMaker):
    """A rank of an MPI job: worker ``rank``, with a server beside it. The server is a process of its own that runs the
    script from its start, so that ``if fleet.is_server()`` and ``else`` mean what they say. Under ``flota launch`` a
    process is what that says."""

    def __init__(self) -> None:
        self._placement: Placement | None = None

    def placement(self) -> Placement:
        if self._placement is None:
            self._placement = self._find()
        return self._placement

    def _find(self) -> Placement:
        if is_beside_a_rank():
            end_with_rank()
        if in_a_job():
            return PaddleCloudRoleMaker().placement()
        if not under_mpi():
            raise InvalidArgument(
                "MPISymetricRoleMaker, which fleet.init() of 1.x means when it is given none, needs MPI: start the "
                "script with mpirun -n N, or pass a UserDefinedRoleMaker(…) or PaddleCloudRoleMaker()"
            )
        rank, size = int(os.environ[RANK]), int(os.environ[SIZE])
        one_host = os.environ.get(LOCAL_SIZE) == str(size)
        address = _LOOPBACK if one_host else _address()
        host = f"[{address}]" if ":" in address and not address.startswith("[") else address
        ranks = all_ranks(rank, size)
        with _listening_nowhere_else(address) as port:
            mine = _Said(socket.gethostname(), f"{host}:{port}", *_protection())
            told = [_Said(**json.loads(text)) for text in ranks.gather("place", json.dumps(asdict(mine)))]
            _share(ranks, told, one_host=one_host)
        servers = tuple(said.server for said in told)
        end_with_mpirun()
        start_beside(
            {
                environment.ROLE: "PSERVER",
                environment.SERVERS: ",".join(servers),
                environment.WORKER_NUM: str(size),
                environment.HOST: host,
                environment.PORT: str(port),
            }
        )
        return Placement(Role.WORKER, rank, size, servers)


def _protection() -> tuple[str, str]:
    secret = next((name for name in (config.SECRET, config.SECRET_FILE) if config.has_secret() and _is_set(name)), "")
    insecure = config.INSECURE if config.insecure() else ""
    return secret, next((name for name in config.PROTECTION if name != config.INSECURE and _is_set(name)), insecure)


def _is_set(name: str) -> bool:
    return bool(os.environ.get(name))


def _share(ranks: Ranks, told: list[_Said], *, one_host: bool) -> None:
    """Gives all ranks rank 0's secret and certificates, for what nobody has set; refused where only some have."""
    for what, name in (("the job's secret", "secret"), ("how traffic is protected", "protection")):
        has = [rank for rank, said in enumerate(told) if getattr(said, name)]
        if has and len(has) < len(told):
            variable = getattr(told[has[0]], name)
            without = next(rank for rank in range(len(told)) if rank not in has)
            raise InvalidArgument(
                f"rank {has[0]} ({told[has[0]].host}) was told {what} by {variable}, and rank {without} "
                f"({told[without].host}) was not: mpirun -x {variable} …, or set it on every host"
            )
    settings = {}
    if ranks.rank == 0:
        if not told[0].secret:
            settings[config.SECRET] = secrets.token_hex(32)
        if not told[0].protection and not one_host:
            hosts = list(dict.fromkeys(said.server.rpartition(":")[0] for said in told))
            settings[config.CERTS_TEXT] = certificates.job_set_as_text(hosts)
    shared: dict[str, Any] = json.loads(ranks.spread("shared", json.dumps(settings)))
    if config.SECRET in shared:
        os.environ[config.SECRET] = str(shared[config.SECRET])
    if config.CERTS_TEXT in shared:
        os.environ[config.CERTS] = str(certificates.unpacked(str(shared[config.CERTS_TEXT]), within=_folder_of_job()))


def _folder_of_job() -> Path | None:
    """The folder that mpirun has for the job on this host, and takes away when that ends in whatever way; None where
    others can read it."""
    folder = os.environ.get(FOLDER, "")
    with contextlib.suppress(OSError):
        state = os.stat(folder)
        if state.st_uid == os.getuid() and not stat.S_IMODE(state.st_mode) & 0o077:
            return Path(folder)
    return None


def _address() -> str:
    """This host's address as the others know it: ``POD_IP``, or the one that it has towards mpirun's host."""
    if named := config.pod_ip():
        return named
    heads = re.findall(r"tcp://([0-9.,]+)", os.environ.get(HEAD, ""))
    for head in [*(heads[0].split(",") if heads else []), socket.gethostname(), "192.0.2.1"]:
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((head, 9))  # nothing is sent
            address = str(probe.getsockname()[0])
            if not address.startswith("127."):
                return address
    raise SystemFailure(
        f"{socket.gethostname()}: this host's address is not known; set {config.POD_IP} on it to the one by which "
        "other hosts reach it"
    )


@contextlib.contextmanager
def _listening_nowhere_else(address: str) -> Iterator[int]:
    """A port that is this rank's: until all ranks have one, no other on this host can take it."""
    for _ in range(100):
        port = random.choice(_PORTS)
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((address.strip("[]"), port))
            except OSError:
                continue
            yield port
            return
    raise SystemFailure(f"found no free port on {address} for this rank's server")
