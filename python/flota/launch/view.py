"""What a user sees while a job runs: a table that moves in a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import contextlib
import io
import math
import sys
import time
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from flota.errors import InvalidArgument
from flota.launch.processes import Process
from flota.launch.progress import Progress, WorkerProgress

if TYPE_CHECKING:
    from rich.console import Group

_LIVE_EVERY = 0.25  # seconds
_LINES_EVERY = 10.0
_SILENT_AFTER = 10.0
_TAIL = 6  # lines of a worker's log below the table
_CHUNK = 1 << 16


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
    restarts: int = 0
    log: str = ""  # its file, where that is on this host


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
                row = replace(row, step=worker.step, samples_per_second=worker.samples_per_second, loss=worker.loss)
            rows.append(row)
        return rows


class View(Protocol):
    def update(self) -> None:
        """Called several times a second; shows what is new, when it is time to."""

    def close(self) -> None:
        """Shows the last state."""


def say(text: str) -> None:
    """One line about the job, in Fleet's shape."""
    now = datetime.now()
    show(f"INFO {now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d} launch] {text}")


def tell(trouble: str | None) -> None:
    """Says what went wrong without ending the job, if anything did."""
    if trouble:
        say(trouble)


def show(text: str, *, error: bool = False) -> None:
    """Prints. Output that goes to a full disk is lost, and the job goes on."""
    try:
        print(text, file=sys.stderr if error else sys.stdout, flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        pass


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


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


def _number(value: float | None, form: str) -> str:
    if value is None:
        return "-"
    return format(value, form) if math.isfinite(value) else str(value)


class LogTail:
    """The lines of a file that grows."""

    def __init__(self, path: Path, begin: int = 0) -> None:
        self._path = path
        self._begin = begin
        self._file: io.BufferedReader | None = None
        self._rest = b""

    def new_lines(self, *, last: bool = False) -> list[str]:
        """The lines since the last call; ``last`` also takes one that is not ended."""
        if self._file is None:
            with contextlib.suppress(FileNotFoundError):
                self._file = self._path.open("rb")
                self._file.seek(self._begin)
        if self._file is None:
            return []
        *lines, self._rest = (self._rest + self._file.read(-1 if last else _CHUNK)).split(b"\n")
        if last and self._rest:
            lines.append(self._rest)
            self._rest = b""
        return [line.decode(errors="replace").rstrip("\r") for line in lines]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class NoView:
    """Adds nothing to what the launch itself says."""

    def update(self) -> None: ...

    def close(self) -> None: ...


class PlainView:
    """The lines of the first worker as they come, and now and then a line for each worker."""

    def __init__(self, job: Shown) -> None:
        self._job = job
        self._tail = job.shown_log
        self._next = time.monotonic() + _LINES_EVERY

    def update(self) -> None:
        self._follow()
        if time.monotonic() >= self._next:
            self._next += _LINES_EVERY
            if not self._lines():
                rows = self._job.rows()
                running = sum(row.running for row in rows)
                say(f"{running} of {len(rows)} processes are running, {clock(self._job.elapsed)}")

    def close(self) -> None:
        self._follow(last=True)
        self._lines()
        if self._tail:
            self._tail.close()

    def _follow(self, *, last: bool = False) -> None:
        for line in self._tail.new_lines(last=last) if self._tail else []:
            show(line)

    def _lines(self) -> bool:
        """Says how each worker does, and whether any has told."""
        told = [row for row in self._job.rows() if row.step is not None]
        for row in told:
            speed, loss = _number(row.samples_per_second, ",.0f"), _number(row.loss, ".4f")
            say(f"{row.name}: step {row.step}, {speed} samples/s, loss {loss}, {row.state}")
        return bool(told)


class LiveView:
    """A table that is painted over itself, and the end of the first worker's log below it."""

    def __init__(self, job: Shown) -> None:
        from rich.live import Live

        self._job = job
        self._tail = job.shown_log
        self._lines: deque[str] = deque(maxlen=_TAIL)
        self._next = 0.0
        # Painted from the launch's own loop: no thread is wanted here.
        self._live = Live(auto_refresh=False, vertical_overflow="crop")
        self._live.start()

    def update(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LIVE_EVERY
            self._paint()

    def close(self) -> None:
        self._paint(last=True)
        self._live.stop()
        if self._tail:
            self._tail.close()

    def _paint(self, *, last: bool = False) -> None:
        self._lines.extend(self._tail.new_lines(last=last) if self._tail else [])
        self._live.update(self._picture(), refresh=True)

    def _picture(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        job = self._job
        table = Table(title=f"{job.title} · {clock(job.elapsed)}", title_justify="left", title_style="bold")
        table.add_column("process")
        for name in ("step", "samples/s", "loss"):
            table.add_column(name, justify="right", min_width=len("00,000,000"))
        table.add_column("state")
        room = max(4, self._live.console.height - _TAIL - 8)
        rows = job.rows()
        for row in rows[:room]:
            cells = ["", "", ""]
            if row.is_worker:
                cells = [_number(row.step, ",d"), _number(row.samples_per_second, ",.0f"), _number(row.loss, ".4f")]
            table.add_row(row.name, *cells, row.state)
        if len(rows) > room:
            table.add_row("…", "", "", "", f"and {len(rows) - room} more")
        lines = [Text.from_ansi(line, no_wrap=True, overflow="ellipsis", style="dim") for line in self._lines]
        return Group(table, *lines)


def make_view(kind: str, job: Shown) -> View:
    if kind == "none":
        return NoView()
    return LiveView(job) if kind == "live" else PlainView(job)


def kind_of_view(asked: str) -> str:
    """What ``--view`` comes to on this output."""
    terminal = sys.stdout.isatty()
    if terminal:
        from rich.console import Console

        terminal = not Console().is_dumb_terminal
    if asked == "live" and not terminal:
        raise InvalidArgument("--view=live needs a terminal that can be painted on; use --view=plain")
    return ("live" if terminal else "plain") if asked == "auto" else asked
