"""Where a job's numbers go that is launched: Prometheus's ports, one a process, and a folder for TensorBoard.

With ``--metrics_port P`` the launch itself is at P, server i at P + 1 + i, and worker i after all servers, counted over
the whole job: which host a process is on, and whether others come and go, changes no other's port.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flota import config
from flota.errors import FlotaError, InvalidArgument
from flota.health import Answer, HealthPort
from flota.launch.arguments import Arguments
from flota.launch.hosts import Endpoint, check_free
from flota.launch.plan import Member, Plan
from flota.launch.processes import Process
from flota.launch.saying import say, tell
from flota.prometheus.page import PATH, open_port, page_of
from flota.tensorboard import check_installed

if TYPE_CHECKING:
    from flota.prometheus.sheet import Sheet

TARGETS = "/targets"
_LAST_PORT = 65535
_ANYWHERE = ("0.0.0.0", "::")


def metrics_port(arguments: Arguments, servers: int, member: Member) -> int:
    """Requires: ports are asked for."""
    assert arguments.metrics_port is not None
    return arguments.metrics_port + 1 + member.index + (servers if member.role == "worker" else 0)


def outlets_environment(plan: Plan, member: Member) -> dict[str, str]:
    """What a process is told of them."""
    arguments, found = plan.arguments, {}
    if arguments.metrics_port is not None:
        found[config.METRICS_PORT] = str(metrics_port(arguments, len(plan.servers), member))
        found[config.METRICS_HOST] = _host(arguments)
    if arguments.tensorboard and member.role == "worker":
        found[config.TENSORBOARD] = os.path.abspath(arguments.tensorboard)
    return found


def check_outlets(plan: Plan) -> None:
    """Refuses what the processes of this host could not have, before any is started."""
    arguments = plan.arguments
    if arguments.tensorboard:
        named = f"--tensorboard={arguments.tensorboard}"
        if "://" in arguments.tensorboard:
            raise InvalidArgument(f"{named}: workers write into a folder of their host; name one")
        check_installed(named)
        if Path(arguments.tensorboard).exists() and not Path(arguments.tensorboard).is_dir():
            raise InvalidArgument(f"{named}: it is there, and no folder")
    first = arguments.metrics_port
    if first is None:
        return
    last = first + len(plan.servers) + len(plan.workers)
    if last > _LAST_PORT:
        raise InvalidArgument(f"--metrics_port={first}: the job's processes need ports up to {last}")
    taken = {str(endpoint): endpoint.port for endpoint in [*plan.servers, *plan.workers]}
    for endpoint, port in taken.items():
        if first <= port <= last:
            raise InvalidArgument(f"--metrics_port={first}: ports {first} to {last}, and {endpoint} is of the job")
    for member in plan.members:
        port = metrics_port(arguments, len(plan.servers), member)
        check_free(f"the metrics port of {member.name}", Endpoint(_host(arguments), port))


class LaunchPage:
    """This launch's own port: how its processes are, and where Prometheus finds them (``/targets``).

    Without a thread, since a launch forks: it is to be registered with a selector and called when that wakes.
    """

    def __init__(self, plan: Plan, processes: Callable[[], Sequence[Process]], *, alone: bool) -> None:
        """``alone``: this command is the only one of flota on this host; else another may have the port already."""
        self._plan = plan
        self._processes = processes
        self.port: HealthPort | None = None
        if plan.arguments.metrics_port is None:
            return
        pages = {PATH: page_of("launch", 0, self._fill), TARGETS: self._targets}
        try:
            self.port = open_port(_host(plan.arguments), plan.arguments.metrics_port, pages, threaded=False)
        except FlotaError as error:
            if alone:
                raise
            tell(f"nobody is told how this launch itself does: {error}")
            return
        self.port.ready = True

    def tell(self) -> None:
        """Says where it all is."""
        arguments = self._plan.arguments
        if self.port is not None:
            say(
                f"metrics: http://{_bracketed(_host(arguments))}:{self.port.port}{PATH} of this launch, servers and "
                f"workers at the ports after it; {TARGETS} lists them",
                "metrics", port=self.port.port,
            )  # fmt: skip
        if arguments.tensorboard:
            say(f"TensorBoard: tensorboard --logdir {arguments.tensorboard}", "tensorboard")

    def turn(self) -> None:
        if self.port is not None:
            self.port.turn()

    def close(self) -> None:
        if self.port is not None:
            self.port.close()
            self.port = None

    def _fill(self, sheet: Sheet) -> None:
        for process in self._processes():
            sheet.add("flota_launch_process_up", process.running, process.name)
            sheet.add("flota_launch_process_restarts_total", max(0, process.starts - 1), process.name)

    def _targets(self) -> Answer:
        """As Prometheus's http_sd_config reads it."""
        arguments = self._plan.arguments
        host = _host(arguments)
        if host in _ANYWHERE:
            host = min(self._plan.here, default=host)
        there = [process.member for process in self._processes() if process.running or process.waiting]
        ports = [arguments.metrics_port, *(metrics_port(arguments, len(self._plan.servers), m) for m in there)]
        found = [{"targets": [f"{_bracketed(host)}:{port}" for port in ports], "labels": {}}]
        return Answer(200, json.dumps(found) + "\n", "application/json")


def _host(arguments: Arguments) -> str:
    return arguments.metrics_host.strip("[]") or config.metrics_host()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
