"""One launch: the processes of this host, from their start to their end."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from flota import config
from flota.errors import FlotaError, InvalidArgument, SystemFailure
from flota.launch.arguments import parse
from flota.launch.environment import configuration_table, environment_table, member_environment
from flota.launch.guard import Guard
from flota.launch.plan import Plan, make_plan
from flota.launch.processes import Process, stop
from flota.launch.progress import Progress
from flota.launch.protection import check_protection, protection
from flota.launch.view import Job, View, clock, kind_of_view, make_view, say

_TICK = 0.2  # seconds between two looks when nothing wakes the launcher
_LAST_LINES = 20  # of the log of a process that failed
_MAX_SOCKET_PATH = 100  # bytes; the kernel's limit is 108


class Signals:
    """SIGINT, SIGTERM and SIGHUP, noted; they and the end of a child also wake a selector."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.wake, self._wakes = socket.socketpair()
        for end in (self.wake, self._wakes):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, self._note)
        signal.signal(signal.SIGTERM, self._note)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
            signal.signal(signal.SIGHUP, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.received.append(number)


class Launch:
    """The processes of a plan, watched until all have ended."""

    def __init__(self, plan: Plan, folder: Path, guard: Guard, signals: Signals) -> None:
        self._plan = plan
        self._folder = folder
        self._signals = signals
        self._logs = Path(plan.arguments.log_dir)
        self._processes = [
            Process(member, self._logs / f"{member.role}log.{member.index}", guard) for member in plan.members
        ]
        self._servers = [process for process in self._processes if process.member.role == "server"]
        self._workers = [process for process in self._processes if process.member.role == "worker"]
        self._progress = Progress(folder / "report", [process.member.index for process in self._workers])
        script = Path(plan.arguments.training_script).name
        # Workers first: where there is no room for all, they are what one looks at.
        self._job = Job(script, [*self._workers, *self._servers], self._progress, time.monotonic())
        self._told_nan: set[int] = set()

    def run(self, view: str) -> int:
        """Starts everything, waits for its end, and returns the launch's exit status; nothing is left running."""
        try:
            self._start()
            shown = make_view(view, self._job)
            try:
                failed = self._watch(shown)
                if not failed and not self._signals.received:
                    say("all workers have finished" + ("; stopping the servers" if self._plan.alone else ""))
                    self._stop(self._servers)
            finally:
                shown.close()
            return self._outcome(failed)
        finally:
            self._stop(self._processes)
            self._progress.close()

    def _start(self) -> None:
        environments = {
            process.name: member_environment(self._plan, process.member, str(self._folder / "shared"))
            for process in self._processes
        }
        for role, processes in (("server", self._servers), ("worker", self._workers)):
            if processes:
                say(f"{len(processes)} {role}{'s' * (len(processes) > 1)} on this host; {processes[0].name} is told:")
                print(environment_table(environments[processes[0].name]) + "\n", flush=True)
        say(f"the logs are {self._logs}/serverlog.* and {self._logs}/workerlog.*")
        protected, note = protection(self._plan, self._folder)
        if note:
            say(note)
        hidden = {**protected, config.REPORT: str(self._folder / "report")}
        arguments = self._plan.arguments
        runner = ["-m", "flota.paddle"] if arguments.paddle else []
        command = [sys.executable, "-u", *runner, arguments.training_script, *arguments.training_script_args]
        for process in self._processes:
            if not self._signals.received:
                process.start(command, config.child_environment(**environments[process.name], **hidden))

    def _watch(self, view: View) -> list[Process]:
        """Returns when the workers are done or a signal came, with nothing; or with the processes that have failed."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._signals.wake, selectors.EVENT_READ)
            selector.register(self._progress.socket, selectors.EVENT_READ)
            while not self._signals.received:
                # In this order: a server that ends because all workers are done does so after they have said it.
                ended = [process for process in self._processes if process.poll()]
                self._progress.receive()
                self._tell_nan()
                failed = [process for process in ended if self._has_failed(process)]
                if failed:
                    # What ended by a signal, and then a server, is more likely the cause of the rest than its effect.
                    return sorted(failed, key=lambda process: ((process.status or 0) >= 0, process in self._workers))
                # Workers on other hosts may go on: the servers know when all are done, this launch does not.
                waited_for = self._workers if self._plan.alone else self._processes
                if all(process in ended for process in waited_for):
                    return []
                view.update()
                selector.select(_TICK)
                with contextlib.suppress(BlockingIOError):
                    self._signals.wake.recv(4096)
        return []

    def _tell_nan(self) -> None:
        for index, worker in self._progress.workers.items():
            if worker.nan_step is not None and index not in self._told_nan:
                self._told_nan.add(index)
                say(f"worker {index}: the loss is NaN at step {worker.nan_step}")

    def _has_failed(self, process: Process) -> bool:
        return process.status != 0 or (process in self._servers and bool(self._training()))

    def _training(self) -> list[Process]:
        """The workers of this host that still need the servers."""
        finished = self._progress.workers
        return [worker for worker in self._workers if worker.running and not finished[worker.member.index].finished]

    def _outcome(self, failed: Sequence[Process]) -> int:
        if failed:
            self._tell_failure(failed)
            return failed[0].exit_status or 1  # a server that ended too early may have done so with status 0
        if self._signals.received:
            number = self._signals.received.pop()  # one more makes the stop hurry
            running = sum(process.running for process in self._processes)
            say(f"{signal.Signals(number).name}: stopping {running} processes")
            return 128 + number
        steps, speed = self._progress.steps, self._progress.samples_per_second
        parts = [f"{steps:,} steps"] if steps is not None else []
        parts += [f"{speed:,.0f} samples/s"] if speed is not None else []
        elapsed = self._job.elapsed
        parts.append(f"{elapsed:.1f} s" if elapsed < 60 else clock(elapsed))
        say(f"done: {', '.join(parts)}; logs in {self._logs}")
        return 0

    def _tell_failure(self, failed: Sequence[Process]) -> None:
        first, *others = failed
        training = self._training()
        early = f" while {', '.join(worker.name for worker in training)} needed it" if first.status == 0 else ""
        lines = first.last_lines(_LAST_LINES)
        print(
            f"flota launch: {first.name} (pid {first.pid}, {first.member.endpoint}) {first.ending}{early}, after "
            f"{self._job.elapsed:.1f} s; " + (f"{first.log} ends:" if lines else f"{first.log} is empty"),
            *(f"    {line}" for line in lines),
            *(f"flota launch: then {process.name} {process.ending}: {process.log}" for process in others),
            sep="\n", file=sys.stderr, flush=True,
        )  # fmt: skip
        running = [process.name for process in self._processes if process.running]
        if running:
            print(f"flota launch: stopping {', '.join(running)}", file=sys.stderr, flush=True)

    def _stop(self, processes: Sequence[Process]) -> None:
        stop(processes, self._plan.arguments.timeout, hurry=lambda: bool(self._signals.received))


def _prepare_logs(plan: Plan) -> None:
    """Makes the folder, and takes away logs of processes that an earlier, larger job had and this one has not."""
    folder = Path(plan.arguments.log_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for role, count in (("server", len(plan.servers)), ("worker", len(plan.workers))):
            for log in folder.glob(f"{role}log.*"):
                index = log.name.partition(".")[2]
                if index.isdecimal() and int(index) >= count:
                    log.unlink()
    except OSError as error:
        raise SystemFailure(f"--log_dir={folder}: {error.strerror}: {error.filename}") from error


@contextlib.contextmanager
def _private_folder() -> Iterator[Path]:
    """A folder that only this user can enter, for the reports and for PADDLE_GLOO_FS_PATH."""
    place = tempfile.gettempdir() if len(tempfile.gettempdir()) < _MAX_SOCKET_PATH - 30 else "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="flota-launch-", dir=place))
    try:
        (folder / "shared").mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _launch(argv: Sequence[str] | None, prog: str) -> int:
    arguments = parse(argv, prog)
    view = kind_of_view(arguments.view)
    plan = make_plan(arguments)
    check_protection(plan)
    _prepare_logs(plan)
    print(configuration_table(plan.arguments), flush=True)
    for note in plan.notes:
        say(note)
    signals = Signals()
    with _private_folder() as folder, contextlib.closing(Guard(folder)) as guard:
        return Launch(plan, folder, guard, signals).run(view)


def main(argv: Sequence[str] | None = None, prog: str = "flota launch") -> int:
    """The command. Returns its exit status: that of the process that failed, 130 after Ctrl-C, 2 when it is refused."""
    try:
        return _launch(argv, prog)
    except FlotaError as error:
        print(f"flota launch: {error}", file=sys.stderr)
        return 2 if isinstance(error, InvalidArgument) else 1
    except BrokenPipeError:
        # Who read the output is gone. All processes are stopped; nothing more can be said, also not at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
