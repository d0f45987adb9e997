"""Which job somebody wants to look at: that of a launch on this host, or of servers that are named.

flota top                                        # of the launch whose logs are in log/
flota top --log_dir runs/ads                     # of another one
flota top --servers node1:6170,node2:6170        # from any machine that has the job's secret
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flota import config
from flota.errors import FlotaError, InvalidArgument, SystemFailure
from flota.launch.control import ask
from flota.launch.hosts import split
from flota.observe.looking import Looker

_TIMEOUT = 5.0  # seconds that a launch may take to answer


@dataclass(frozen=True)
class Attached:
    """A job to look at; this process has what it takes to ask its servers."""

    title: str
    servers: tuple[str, ...]
    log_dir: Path | None = None  # of the launch on this host; None: there is none
    durable: Path | None = None  # what its servers keep

    def looker(self, timeout: float = 2.0) -> Looker:
        return Looker(self.servers, timeout=timeout)

    def processes(self) -> list[dict[str, Any]]:
        """How its launch sees its processes: ``launch.rows.Row`` as dictionaries; none where no launch of this host
        has them, or it is over."""
        if self.log_dir is None:
            return []
        try:
            return list(_ask(self.log_dir, "processes").get("processes", []))
        except FlotaError:
            return []


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log_dir", "--log-dir", default="", metavar="DIR", help="that of the launch (default: log), in its folder"
    )
    parser.add_argument(
        "--servers", default="", metavar="LIST",
        help=f"host:port,… of all servers, from any machine; the secret comes from {config.SECRET} or "
        f"{config.SECRET_FILE}, certificates from {config.CERTS} or FLOTA_TLS_*",
    )  # fmt: skip


def attach(arguments: argparse.Namespace) -> Attached:
    """The job that the flags of ``add_arguments`` mean. Once a process: it takes what protects that job for its own."""
    if arguments.servers:
        if arguments.log_dir:
            raise InvalidArgument("--servers and --log_dir contradict each other: one of them says which job is meant")
        config.job_secret()
        servers = split(arguments.servers)
        return Attached(servers[0] if len(servers) == 1 else f"{servers[0]}, …", tuple(servers))
    log_dir = Path(arguments.log_dir or "log")
    found = _ask(log_dir, "attach")
    try:
        attached = Attached(
            str(found["title"]), tuple(map(str, found["servers"])), Path(found["log_dir"]),
            Path(found["durable"]) if found["durable"] else None,
        )  # fmt: skip
        environment = {str(name): str(value) for name, value in found["environment"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise SystemFailure(f"the launch says nothing of its servers ({error}): it is of another version") from error
    config.take_looking_environment(environment)
    return attached


def _ask(log_dir: Path, name: str) -> dict[str, Any]:
    answers: Iterator[dict[str, Any]] = ask(log_dir, {name: True}, _TIMEOUT)
    for answer in answers:
        if answer.get("done"):
            return answer
        raise SystemFailure(str(answer.get("end") or answer.get("say")))
    raise SystemFailure("the launch ended meanwhile")
