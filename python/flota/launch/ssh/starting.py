"""What each node is told to run: flags, environment, secret and certificates."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flota import config, tls
from flota.certificates import pack_files
from flota.errors import InvalidArgument
from flota.launch.arguments import Arguments
from flota.launch.environment import asking_environment
from flota.launch.hosts import Endpoint
from flota.launch.ssh.node import Node

_DAYS = 365  # a set that is made for one job ends with it
_FOR_SERVERS = (tls.SERVER, tls.SERVER_KEY, tls.CLIENT_AUTHORITY)
_FOR_WORKERS = (tls.AUTHORITY, tls.CLIENT, tls.CLIENT_KEY)

# Flags that each node's launch gets as they were given here.
_PASSED_ON = ("durable", "metrics_host", "metrics_port", "snapshot_mb", "snapshot_seconds", "tensorboard")
_SWITCHES = ("durable_sync", "insecure", "keep_durable", "no_durable", "paddle")


@dataclass(frozen=True)
class Job:
    """What is the same for all nodes."""

    arguments: Arguments
    script: str  # from the workspace on
    servers: list[Endpoint]
    workers: list[Endpoint]
    secret: str
    certs: dict[str, str]  # PEM files by name; none: no TLS
    lost_after: float
    turn: list[str]  # hosts that take workers where their number grows, as they are in endpoints

    @property
    def beat(self) -> float:
        """Seconds between two signs of life, each way."""
        return min(2.0, self.lost_after / 8)


def check_protection(arguments: Arguments) -> None:
    """Refuses what contradicts itself, before anything is connected."""
    if arguments.certs and arguments.insecure:
        raise InvalidArgument("--certs and --insecure contradict each other: with certificates there is TLS")
    if config.has_secret():
        config.job_secret()
    if config.tls_files() and not arguments.certs and not arguments.insecure:
        raise InvalidArgument(
            f"{next(iter(config.tls_files()))} names a file of this host alone: give --certs with a set that flota "
            "certs made, which is handed to the nodes, or nothing, and one is made for this job"
        )


def job_secret() -> str:
    return config.job_secret() if config.has_secret() else secrets.token_hex(32)


def certificates(arguments: Arguments, servers: Sequence[Endpoint]) -> tuple[dict[str, str], str]:
    """The PEM files of the job, by name, and what to say of them."""
    if arguments.insecure or (not arguments.certs and config.insecure()):
        return {}, "traffic between hosts is in the clear (--insecure)"
    folder = arguments.certs or config.certs_folder()
    if folder:
        tls.server_set(folder)
        tls.client_set(folder)
        return _read(Path(folder)), f"TLS with the certificates in {folder}"
    if all(tls.is_loopback(str(endpoint)) for endpoint in servers):
        return {}, ""
    from flota.launch.certs import make_set  # with the core

    hosts = list(dict.fromkeys(endpoint.address for endpoint in servers))
    with tempfile.TemporaryDirectory(prefix="flota-certs-") as place:  # mode 0700
        made = make_set(Path(place) / "set", hosts, days=_DAYS, client=True, authority_key=False)
        return _read(made), "TLS between the hosts, with certificates made for this job (--insecure: none)"


def _read(folder: Path) -> dict[str, str]:
    names = [name for name in (*_FOR_SERVERS, *_FOR_WORKERS) if (folder / name).is_file()]
    return {name: (folder / name).read_text(encoding="ascii") for name in names}


def looking(job: Job) -> dict[str, str]:
    """The environment of one who asks the servers from the head."""
    unset = {**dict.fromkeys(config.PROTECTION, ""), config.SECRET: job.secret, **asking_environment(job.servers)}
    if job.certs:
        return {**unset, config.CERTS_TEXT: pack_files(job.certs)}
    return {**unset, config.INSECURE: "1"} if job.arguments.insecure or config.insecure() else unset


def spec(job: Job, node: Node, logs: str, note: str, mark: str) -> dict[str, Any]:
    """What ``agent.keeper.Spec`` is made of. ``logs``, ``note``: a folder and a file of the workspace; ``mark``: a file
    in ``logs``, if the head has its copies there."""
    arguments, share = job.arguments, node.share
    wanted = (*(_FOR_SERVERS if share.servers else ()), *(_FOR_WORKERS if share.takes_workers else ()))
    insecure = {config.INSECURE: "1"} if arguments.insecure or config.insecure() else {}
    return {
        "argv": _argv(job, node, logs),
        "environment": {**config.forwarded(), **insecure, **node.host.env, config.SECRET: job.secret},
        "addresses": [node.known_as],
        "logs": logs,
        "servers": share.servers,
        "workers": share.workers,
        "node": node.index,
        "note": note,
        "certs": {name: text for name, text in job.certs.items() if name in wanted},
        "timeout": arguments.timeout,
        "lost_after": job.lost_after,
        "beat": job.beat,
        "resume": arguments.resume,
        "mark": mark,
        "servers_are": asking_environment(job.servers),
    }


def _argv(job: Job, node: Node, logs: str) -> list[str]:
    arguments = job.arguments
    words = [
        f"--servers={_list(job.servers)}",
        f"--workers={_list(job.workers)}",
        *([f"--ips={','.join(job.turn)}"] if len(job.turn) > 1 else []),
        f"--log_dir={logs}",
        f"--timeout={arguments.timeout:g}",
        f"--max_restarts={arguments.max_restarts}",
    ]
    if node.share.takes_workers and (gpus := node.host.gpus or arguments.gpus):
        words.append(f"--gpus={gpus}")
    if arguments.http_port is not None:
        words.append(f"--http_port={arguments.http_port}")
    words += [f"--{name}={value}" for name in _PASSED_ON if (value := getattr(arguments, name))]
    words += [f"--{name}" for name in _SWITCHES if getattr(arguments, name)]
    return [*words, *([job.script, *arguments.training_script_args] if job.script else [])]


def _list(endpoints: Sequence[Endpoint]) -> str:
    return ",".join(map(str, endpoints))
