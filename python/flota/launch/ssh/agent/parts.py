"""The parts of a job that a node runs, each by a ``flota launch`` of its own: the node's own, and those of hosts that
were lost and whose workers go on here."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flota import config
from flota.errors import SystemFailure
from flota.launch.guard import Guard
from flota.launch.processes import die_with

_MAX_FEED = 1 << 20
_SAID = re.compile(r"INFO \S+ \S+ launch\] (.*)")  # a line that a launch said
# Beyond its own --timeout, a launch that was told to end has this long.
_GRACE = 10.0
_STOPS = (signal.SIGTERM, signal.SIGINT)
_TOLD_TO_END = tuple(128 + number for number in _STOPS)


class Part:
    """One ``flota launch`` at work."""

    def __init__(
        self, of: str, argv: Sequence[str], environment: dict[str, str], workspace: Path, log: Path, guard: Guard
    ) -> None:
        """``of``: the host whose part it is."""
        self.of = of
        self.log = log
        self.rows: list[dict[str, Any]] = []
        self.idle = False  # all its workers have left, and others may come
        self.status: int | None = None
        self._guard = guard
        self._begun: int | None = None  # bytes of the log: events are told from here on …
        self._closed: int | None = None  # … and to here, unless it fails
        self._told = 0
        self._signals = 0
        self._kill_at: float | None = None
        self._ended = 0.0
        self.feed, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.feed.setblocking(False)
        try:
            with theirs, log.open("ab") as output:
                self._told = output.tell()
                self._process = subprocess.Popen(
                    # Not begun in the workspace: modules there would stand in for Python's own.
                    [sys.executable, "-u", "-m", f"{__package__}.part", str(theirs.fileno()), str(workspace), *argv],
                    cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                    env=config.child_environment(**environment), pass_fds=[theirs.fileno()], start_new_session=True,
                    preexec_fn=die_with(os.getpid()),
                )  # fmt: skip
        except OSError as error:
            raise SystemFailure(f"flota launch could not be started: {error}") from error
        guard.add(self._process.pid)

    @property
    def running(self) -> bool:
        return self.status is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended_within(self, seconds: float) -> bool:
        return self.status is not None and time.monotonic() - self._ended < seconds

    def look(self) -> None:
        """Takes in what it has told, and whether it has ended."""
        self._receive()
        if self.status is not None:
            return
        if os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if self._kill_at is not None and time.monotonic() > self._kill_at:
                self._process.kill()  # its guard ends what it has started
            return
        self._guard.remove(self._process.pid)  # while the number is still its own
        status = self._process.wait()
        self.status = status if status >= 0 else 128 - status
        self._ended = time.monotonic()
        self._receive()

    def stop(self, level: int, timeout: float) -> None:
        """Tells it to end: level 2 again, so that it hurries."""
        if not self.running:
            return
        while self._signals < min(level, len(_STOPS)):
            # Two of one kind may arrive as one.
            self._process.send_signal(_STOPS[self._signals])
            self._signals += 1
            self._process.send_signal(signal.SIGCONT)
            self._kill_at = time.monotonic() + (timeout if self._signals == 1 else 0.0) + _GRACE

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError, OSError):
            while data := self.feed.recv(_MAX_FEED):
                message = json.loads(data)
                self.rows = message.get("rows", self.rows)
                self.idle = message.get("idle", self.idle)
                if "begun" in message:
                    self._begun = self._told = message["begun"]
                self._closed = message.get("closed", self._closed)

    def new_lines(self) -> list[tuple[str, bool]]:
        """What it has said since the last call that somebody elsewhere wants to read: events while it runs, and if it
        fails, why. With each: whether the launch said it as an event, on a line of its own."""
        limit: int | None = None  # to the end of the log
        if self.status in (None, 0, *_TOLD_TO_END):
            if self._begun is None:
                return []
            limit = self._closed
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(self._told)
            text = log.read() if limit is None else log.read(max(0, limit - self._told))
            if self.running:
                text = text[: text.rfind(b"\n") + 1]
            self._told += len(text)
            lines = text.decode(errors="replace").splitlines()
            return [(said[1], True) if (said := _SAID.fullmatch(line)) else (line, False) for line in lines]
        return []


def state(part: Part) -> dict[str, Any]:
    """A part as the launch is told of it."""
    return {"of": part.of, "status": part.status, "rows": part.rows, "idle": part.idle}
