"""A job in seats, from its start to its end: as on one host, but for what a lost node means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from flota.launch.durable import DurableFolder
from flota.launch.environment import environment_table, member_environment
from flota.launch.plan import Plan
from flota.launch.processes import Process
from flota.launch.ray.crew import RayCrew
from flota.launch.ray.process import RayProcess
from flota.launch.ray.seats import BESIDE
from flota.launch.ray.settings import Settings
from flota.launch.reviving import Reviver
from flota.launch.running import Launch
from flota.launch.saying import fail, say, show_table, tell
from flota.launch.scaling import workers_text
from flota.launch.signals import Signals


class RayReviver(Reviver):
    """Starts again what may be, in the seats that Ray has for it. One that has none gets one first."""

    def __init__(self, crew: RayCrew, durable: DurableFolder | None, most: int) -> None:
        super().__init__(crew, durable, most)
        self._ray_crew = crew

    def start_what_is_due(self) -> None:
        for process in self._crew.workers:
            assert isinstance(process, RayProcess)
            if process.member.index >= len(self._ray_crew.plan.workers) and not (process.running or process.waiting):
                self._ray_crew.give_back(process)
        self._ray_crew.share_out()
        super().start_what_is_due()

    def start_new(self, worker: Process) -> None:
        assert isinstance(worker, RayProcess)
        if worker.lost_for_good or worker.sought:
            self._ray_crew.give_back(worker)
        super().start_new(worker)

    def _start_again(self, process: Process) -> None:
        assert isinstance(process, RayProcess)
        if process.seat is None:
            self._ray_crew.seek(process)
        else:
            super()._start_again(process)

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
        self,
        plan: Plan,
        crew: RayCrew,
        folder: Path,
        signals: Signals,
        durable: DurableFolder | None,
        settings: Settings,
        note: str | None,
    ) -> None:
        self._ray_crew = crew
        self._settings = settings
        self._note = note
        super().__init__(plan, crew, folder, signals, durable)
        crew.tell = self._tell_of_worker

    def _make_reviver(self) -> Reviver:
        return RayReviver(self._ray_crew, self._durable, self._plan.arguments.max_restarts)

    def _resize(self, plan: Plan, workers: int) -> Plan:
        return self._ray_crew.resize(workers)

    def _asking(self) -> Mapping[str, str]:
        return self._crew.environments[self._crew.workers[0].name]

    def _environment(self, plan: Plan, process: Process) -> dict[str, str]:
        return self._ray_crew.environment_here(process)

    def _start(self) -> None:
        crew = self._ray_crew
        for role, processes in (("server", crew.servers), ("worker", crew.workers)):
            say(f"{len(processes)} {role}{'s' * (len(processes) > 1)}; {processes[0].name} is told:")
            told = member_environment(self._plan, processes[0].member, "a folder of its own")
            show_table("environment", f"what {processes[0].name} is told", environment_table(told) + "\n", told)
        for placed in crew.ray_processes:
            say(f"{placed.name} is on {placed.node}")
        say(f"the logs are {self._logs}/serverlog.* and {self._logs}/workerlog.*")
        if self._control is not None:
            tell(self._control.trouble)
        if self._note:
            say(self._note)
        for process in crew.processes:
            if not self._signals.received:
                crew.start(process)

    def _why_fixed(self, workers: int) -> str:
        most, strategy = len(self._plan.workers), self._settings.strategy
        if workers <= most or strategy in BESIDE:
            return ""
        return (
            f"Ray holds --strategy={strategy} for the places that the job began with, and for none beside them: at "
            f"most {workers_text(most)}; a job that was started with --strategy={' or '.join(BESIDE)} may have more"
        )

    def _tell_of_worker(self, line: str) -> None:
        say(line)
        self._scaling.tell(line)

    def _tell_failure(self, failed: Sequence[Process]) -> None:
        super()._tell_failure(failed)
        first = failed[0]
        assert isinstance(first, RayProcess)
        if first.member.role == "server" and first.was_moved and not first.holds and first.kept:
            where = "on that node's own disk" if not self._durable else f"in {self._durable.path}"
            fail(
                f"flota launch: what {first.name} had kept was {where}, and is not on {first.node}. With "
                "--durable=DIR, a folder that all nodes share, a lost node costs nothing; without it, start the job "
                "anew, from the last checkpoint that the script has saved",
                "server_lost",
            )
