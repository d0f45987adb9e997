"""A job in seats, from its start to its end: as on one host, but for what a lost node means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flota.launch.durable import DurableFolder
from flota.launch.environment import environment_table, member_environment
from flota.launch.plan import Plan
from flota.launch.processes import Process
from flota.launch.ray.crew import RayCrew
from flota.launch.ray.process import RayProcess
from flota.launch.reviving import Reviver
from flota.launch.running import Launch
from flota.launch.signals import Signals
from flota.launch.view import say, show


class RayReviver(Reviver):
    """Starts again what may be, in the seats that Ray has for it."""

    def waits(self, process: Process) -> bool:
        assert isinstance(process, RayProcess)
        if process.lost_for_good:
            self._refusals[process.name] = process.lost_for_good
            return False
        return super().waits(process)

    def _comes_back(self, process: Process) -> bool:
        """What a server has kept is looked for where it would be started, which may be another node."""
        assert isinstance(process, RayProcess)
        if process.member.role == "worker":
            return True
        return bool(process.kept) and (process.holds or not self._crew.has_trained)


class RayLaunch(Launch):
    def __init__(
        self, plan: Plan, crew: RayCrew, folder: Path, signals: Signals, durable: DurableFolder | None, note: str | None
    ) -> None:
        super().__init__(plan, crew, folder, signals, durable)
        self._ray_crew = crew
        self._reviver = RayReviver(crew, durable, plan.arguments.max_restarts)
        self._note = note

    def _start(self) -> None:
        crew = self._ray_crew
        for role, processes in (("server", crew.servers), ("worker", crew.workers)):
            say(f"{len(processes)} {role}{'s' * (len(processes) > 1)}; {processes[0].name} is told:")
            show(environment_table(member_environment(self._plan, processes[0].member, "a folder of its own")) + "\n")
        for placed in crew.ray_processes:
            say(f"{placed.name} is on {placed.node}")
        say(f"the logs are {self._logs}/serverlog.* and {self._logs}/workerlog.*")
        if self._note:
            say(self._note)
        for process in crew.processes:
            if not self._signals.received:
                crew.start(process)

    def _why_fixed(self) -> str:
        return "this job's workers are in the seats that Ray has set aside for it, and there are no others"

    def _tell_failure(self, failed: Sequence[Process]) -> None:
        super()._tell_failure(failed)
        first = failed[0]
        assert isinstance(first, RayProcess)
        if first.member.role == "server" and first.was_moved and not first.holds and first.kept:
            where = "on that node's own disk" if not self._durable else f"in {self._durable.path}"
            show(
                f"flota launch: what {first.name} had kept was {where}, and is not on {first.node}. With "
                "--durable=DIR, a folder that all nodes share, a lost node costs nothing; without it, start the job "
                "anew, from the last checkpoint that the script has saved",
                error=True,
            )
