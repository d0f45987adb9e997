"""The processes of this host, from their start to their end, and again."""

from __future__ import annotations

import contextlib
import selectors
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from flota import config
from flota.launch.attaching import tell_lookers
from flota.launch.changes import Changes
from flota.launch.control import Control
from flota.launch.crew import Crew
from flota.launch.durable import DurableFolder
from flota.launch.environment import (
    asking_environment,
    durable_environment,
    environment_table,
    member_environment,
)
from flota.launch.following import Following
from flota.launch.outlets import LaunchPage, outlets_environment
from flota.launch.plan import Plan
from flota.launch.processes import Process, stop
from flota.launch.protection import protection
from flota.launch.record import FAILED, FINISHED, STOPPED
from flota.launch.resuming import how_to_resume
from flota.launch.reviving import Reviver
from flota.launch.rows import Job
from flota.launch.saying import clock, fail, say, show_table, tell
from flota.launch.scaling import Scaling
from flota.launch.signals import Signals
from flota.launch.turns import with_workers
from flota.launch.view import View
from flota.launch.workplace import LocalWorkplace

_TICK = 0.2  # seconds between two looks when nothing wakes the launcher
_LAST_LINES = 20  # of the log of a process that failed


class Launch:
    """The processes of a plan, watched until all have ended."""

    def __init__(
        self, plan: Plan, crew: Crew, folder: Path, signals: Signals, durable: DurableFolder | None, *,
        asked_here: bool = True,
    ) -> None:  # fmt: skip
        """``asked_here``: it hears what ``flota scale`` asks; else an engine does in its place."""
        self._plan = plan
        self._folder = folder
        self._signals = signals
        self._durable = durable
        self._logs = Path(plan.arguments.log_dir)
        self._crew = crew
        self._reviver = self._make_reviver()
        script = Path(plan.arguments.training_script).name
        # Workers first: where there is no room for all, they are what one looks at.
        processes = [*self._crew.workers, *self._crew.servers]
        self._job = Job(script, processes, self._crew.progress, time.monotonic())
        self._protected: dict[str, str] = {}
        self._page = LaunchPage(plan, lambda: self._crew.processes, alone=asked_here)
        # Hosts of one job may see one file system, as in durable_place.
        address = "" if plan.alone else min(plan.here).strip("[]")
        self._control = Control(folder, self._logs, address) if asked_here else None
        place = LocalWorkplace(
            plan, self._crew, self._reviver, durable, self._environment, self._asking, self._resize, self._show_worker
        )
        has_all = plan.alone and asked_here
        self._scaling = Scaling(place) if has_all else Following(place, Changes(self._asking))

    def run(self, view: Callable[[Job], View]) -> int:
        """Starts everything, waits for its end, and returns the launch's exit status; nothing is left running.
        ``view`` makes what shows the job from then on."""
        state = STOPPED  # so it stays where somebody stops reading before the end
        try:
            self._start()
            if self._control is not None:
                kept = str(self._durable.path.resolve()) if self._durable is not None else ""
                tell_lookers(self._control, self._job.title, self._logs, self._asking(), self._job, kept)
            if self._plan.arguments.resume:
                self._scaling.settle()
            shown = view(self._job)
            try:
                failed = self._watch(shown)
                state = self._state(failed)
                if state == FINISHED:
                    say("all workers have finished" + ("; stopping the servers" if self._plan.alone else ""))
                    self._stop(self._crew.servers)
                    state = self._state(failed)  # a signal may have come
            finally:
                shown.close()
            status = self._tell_end(failed)
        finally:
            self._scaling.close()
            if self._control is not None:
                self._control.close()
            self._stop(self._crew.processes)
            self._page.close()
            self._reviver.close()
            self._crew.progress.close()
            self._close_durable(state)
        if state == FINISHED:
            say(self._summary(), "finished")
        return status

    def _state(self, failed: Sequence[Process]) -> str:
        return FAILED if failed else STOPPED if self._signals.received else FINISHED

    def _close_durable(self, state: str) -> None:
        if self._durable is None:
            return
        tell(self._durable.end(state, keep=self._plan.arguments.keep_durable))
        if state != FINISHED and self._durable.holds_anything:
            say(f"what the servers have is in {self._durable.path}: {how_to_resume(self._plan)} goes on from there")

    def _start(self) -> None:
        environments = {
            process.name: member_environment(self._plan, process.member, str(self._folder / "shared"))
            for process in self._crew.processes
        }
        for role, processes in (("server", self._crew.servers), ("worker", self._crew.workers)):
            if processes:
                say(f"{len(processes)} {role}{'s' * (len(processes) > 1)} on this host; {processes[0].name} is told:")
                told = environments[processes[0].name]
                show_table("environment", f"what {processes[0].name} is told", environment_table(told) + "\n", told)
        say(f"the logs are {self._logs}/serverlog.* and {self._logs}/workerlog.*")
        if self._control is not None:
            tell(self._control.trouble)
        self._protected, note = protection(self._plan, self._folder)
        if note:
            say(note)
        self._page.tell()
        for process in self._crew.processes:
            self._crew.environments[process.name] = self._environment(self._plan, process)
            if not self._signals.received:
                self._crew.start(process)

    def _make_reviver(self) -> Reviver:
        return Reviver(self._crew, self._durable, self._plan.arguments.max_restarts)

    def _resize(self, plan: Plan, workers: int) -> Plan:
        """The same job with another number of workers."""
        return with_workers(plan, workers)

    def _environment(self, plan: Plan, process: Process) -> dict[str, str]:
        kept = self._durable.path if self._durable else None
        return {
            **member_environment(plan, process.member, str(self._folder / "shared")),
            **self._protected,
            **durable_environment(plan.arguments, process.member, kept),
            **outlets_environment(plan, process.member),
            config.REPORT: str(self._folder / "report"),
        }

    def _show_worker(self, worker: Process) -> None:
        self._job.processes.insert(len(self._crew.workers) - 1, worker)

    def _asking(self) -> Mapping[str, str]:
        return {**asking_environment(self._plan.servers), **self._protected}

    def _why_fixed(self, workers: int) -> str:
        """Why this launch cannot make the number of workers this one; empty where it can."""
        return ""

    def _hear_questions(self) -> None:
        for workers, asker in self._control.numbers() if self._control is not None else ():
            if fixed := self._why_fixed(workers):
                asker.end(fixed, done=False)
            else:
                self._scaling.ask(workers, asker)

    def _idles(self) -> bool:
        """Whether nothing runs here now, and workers may come: on other hosts the job goes on."""
        if self._crew.servers or not isinstance(self._scaling, Following):
            return False
        patience = config.default_timeout()
        idles = self._scaling.idles(patience)
        if self._job.idle and not idles:
            say(f"server 0 has not answered for {patience:g} s, and no worker is here: the job is taken to be over")
        return idles

    def _watch(self, view: View) -> list[Process]:
        """Returns when the workers are done or a signal came, with nothing; or with the processes that have failed."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._signals.wake, selectors.EVENT_READ)
            selector.register(self._crew.progress.socket, selectors.EVENT_READ)
            if self._control is not None:
                self._control.register(selector)
            if self._page.port is not None:
                selector.register(self._page.port, selectors.EVENT_READ)
            while not self._signals.received:
                # In this order: a server that ends because all workers are done does so after they have said it.
                ended = [process for process in self._crew.processes if process.poll()]
                self._crew.receive()
                self._tell_nan()
                if self._durable is not None:
                    tell(self._durable.note_kept(server.member.index for server in self._crew.servers))
                self._reviver.start_what_is_due()
                self._hear_questions()
                self._scaling.update()
                # After it: one that could not be started and gets no other start has failed, though it never ran.
                still = [process for process in ended if not process.running]
                failed = [process for process in still if self._crew.has_failed(process)]
                failed = [process for process in failed if not self._is_to_leave(process)]
                failed = [process for process in failed if not self._reviver.waits(process)]
                failed = [process for process in failed if not self._goes_on_without(process)]
                unsure = [process for process in failed if self._may_be_to_leave(process)]
                failed = [process for process in failed if process not in unsure]
                if failed:
                    return sorted(failed, key=self._as_effect)
                at_work = any(process.running or process.waiting for process in self._crew.waited_for())
                self._job.idle = not at_work and self._idles()
                if not at_work and not self._job.idle and not unsure:
                    return []
                self._reviver.end_heralds()
                view.update()
                self._page.turn()
                selector.select(_TICK)
                with contextlib.suppress(BlockingIOError):
                    self._signals.wake.recv(4096)
        return []

    def _is_to_leave(self, process: Process) -> bool:
        return process in self._crew.workers and self._scaling.leaves(process.member.index)

    def _may_be_to_leave(self, process: Process) -> bool:
        """Whether that may be heard of in a moment; then its end is no failure."""
        if process not in self._crew.workers or not isinstance(self._scaling, Following):
            return False
        return self._scaling.may_leave(process.member.index, process.ended_for)

    def _goes_on_without(self, process: Process) -> bool:
        """Whether it is a worker that was to join, and nobody waits for it yet."""
        if process not in self._crew.workers or not self._scaling.comes(process.member.index):
            return False
        log = f" ({process.log})" if process.status is not None else ""
        line = self._scaling.give_up(process.member.index, f"it {process.ending}{log}")
        tell(line)
        return True

    def _as_effect(self, process: Process) -> tuple[bool, bool]:
        """What ended by a signal, and then a server, is more likely the cause of the rest than its effect."""
        return (process.status or 0) >= 0, process in self._crew.workers

    def _tell_nan(self) -> None:
        for index, worker in self._crew.progress.workers.items():
            if worker.nan_step is not None and not worker.nan_told:
                worker.nan_told = True
                text = f"worker {index}: the loss is NaN at step {worker.nan_step}"
                say(text, "loss_is_nan", "warning", process=f"worker {index}", step=worker.nan_step)

    def _tell_end(self, failed: Sequence[Process]) -> int:
        """Says what ended the job, if anything did before its end, and returns the exit status."""
        if failed:
            self._tell_failure(failed)
            return failed[0].exit_status or 1  # a server that ended too early may have done so with status 0
        if self._signals.received:
            number = self._signals.received.pop()  # one more makes the stop hurry
            running = sum(process.running for process in self._crew.processes)
            say(f"{signal.Signals(number).name}: stopping {running} processes", "stopping")
            return 128 + number
        return 0

    def _summary(self) -> str:
        steps, speed = self._crew.progress.steps, self._crew.progress.samples_per_second
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
        training = self._crew.training()
        early = f" while {', '.join(worker.name for worker in training)} needed it" if first.status == 0 else ""
        lines = first.last_lines(_LAST_LINES)
        refusal = self._reviver.refusal(first)
        text = [
            f"flota launch: {first.name} (pid {first.pid}, {first.member.endpoint}) {first.ending}{early}, after "
            f"{self._job.elapsed:.1f} s; " + (f"{first.log} ends:" if lines else f"{first.log} is empty"),
            *(f"    {line}" for line in lines),
            *([f"flota launch: {first.name} is not started again: {refusal}"] if refusal else []),
            *(f"flota launch: then {process.name} {process.ending}: {process.log}" for process in others),
        ]
        fail("\n".join(text), "process_failed", process=first.name, status=first.status)
        running = [process.name for process in self._crew.processes if process.running]
        if running:
            fail(f"flota launch: stopping {', '.join(running)}", "stopping")

    def _stop(self, processes: Sequence[Process]) -> None:
        stop(processes, self._plan.arguments.timeout, hurry=lambda: bool(self._signals.received))
