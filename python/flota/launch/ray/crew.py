"""The processes of a job in their seats: how one is started, and how all learn where a server is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flota import config
from flota.launch.arguments import Arguments
from flota.launch.crew import Crew
from flota.launch.environment import durable_environment, member_environment
from flota.launch.hosts import Endpoint
from flota.launch.plan import Member, Plan
from flota.launch.processes import Process
from flota.launch.ray import cluster
from flota.launch.ray.keeping import Keeping
from flota.launch.ray.process import RayProcess
from flota.launch.ray.protection import Protection
from flota.launch.ray.settings import Settings
from flota.launch.view import say

# Ray takes up to a minute to give up a node that is silent: nobody shall give up before that, and before what was
# there has begun elsewhere.
TIMEOUT = "150"


class RayCrew(Crew):
    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        folder: Path,
        seats: Sequence[tuple[Any, Mapping[str, Any]]],
        keeping: Keeping,
        protection: Protection,
    ) -> None:
        """``folder``: of this launch alone. ``seats``: in the order of the plan's members, with what they say of
        themselves."""
        self._plan = plan
        self._settings = settings
        self._folder = folder
        self._seats = iter(seats)
        self._kept = keeping.folder
        self._protection = protection
        super().__init__(plan, folder / "report", None, keeping.restarts)
        self.ray_processes = [process for process in self.processes if isinstance(process, RayProcess)]
        self._write_endpoints()

    def _make(self, member: Member, log: Path, starts_before: int) -> Process:
        seat, hello = next(self._seats)
        is_server = member.role == "server"
        return RayProcess(
            member,
            log,
            starts_before,
            seat,
            hello,
            asks=self._settings.server if is_server else self._settings.worker,
            kept=f"{self._kept}/server-{member.index}" if is_server and self._kept else "",
            wait=self._settings.wait,
            endpoints=lambda: self._lines,
            take_report=lambda report, age: self.progress.take(report, age),
            is_confirmed=lambda: not self.training(),
        )

    def start(self, process: Process) -> None:
        assert isinstance(process, RayProcess)
        if process.moved:
            self._settle(process)
        role, settings = process.member.role, self._settings
        environment = self._environment(process)
        self.environments[process.name] = {**environment, **self._protection.environment_here, **self._endpoints_here}
        runner = ["-m", "flota.paddle"] if self._plan.arguments.paddle else []
        process.begin(
            {
                "command": ["-u", *runner, settings.script, *self._plan.arguments.training_script_args],
                "environment": {**environment, **self._protection.environment},
                "files": self._protection.files(role, process.member.endpoint.address),
                "folder": settings.workspace,  # nothing: where Ray has put what it was sent
                "endpoints": self._lines,
            }
        )

    def _environment(self, process: RayProcess) -> dict[str, str]:
        arguments: Arguments = self._plan.arguments
        asked = self._settings.server if process.member.role == "server" else self._settings.worker
        kept = Path(self._kept) if self._kept else None
        return {
            **member_environment(self._plan, process.member, ""),
            config.TIMEOUT: TIMEOUT,
            config.THREADS: str(max(1, int(asked.get("CPU", 1)))),
            **config.forwarded(),
            **({"FLAGS_selected_gpus": "0"} if asked.get("GPU", 0) >= 1 else {}),  # Ray shows it no others
            config.DURABLE_DIR: "",
            **durable_environment(arguments, process.member, kept),
            config.RESTARTS: str(process.next_restarts),
        }

    def _settle(self, process: RayProcess) -> None:
        """Finds a port for a process that is to start in another place than before, and tells all where a server is."""
        taken = [endpoint.port for endpoint in [*self._plan.servers, *self._plan.workers, self._plan.rendezvous]]
        port = cluster.ask(process.seat.free_ports.remote(1, taken))[0]
        endpoint = Endpoint(cluster.bracketed(process.node.address), port)
        process.member = replace(process.member, endpoint=endpoint)
        is_server = process.member.role == "server"
        (self._plan.servers if is_server else self._plan.workers)[process.member.index] = endpoint
        say(f"{process.name} is on {process.node} now" + (f", at {endpoint}" if is_server else ""))
        if is_server:
            self._write_endpoints()

    # --- where the servers are ---

    @property
    def _lines(self) -> list[str]:
        """As it is now; the seats of processes that run are told with each question when it has changed."""
        return [str(endpoint) for endpoint in self._plan.servers]

    @property
    def _endpoints_here(self) -> dict[str, str]:
        return {config.ENDPOINTS_FILE: str(self._folder / "endpoints")}

    def _write_endpoints(self) -> None:
        """For this launch's own processes, as the keepers do for theirs."""
        draft = self._folder / "endpoints.new"
        draft.write_text("".join(f"{line}\n" for line in self._lines))
        draft.replace(self._folder / "endpoints")
