"""What a user sees while a job runs: a table that moves in a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Protocol

from flota.errors import InvalidArgument
from flota.launch.columns import heading, in_words
from flota.launch.rows import Shown
from flota.launch.saying import clock, say, show

if TYPE_CHECKING:
    from rich.console import RenderableType

_LIVE_EVERY = 0.25  # seconds
_LINES_EVERY = 10.0
_TAIL = 6  # lines of a worker's log below the table


class View(Protocol):
    def update(self) -> None:
        """Called several times a second; shows what is new, when it is time to."""

    def close(self) -> None:
        """Shows the last state."""


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
            say(
                in_words(row), "progress", process=row.name, step=row.step, loss=row.loss, auc=row.auc,
                samples_per_second=row.samples_per_second,
            )  # fmt: skip
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

    def _picture(self) -> RenderableType:
        from flota.launch import picture  # rich is for those who see it

        console = self._live.console
        rows = self._job.rows()
        title = heading(self._job.title, self._job.elapsed, rows)
        room = max(4, console.height - _TAIL - 8)
        return picture.launch(title, rows, self._lines, width=console.width, room=room)


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
