"""The processes of a job as they are shown: a row for each, wherever it runs."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Protocol

from flota.launch.log_tail import LogTail
from flota.launch.processes import Process
from flota.launch.progress import Progress, WorkerProgress
from flota.launch.saying import clock

_SILENT_AFTER = 10.0


@dataclass(frozen=True)
class Row:
    """A process as it is shown."""

    name: str
    state: str
    running: bool
    is_worker: bool
    step: int | None = None  # of a worker that has told
    samples_per_second: float | None = None
    loss: float | None = None
    auc: float | None = None
    waits: float | None = None  # the share of its time that it waits for others
    in_flight: int | None = None  # steps that the tables do not have yet
    done: float | None = None  # how much of its pass
    left_seconds: float | None = None
    restarts: int = 0
    log: str = ""  # its file, where that is on this host
    staleness: float | None = None  # pushes of others between what its gradients are computed from and them
    lease: str = ""  # the pieces of the data that it has


class Shown(Protocol):
    """What there is to show, wherever it runs."""

    @property
    def title(self) -> str: ...

    @property
    def elapsed(self) -> float: ...

    @property
    def shown_log(self) -> LogTail | None:
        """The log that is shown as it grows."""

    def rows(self) -> list[Row]: ...


@dataclass
class Job:
    """The processes of this host."""

    title: str
    processes: list[Process]  # in the order in which they are shown
    progress: Progress
    began: float
    idle: bool = False  # all workers of this host have left, and others may come

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    @property
    def shown_log(self) -> LogTail | None:
        """The log that is shown as it grows: that of worker 0, or of the first worker of this host."""
        workers = (process for process in self.processes if process.member.role == "worker")
        return next((LogTail(process.log, process.log_begin) for process in workers), None)

    def rows(self) -> list[Row]:
        rows = []
        for process in self.processes:
            worker = self.progress.workers[process.member.index] if process.member.role == "worker" else None
            row = Row(
                process.name, state(process, worker), process.running, worker is not None,
                restarts=max(0, process.starts - 1), log=str(process.log),
            )  # fmt: skip
            if worker is not None:
                told = worker.brief
                flying = told.get("in_flight")
                row = replace(
                    row, step=worker.step, samples_per_second=worker.samples_per_second, loss=worker.loss,
                    auc=told.get("auc"), waits=told.get("waits"), done=told.get("done"),
                    left_seconds=told.get("left_seconds"), in_flight=None if flying is None else round(flying),
                    staleness=told.get("staleness"),
                )  # fmt: skip
            rows.append(row)
        return rows


def state(process: Process, worker: WorkerProgress | None) -> str:
    """How a process does, in words, and how often it was started again."""
    again = process.starts - 1
    return _state(process, worker) + (f", restart {again}" if again > 0 else "")


def _state(process: Process, worker: WorkerProgress | None) -> str:
    if process.due == math.inf:
        return process.ending
    if process.due is not None:
        return f"{process.ending}, starts again in {max(0.0, process.due - time.monotonic()):.0f} s"
    if process.leaving and not process.asked_to_stop:
        return "leaving" if process.running else "has left"
    if not process.running:
        return "stopped" if process.asked_to_stop else "finished" if process.status == 0 else process.ending
    if process.asked_to_stop:
        return "stopping"
    if worker is None or worker.step is None:
        return "running"
    if worker.nan_step is not None:
        return f"loss is NaN since step {worker.nan_step}"
    silent = time.monotonic() - worker.recent[-1][0]
    if silent > _SILENT_AFTER:
        return f"no step for {clock(silent)}"
    return "finishing" if worker.finished else "running"
