"""Processes of this host that have ended and are started again: decided, announced, waited for and done."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

from flota.errors import SystemFailure
from flota.launch.crew import Crew
from flota.launch.durable import DurableFolder
from flota.launch.heralds import Herald
from flota.launch.processes import Process
from flota.launch.restarts import Ending, judge
from flota.launch.saying import say, tell


class Reviver:
    """Starts again what may be. ``most``: restarts that one process may have."""

    def __init__(self, crew: Crew, durable: DurableFolder | None, most: int) -> None:
        self._crew = crew
        self._durable = durable
        self._most = most
        self._refusals: dict[str, str] = {}  # why a process that failed was not started again
        self._heralds: dict[str, Herald] = {}  # of workers that are being started again

    def close(self) -> None:
        for herald in self._heralds.values():
            herald.close()

    def refusal(self, process: Process) -> str:
        """Why a process that has failed is not started again; empty where nothing is to be said."""
        return self._refusals.get(process.name, "")

    def waits(self, process: Process) -> bool:
        """Whether a process that has failed is to be started again; decided once for each end, and told."""
        if process.waiting or process.name in self._refusals:
            return process.waiting
        worker = self._crew.progress.workers[process.member.index] if process in self._crew.workers else None
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
        if server not in self._crew.servers or server.status != 0:
            return False
        if not self._crew.alone or not self._comes_back(server):
            return False
        return all(worker.restarts > 0 for worker in self._crew.training())

    def _judge(self, process: Process, ending: Ending, what: str) -> bool:
        most = self._most
        verdict = judge(ending, most, durable=self._comes_back(process))
        if verdict.wait is None:
            self._refusals[process.name] = verdict.reason
            return False
        process.wait_for_restart(verdict.wait, verdict.restart)
        line = f"{what}; starting it again in {verdict.wait:g} s ({verdict.restart} of {most})"
        say(line, "restarting", "warning", process=process.name, restart=verdict.restart)
        if process in self._crew.workers:
            self._send_herald(process)
        return True

    def _send_herald(self, worker: Process) -> None:
        # One of an earlier death may be there, and silent: that worker had come, before it died again.
        if worker.name in self._heralds:
            self._heralds.pop(worker.name).close()
        with contextlib.suppress(OSError):  # no room for another process: the others wait as long as they may
            self._heralds[worker.name] = Herald(self._crew.environments[worker.name])

    def end_heralds(self) -> None:
        """Of workers that train again, or will not."""
        for process in self._crew.workers:
            there = process.running and self._crew.progress.workers[process.member.index].step is not None
            if process.name in self._heralds and (there or not (process.running or process.waiting)):
                self._heralds.pop(process.name).close()

    def _comes_back(self, process: Process) -> bool:
        """Whether nothing is lost with this process: it is a worker, has kept what it had, or had nothing yet."""
        if process in self._crew.workers:
            return True
        return self._durable is not None and (self._durable.holds(process.member.index) or not self._crew.has_trained)

    def start_what_is_due(self) -> None:
        for process in self._crew.processes:
            if process.due is None or time.monotonic() < process.due:
                continue
            if process in self._crew.workers and self._crew.alone:
                # It was killed between its last word to the servers and its end; they had no more to wait for.
                for server in self._crew.servers:
                    if server.status == 0 and self._comes_back(server):
                        self._start_again(server)
            self._start_again(process)

    def start_new(self, worker: Process) -> None:
        """Starts a worker that joins, for the first time or after one of its number has left."""
        worker.used_restarts = 0
        self._refusals.pop(worker.name, None)
        self._start_again(worker)

    def _start_again(self, process: Process) -> None:
        # Before the start: a number that a process was given is never another's.
        if self._durable is not None:
            tell(self._durable.started_again(process.name, process.next_restarts))
        try:
            self._crew.start(process)
        except SystemFailure as error:
            ending = Ending(process.member.role, process.status or 1, process.ran, process.used_restarts, may_pass=True)
            if not self._judge(process, ending, str(error)):
                reason = self._refusals[process.name]
                self._refusals[process.name] = f"{error}; {reason}" if reason else str(error)
            return
        self._refusals.pop(process.name, None)
        if process in self._crew.workers:
            self._crew.progress.begin_again(process.member.index)
