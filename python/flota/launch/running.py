"""The processes of this host, from their start to their end, and again."""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from flota import config
from flota.errors import SystemFailure
from flota.launch.durable import FAILED, FINISHED, STOPPED, DurableFolder
from flota.launch.environment import durable_environment, environment_table, member_environment
from flota.launch.guard import Guard
from flota.launch.heralds import Herald
from flota.launch.plan import Plan
from flota.launch.processes import Process, stop
from flota.launch.progress import Progress
from flota.launch.protection import protection
from flota.launch.restarts import Ending, judge
from flota.launch.resuming import how_to_resume
from flota.launch.view import Job, View, clock, make_view, say, show

_TICK = 0.2  # seconds between two looks when nothing wakes the launcher
_LAST_LINES = 20  # of the log of a process that failed


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

    def __init__(self, plan: Plan, folder: Path, guard: Guard, signals: Signals, durable: DurableFolder | None) -> None:
        self._plan = plan
        self._folder = folder
        self._signals = signals
        self._durable = durable
        self._logs = Path(plan.arguments.log_dir)
        before = durable.restarts if durable else {}
        self._processes = [
            Process(member, self._logs / f"{member.role}log.{member.index}", guard, before.get(member.name, 0))
            for member in plan.members
        ]
        self._servers = [process for process in self._processes if process.member.role == "server"]
        self._workers = [process for process in self._processes if process.member.role == "worker"]
        self._progress = Progress(folder / "report", [process.member.index for process in self._workers])
        script = Path(plan.arguments.training_script).name
        # Workers first: where there is no room for all, they are what one looks at.
        self._job = Job(script, [*self._workers, *self._servers], self._progress, time.monotonic())
        self._told_nan: set[int] = set()
        self._environments: dict[str, dict[str, str]] = {}
        self._has_trained = False
        self._refusals: dict[str, str] = {}  # why a process that failed was not started again
        self._heralds: dict[str, Herald] = {}  # of workers that are being started again

    def run(self, view: str) -> int:
        """Starts everything, waits for its end, and returns the launch's exit status; nothing is left running."""
        state = STOPPED  # so it stays where somebody stops reading before the end
        try:
            self._start()
            shown = make_view(view, self._job)
            try:
                failed = self._watch(shown)
                state = self._state(failed)
                if state == FINISHED:
                    say("all workers have finished" + ("; stopping the servers" if self._plan.alone else ""))
                    self._stop(self._servers)
                    state = self._state(failed)  # a signal may have come
            finally:
                shown.close()
            status = self._tell_end(failed)
        finally:
            self._stop(self._processes)
            for herald in self._heralds.values():
                herald.close()
            self._progress.close()
            self._close_durable(state)
        if state == FINISHED:
            say(self._summary())
        return status

    def _state(self, failed: Sequence[Process]) -> str:
        return FAILED if failed else STOPPED if self._signals.received else FINISHED

    def _close_durable(self, state: str) -> None:
        if self._durable is None:
            return
        self._tell(self._durable.end(state, keep=self._plan.arguments.keep_durable))
        if state != FINISHED and self._durable.holds_anything:
            say(f"what the servers have is in {self._durable.path}: {how_to_resume(self._plan)} goes on from there")

    def _tell(self, trouble: str | None) -> None:
        if trouble:
            say(trouble)

    def _start(self) -> None:
        environments = {
            process.name: member_environment(self._plan, process.member, str(self._folder / "shared"))
            for process in self._processes
        }
        for role, processes in (("server", self._servers), ("worker", self._workers)):
            if processes:
                say(f"{len(processes)} {role}{'s' * (len(processes) > 1)} on this host; {processes[0].name} is told:")
                show(environment_table(environments[processes[0].name]) + "\n")
        say(f"the logs are {self._logs}/serverlog.* and {self._logs}/workerlog.*")
        protected, note = protection(self._plan, self._folder)
        if note:
            say(note)
        arguments, kept = self._plan.arguments, self._durable.path if self._durable else None
        for process in self._processes:
            self._environments[process.name] = {
                **environments[process.name],
                **protected,
                **durable_environment(arguments, process.member, kept),
                config.REPORT: str(self._folder / "report"),
            }
            if not self._signals.received:
                self._start_one(process)

    def _start_one(self, process: Process) -> None:
        arguments = self._plan.arguments
        runner = ["-m", "flota.paddle"] if arguments.paddle else []
        command = [sys.executable, "-u", *runner, arguments.training_script, *arguments.training_script_args]
        settings = {**self._environments[process.name], config.RESTARTS: str(process.next_restarts)}
        process.start(command, config.child_environment(**settings))

    def _watch(self, view: View) -> list[Process]:
        """Returns when the workers are done or a signal came, with nothing; or with the processes that have failed."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._signals.wake, selectors.EVENT_READ)
            selector.register(self._progress.socket, selectors.EVENT_READ)
            while not self._signals.received:
                # In this order: a server that ends because all workers are done does so after they have said it.
                ended = [process for process in self._processes if process.poll()]
                self._progress.receive()
                self._has_trained = self._has_trained or self._progress.steps is not None
                self._tell_nan()
                if self._durable is not None:
                    self._tell(self._durable.note_kept(server.member.index for server in self._servers))
                self._start_what_is_due()
                # After it: one that could not be started and gets no other start has failed, though it never ran.
                still = [process for process in ended if not process.running]
                failed = [process for process in still if self._has_failed(process) and not self._waits(process)]
                if failed:
                    # What ended by a signal, and then a server, is more likely the cause of the rest than its effect.
                    return sorted(failed, key=lambda process: ((process.status or 0) >= 0, process in self._workers))
                # Workers on other hosts may go on: the servers know when all are done, this launch does not.
                waited_for = self._workers if self._plan.alone else self._processes
                if not any(process.running or process.waiting for process in waited_for):
                    return []
                self._end_heralds()
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

    def _waits(self, process: Process) -> bool:
        """Whether a process that has failed is to be started again; decided once for each end, and told."""
        if process.waiting or process.name in self._refusals:
            return process.waiting
        worker = self._progress.workers[process.member.index] if process in self._workers else None
        ending = Ending(
            process.member.role,
            process.status or 0,
            process.ran,
            process.used_restarts,
            may_pass=worker is not None and worker.may_pass,
        )
        what = f"{process.name} {process.ending}"
        if self._is_called_back(process):
            ending = replace(ending, status=1, may_pass=True)
            what = f"{process.name} ended as all workers had, and one of them has come back"
        return self._judge(process, ending, what)

    def _is_called_back(self, server: Process) -> bool:
        """Whether a server ended in good order, all workers having said goodbye, and one of them was killed in that
        very moment, or all with the launch before this one: it runs through its script once more, and needs the
        server."""
        if server not in self._servers or server.status != 0 or not self._plan.alone or not self._comes_back(server):
            return False
        return all(worker.restarts > 0 for worker in self._training())

    def _judge(self, process: Process, ending: Ending, what: str) -> bool:
        most = self._plan.arguments.max_restarts
        verdict = judge(ending, most, durable=self._comes_back(process))
        if verdict.wait is None:
            self._refusals[process.name] = verdict.reason
            return False
        process.wait_for_restart(verdict.wait, verdict.restart)
        say(f"{what}; starting it again in {verdict.wait:g} s ({verdict.restart} of {most})")
        if process in self._workers:
            self._send_herald(process)
        return True

    def _send_herald(self, worker: Process) -> None:
        # One of an earlier death may be there, and silent: that worker had come, before it died again.
        if worker.name in self._heralds:
            self._heralds.pop(worker.name).close()
        with contextlib.suppress(OSError):  # no room for another process: the others wait as long as they may
            self._heralds[worker.name] = Herald(self._environments[worker.name])

    def _end_heralds(self) -> None:
        """Of workers that train again, or will not."""
        for process in self._workers:
            there = process.running and self._progress.workers[process.member.index].step is not None
            if process.name in self._heralds and (there or not (process.running or process.waiting)):
                self._heralds.pop(process.name).close()

    def _comes_back(self, process: Process) -> bool:
        """Whether nothing is lost with this process: it is a worker, has kept what it had, or had nothing yet."""
        if process in self._workers:
            return True
        return self._durable is not None and (self._durable.holds(process.member.index) or not self._has_trained)

    def _start_what_is_due(self) -> None:
        for process in self._processes:
            if process.due is None or time.monotonic() < process.due:
                continue
            if process in self._workers and self._plan.alone:
                # It was killed between its last word to the servers and its end; they had no more to wait for.
                for server in self._servers:
                    if server.status == 0 and self._comes_back(server):
                        self._start_again(server)
            self._start_again(process)

    def _start_again(self, process: Process) -> None:
        # Before the start: a number that a process was given is never another's.
        if self._durable is not None:
            self._tell(self._durable.started_again(process.name, process.next_restarts))
        try:
            self._start_one(process)
        except SystemFailure as error:
            ending = Ending(process.member.role, process.status or 1, process.ran, process.used_restarts, may_pass=True)
            if not self._judge(process, ending, str(error)):
                reason = self._refusals[process.name]
                self._refusals[process.name] = f"{error}; {reason}" if reason else str(error)
            return
        self._refusals.pop(process.name, None)
        if process in self._workers:
            self._progress.begin_again(process.member.index)
            self._told_nan.discard(process.member.index)

    def _has_failed(self, process: Process) -> bool:
        return process.status != 0 or (process in self._servers and bool(self._training()))

    def _training(self) -> list[Process]:
        """The workers of this host that still need the servers."""
        told = self._progress.workers
        there = [worker for worker in self._workers if worker.running or worker.waiting]
        return [worker for worker in there if not told[worker.member.index].finished]

    def _tell_end(self, failed: Sequence[Process]) -> int:
        """Says what ended the job, if anything did before its end, and returns the exit status."""
        if failed:
            self._tell_failure(failed)
            return failed[0].exit_status or 1  # a server that ended too early may have done so with status 0
        if self._signals.received:
            number = self._signals.received.pop()  # one more makes the stop hurry
            running = sum(process.running for process in self._processes)
            say(f"{signal.Signals(number).name}: stopping {running} processes")
            return 128 + number
        return 0

    def _summary(self) -> str:
        steps, speed = self._progress.steps, self._progress.samples_per_second
        parts = [f"{steps:,} steps"] if steps is not None else []
        parts += [f"{speed:,.0f} samples/s"] if speed is not None else []
        elapsed = self._job.elapsed
        parts.append(f"{elapsed:.1f} s" if elapsed < 60 else clock(elapsed))
        again = [process for process in self._job.processes if process.starts > 1]
        if again:
            parts.append("restarts: " + ", ".join(f"{process.name} {process.starts - 1}" for process in again))
        return f"done: {', '.join(parts)}; logs in {self._logs}"

    def _tell_failure(self, failed: Sequence[Process]) -> None:
        first, *others = failed
        training = self._training()
        early = f" while {', '.join(worker.name for worker in training)} needed it" if first.status == 0 else ""
        lines = first.last_lines(_LAST_LINES)
        refusal = self._refusals.get(first.name)
        text = [
            f"flota launch: {first.name} (pid {first.pid}, {first.member.endpoint}) {first.ending}{early}, after "
            f"{self._job.elapsed:.1f} s; " + (f"{first.log} ends:" if lines else f"{first.log} is empty"),
            *(f"    {line}" for line in lines),
            *([f"flota launch: {first.name} is not started again: {refusal}"] if refusal else []),
            *(f"flota launch: then {process.name} {process.ending}: {process.log}" for process in others),
        ]
        show("\n".join(text), error=True)
        running = [process.name for process in self._processes if process.running]
        if running:
            show(f"flota launch: stopping {', '.join(running)}", error=True)

    def _stop(self, processes: Sequence[Process]) -> None:
        stop(processes, self._plan.arguments.timeout, hurry=lambda: bool(self._signals.received))
