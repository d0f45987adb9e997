"""What a worker tells the launcher: where it is, how much it has read, how well it does.

    report.step(step, samples=len(batch), loss=loss)   # after each step
    report.finished()                                  # training is over; servers may now go

A report is one small JSON datagram to the Unix socket that ``FLOTA_REPORT`` names, at most five a second:

    {"role": "worker", "index": 0, "step": 412, "samples": 210944, "time": 8123.4, "loss": 0.4312}

``auc``, ``done``, ``left_seconds``, ``waits``, ``in_flight`` and ``staleness`` come beside them as far as they are
known (see ``flota.standing``). ``samples`` is the sum so far and ``time`` the system's monotonic clock at that step. A
loss that JSON has no number for is null, beside ``"loss_is_nan": true`` or ``"loss_is_infinite": true``; ``"finished":
true`` comes with the last one. ``"coming": true`` comes from a worker that joins a job that ran without it,
``"joined": true`` once it is where the others are, and ``"left": true`` from one that the job goes on without.
``"may_pass": true`` comes from a worker that ends because of a server or a disk: another start may fare better.

Reporting a step never waits and never disturbs training: a report for which there is no room is dropped, and a launcher
that is gone is not looked for again. Without ``FLOTA_REPORT`` a call costs next to nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import math
import os
import socket
import sys
import time
from types import TracebackType
from typing import Any, SupportsFloat

from flota import config
from flota.errors import MAY_PASS
from flota.standing import worker as standing

# The exit status of a server that has nobody left to serve: there is no use in starting it again.
NOBODY_LEFT = 69

MIN_INTERVAL = 0.2  # seconds between two reports

_LAST_WAIT = 1.0  # seconds that the last report may wait for room

# Of a disk that is full, for this user or for files of this size.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# What a report may say beside the step and its loss; see ``standing.brief``.
BRIEF = ("auc", "done", "left_seconds", "waits", "in_flight", "staleness")

# Beyond this a datagram is no report. (One is some 150 bytes.)
MAX_BYTES = 1024


class Reporter:
    """Reports of one worker to the socket at ``path``."""

    def __init__(self, path: str, index: int) -> None:
        self._index = index
        self._process = os.getpid()
        self._step = 0
        self._samples = 0
        self._time = 0.0
        self._loss: SupportsFloat | None = None
        self._loss_was_nan = False
        self._finished = False
        self._may_pass = False
        self._coming = False
        self._joined = False
        self._left = False
        self._unsent = False
        self._next = -math.inf
        self._socket: socket.socket | None = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._socket.connect(path)
        except OSError:
            self.close()

    def step(self, step: int, samples: int, loss: SupportsFloat | None = None) -> None:
        """Says that ``step``, counted from 1, is done and had so many samples.

        ``loss`` may be a tensor: it is turned into a number only when a report is sent, which on a GPU waits for it.
        """
        if self._socket is None:
            return
        self._step = step
        self._samples += samples
        self._time = now = time.monotonic()
        # The number alone: the graph behind it holds the memory of the whole step.
        detach = getattr(loss, "detach", None)
        self._loss = loss if detach is None else detach()
        self._unsent = True
        # The first NaN is sent at once: its step is what whoever looks for the cause needs.
        is_nan = isinstance(loss, float) and math.isnan(loss)
        if now >= self._next or (is_nan and not self._loss_was_nan):
            self._next = now + MIN_INTERVAL
            self._send()
        self._loss_was_nan = is_nan

    def coming(self) -> None:
        """Says that this worker joins a job that ran without it."""
        self._coming = True
        self._send_now()

    def joined(self) -> None:
        """Says that it has joined, and is where the others are."""
        self._joined = True
        self._send_now()

    def finished(self) -> None:
        """Says that this worker is done with the servers: one that ends from now on has not failed."""
        self._finished = True
        self._send_last()

    def left(self) -> None:
        """Says that this worker has left, and the job goes on without it."""
        self._left = True
        self.finished()

    def may_pass(self) -> None:
        """Says that this worker fails, and that the reason may have passed when it is started again."""
        self._may_pass = True
        self._send_last()

    def flush(self) -> None:
        """Sends what the last calls left unsent."""
        if self._unsent and self._process == os.getpid():
            self._send()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send_now(self) -> None:
        """Sends a report that must arrive, and is not the last."""
        self._send_last()
        if self._socket is not None:
            self._socket.setblocking(False)

    def _send_last(self) -> None:
        """Sends a report that must arrive, at a time when nothing is held up by it."""
        self._unsent = True
        if self._socket is not None:
            self._socket.settimeout(_LAST_WAIT)
        self.flush()

    def _send(self) -> None:
        if self._socket is None:
            return
        try:
            self._socket.send(json.dumps(self._message(), allow_nan=False).encode())
            self._unsent = False
        except (BlockingIOError, TimeoutError):
            pass  # the launcher is behind; the next report says all that this one did
        except (OSError, ValueError, TypeError):
            self.close()

    def _message(self) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "worker",
            "index": self._index,
            "step": int(self._step),
            "samples": int(self._samples),
            "time": self._time,
            **_loss_fields(self._loss),
            **standing.brief(),
        }
        if self._finished:
            message["finished"] = True
        if self._may_pass:
            message["may_pass"] = True
        if self._coming:
            message["coming"] = True
        if self._joined:
            message["joined"] = True
        if self._left:
            message["left"] = True
        return message


def _loss_fields(loss: SupportsFloat | None) -> dict[str, Any]:
    number = None
    # Whatever a loss of somebody's own making raises here, training goes on.
    with contextlib.suppress(Exception):
        number = None if loss is None else float(loss)
    if number is None or math.isfinite(number):
        return {"loss": number}
    return {"loss": None, "loss_is_nan" if math.isnan(number) else "loss_is_infinite": True}


_reporter: Reporter | None = None
_looked = False


def _find_reporter() -> Reporter | None:
    global _reporter, _looked
    if not _looked:
        _looked = True
        address = config.report_address()
        if address is not None:
            _reporter = Reporter(*address)
            atexit.register(_reporter.flush)
    return _reporter


def step(step: int, samples: int, loss: SupportsFloat | None = None) -> None:
    """Reports one step of this process, if a launcher listens; see ``Reporter.step``."""
    reporter = _find_reporter()
    if reporter is not None:
        reporter.step(step, samples, loss)


def coming() -> None:
    """Says that this process joins a job that runs, if a launcher listens; see ``Reporter.coming``."""
    reporter = _find_reporter()
    if reporter is not None:
        reporter.coming()


def joined() -> None:
    """Says that this process has joined a job that ran, if a launcher listens; see ``Reporter.joined``."""
    reporter = _find_reporter()
    if reporter is not None:
        reporter.joined()


def finished() -> None:
    """Says that this process is done with the servers, if a launcher listens; see ``Reporter.finished``."""
    reporter = _find_reporter()
    if reporter is not None:
        reporter.finished()


def left() -> None:
    """Says that this process has left its job, if a launcher listens; see ``Reporter.left``."""
    reporter = _find_reporter()
    if reporter is not None:
        reporter.left()


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, MAY_PASS) or (isinstance(error, OSError) and error.errno in _NO_ROOM)


def watch_failures() -> None:
    """From now on, an exception that ends this process for a reason that may pass is told to the launcher."""
    reporter = _find_reporter()
    if reporter is None or getattr(sys.excepthook, "tells_launcher", False):
        return
    before = sys.excepthook

    def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        cause: BaseException | None = error
        while cause is not None and not _may_pass(cause):
            cause = cause.__cause__
        if cause is not None:
            reporter.may_pass()
        before(kind, error, trace)

    tell.tells_launcher = True  # type: ignore[attr-defined]
    sys.excepthook = tell
