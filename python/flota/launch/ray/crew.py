"""The processes of a job in their seats: how one is started, and how all learn where a server is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from flota import config
from flota.launch.arguments import Arguments
from flota.launch.crew import Crew
from flota.launch.environment import durable_environment, member_environment
from flota.launch.hosts import Endpoint
from flota.launch.plan import Member, Plan
from flota.launch.processes import Process
from flota.launch.ray import cluster
from flota.launch.ray.keeping import Keeping
from flota.launch.ray.placing import Taken, check_seats, with_workers
from flota.launch.ray.process import RayProcess
from flota.launch.ray.protection import Protection
from flota.launch.ray.seats import Place
from flota.launch.ray.settings import Settings
from flota.launch.saying import say
from flota.launch.scaling import names

# Ray takes up to a minute to give up a node that is silent: nobody shall give up before that, and before what was
# there has begun elsewhere.
TIMEOUT = "150"

_NO_PLACE_AFTER = 5.0  # seconds until whoever waits for a new worker is told that Ray looks for a place for it


class RayCrew(Crew):
    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        folder: Path,
        place: Place,
        taken: Sequence[Taken],
        keeping: Keeping,
        protection: Protection,
    ) -> None:
        """``folder``: of this launch alone. ``taken``: a seat of the place for each of the plan's members, in order."""
        self.plan = plan
        self._settings = settings
        self._folder = folder
        self._place = place
        self.tell: Callable[[str], None] = say  # to whoever waits for a worker
        self._kept = keeping.folder
        self._protection = protection
        super().__init__(plan, folder / "report", keeping.restarts)
        for process, (seat, hello) in zip(self.ray_processes, taken, strict=True):
            process.seat = seat
            process.sit(hello, moved=False)
        self._write_endpoints()

    def _make(self, member: Member, log: Path, starts_before: int) -> Process:
        is_server = member.role == "server"
        return RayProcess(
            member,
            log,
            starts_before,
            asks=self._settings.server if is_server else self._settings.worker,
            kept=f"{self._kept}/server-{member.index}" if is_server and self._kept else "",
            wait=self._settings.wait,
            check=lambda name, seat, hello: check_seats([name], [(seat, hello)], self._settings),
            endpoints=lambda: self._lines,
            take_report=lambda report, age: self.progress.take(report, age),
            is_confirmed=lambda: not self.training(),
        )

    @property
    def ray_processes(self) -> list[RayProcess]:
        return [process for process in self.processes if isinstance(process, RayProcess)]

    # --- workers that come and go ---

    def resize(self, workers: int) -> Plan:
        """The plan of the job with so many workers from here on."""
        self.plan = with_workers(self.plan, workers)
        return self.plan

    def seek(self, process: RayProcess) -> None:
        """Asks for a seat for a worker that has none; it is started when that is somewhere."""
        process.seek(self._place.seek(process.member.index))

    def share_out(self) -> None:
        """Of several that wait for a seat, the lowest get what is found: the job goes on without the others."""
        seeking = [process for process in self.ray_processes if process.sought]
        pairs = [(one, one.sought) for one in seeking if one.sought and one.sought.for_any]
        pairs.sort(key=lambda pair: pair[0].member.index)
        found = sorted([sought for _, sought in pairs], key=lambda sought: not sought.has_answered)
        for (process, before), sought in zip(pairs, found, strict=True):
            if before is not sought:
                process.seek(sought)
        self._tell_of_waiting([one for one in seeking if one.sought and one.sought.waited > _NO_PLACE_AFTER])

    def _tell_of_waiting(self, seeking: Sequence[RayProcess]) -> None:
        new = [process for process in seeking if process.sought and not process.sought.told]
        for process in new:
            assert process.sought is not None
            process.sought.told = True
        if new:
            who = names(process.member.index for process in new)
            self.tell(
                f"Ray looks for places for {who}, {cluster.resources_text(self._settings.worker)} for each; free is: "
                f"{cluster.what_there_is()}; waiting up to {self._settings.wait:g} s"
            )

    def give_back(self, process: RayProcess) -> None:
        """Ends the seat of a worker that is not the job's any more, if it has one."""
        if (seat := process.leave_seat()) is not None:
            self._place.give_back(seat)

    # --- a start ---

    def start(self, process: Process) -> None:
        assert isinstance(process, RayProcess)
        if process.moved:
            self._settle(process)
        role, settings = process.member.role, self._settings
        environment = self._environment(process)
        self.environments[process.name] = self.environment_here(process)
        runner = ["-m", "flota.paddle"] if self.plan.arguments.paddle else []
        process.begin(
            {
                "command": ["-u", *runner, settings.script, *self.plan.arguments.training_script_args],
                "environment": {**environment, **self._protection.environment},
                "files": self._protection.files(role, process.member.endpoint.address),
                "folder": settings.workspace,  # nothing: where Ray has put what it was sent
                "endpoints": self._lines,
            }
        )

    def environment_here(self, process: Process) -> dict[str, str]:
        """What a process of this launch itself is told that speaks with servers for this one."""
        return {**self._environment(process), **self._protection.environment_here, **self._endpoints_here}

    def _environment(self, process: Process) -> dict[str, str]:
        arguments: Arguments = self.plan.arguments
        asked = self._settings.server if process.member.role == "server" else self._settings.worker
        kept = Path(self._kept) if self._kept else None
        return {
            **member_environment(self.plan, process.member, ""),
            config.TIMEOUT: TIMEOUT,
            config.THREADS: str(max(1, int(asked.get("CPU", 1)))),
            **config.forwarded(),
            **({"FLAGS_selected_gpus": "0"} if asked.get("GPU", 0) >= 1 else {}),  # Ray shows it no others
            config.DURABLE_DIR: "",
            **durable_environment(arguments, process.member, kept),
            config.RESTARTS: str(process.next_restarts),
        }

    def _settle(self, process: RayProcess) -> None:
        """Finds a port for a process that is to start in another place than before, or in its first, and tells all
        where a server is."""
        assert process.node is not None
        taken = [endpoint.port for endpoint in [*self.plan.servers, *self.plan.workers, self.plan.rendezvous]]
        port = cluster.ask(process.seat.free_ports.remote(1, taken))[0]
        endpoint = Endpoint(cluster.bracketed(process.node.address), port)
        process.member = replace(process.member, endpoint=endpoint)
        is_server = process.member.role == "server"
        (self.plan.servers if is_server else self.plan.workers)[process.member.index] = endpoint
        if process.was_moved:
            say(f"{process.name} is on {process.node} now" + (f", at {endpoint}" if is_server else ""))
        else:
            self.tell(f"{process.name} is on {process.node}")
        if is_server:
            self._write_endpoints()

    # --- where the servers are ---

    @property
    def _lines(self) -> list[str]:
        """As it is now; the seats of processes that run are told with each question when it has changed."""
        return [str(endpoint) for endpoint in self.plan.servers]

    @property
    def _endpoints_here(self) -> dict[str, str]:
        return {config.ENDPOINTS_FILE: str(self._folder / "endpoints")}

    def _write_endpoints(self) -> None:
        """For this launch's own processes, as the keepers do for theirs."""
        draft = self._folder / "endpoints.new"
        draft.write_text("".join(f"{line}\n" for line in self._lines))
        draft.replace(self._folder / "endpoints")
