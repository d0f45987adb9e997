"""The processes that a launch looks after, as those who care for them see them."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from pathlib import Path

from flota import config
from flota.launch.guard import Guard
from flota.launch.plan import Member, Plan
from flota.launch.processes import LocalProcess, Process
from flota.launch.progress import Progress


class Crew(ABC):
    """Servers and workers of a plan, what they report, and how one of them is started."""

    def __init__(self, plan: Plan, report: Path, restarts: dict[str, int]) -> None:
        """``report``: a socket for what they report. ``restarts``: of each by launches before this one."""
        logs = Path(plan.arguments.log_dir)
        self.processes = [
            self._make(member, _log(logs, member), restarts.get(member.name, 0)) for member in plan.members
        ]
        self.servers = [process for process in self.processes if process.member.role == "server"]
        self.workers = [process for process in self.processes if process.member.role == "worker"]
        self.progress = Progress(report, [process.member.index for process in self.workers])
        self.alone = plan.alone  # no other host has processes of this job
        self.environments: dict[str, dict[str, str]] = {}  # by name; whoever starts them says
        self.has_trained = False
        self.coming: set[int] = set()  # workers that are to join a job that runs, and have not
        self._logs, self._restarts = logs, restarts

    @abstractmethod
    def _make(self, member: Member, log: Path, starts_before: int) -> Process:
        """A process that is still to be started."""

    @abstractmethod
    def start(self, process: Process) -> None:
        """Starts one that this crew has made, or starts it again."""

    def add_worker(self, member: Member) -> Process:
        process = self._make(member, _log(self._logs, member), self._restarts.get(member.name, 0))
        self.processes.append(process)
        self.workers.append(process)
        self.progress.expect(member.index)
        return process

    def receive(self) -> None:
        """Takes in what workers have reported."""
        self.progress.receive()
        self.has_trained = self.has_trained or self.progress.steps is not None

    def training(self) -> list[Process]:
        """The workers here that still need the servers."""
        told = self.progress.workers
        there = [worker for worker in self.workers if worker.running or worker.waiting]
        there = [worker for worker in there if worker.member.index not in self.coming]
        return [worker for worker in there if not told[worker.member.index].finished]

    def waited_for(self) -> list[Process]:
        """Whose end is the job's: workers on other hosts may go on, and the servers know when all are done."""
        if not self.alone:
            return self.processes
        return [worker for worker in self.workers if worker.member.index not in self.coming]

    def has_failed(self, process: Process) -> bool:
        return process.status != 0 or (process in self.servers and bool(self.training()))


class LocalCrew(Crew):
    """All of this host."""

    def __init__(self, plan: Plan, report: Path, guard: Guard, restarts: dict[str, int]) -> None:
        self._guard = guard
        self._arguments = plan.arguments
        super().__init__(plan, report, restarts)

    def _make(self, member: Member, log: Path, starts_before: int) -> Process:
        return LocalProcess(member, log, self._guard, starts_before)

    def start(self, process: Process) -> None:
        assert isinstance(process, LocalProcess)
        arguments = self._arguments
        runner = ["-m", "flota.paddle"] if arguments.paddle else []
        command = [sys.executable, "-u", *runner, arguments.training_script, *arguments.training_script_args]
        settings = {**self.environments[process.name], config.RESTARTS: str(process.next_restarts)}
        process.start(command, config.child_environment(**settings))


def _log(folder: Path, member: Member) -> Path:
    return folder / f"{member.role}log.{member.index}"
