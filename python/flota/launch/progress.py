"""How far each worker is, from what it reports (see ``flota.report``)."""

from __future__ import annotations

import contextlib
import json
import math
import socket
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flota import report

_WINDOW = 10.0  # seconds over which a worker's speed is measured
_MAX_AT_ONCE = 1000  # reports taken before the launcher looks at its processes again


@dataclass
class WorkerProgress:
    """What one worker has said; times are those of the system's monotonic clock."""

    step: int | None = None
    samples: int = 0
    loss: float | None = None
    nan_step: int | None = None  # the first step at which it reported a loss that is not a number
    finished: bool = False
    coming: bool = False  # to a job that ran without it
    joined: bool = False  # and is where the others are
    left: bool = False  # a job that goes on without it
    nan_told: bool = False  # whoever watches has said so
    may_pass: bool = False  # it said that it ends for a reason that may have passed by now
    first: tuple[float, int] | None = None  # (time, samples) of its first report
    recent: deque[tuple[float, int]] = field(default_factory=deque)
    brief: dict[str, float] = field(default_factory=dict)  # the last of BRIEF, as far as they were told

    def take(self, message: dict[str, Any]) -> None:
        self.finished = self.finished or message.get("finished") is True
        self.may_pass = self.may_pass or message.get("may_pass") is True
        self.coming = self.coming or message.get("coming") is True
        self.joined = self.joined or message.get("joined") is True
        self.left = self.left or message.get("left") is True
        if message["step"] == 0 and message["samples"] == 0:
            return  # it has joined, or finished without a step
        self.step, self.samples = message["step"], message["samples"]
        self.loss = message["loss"]
        if message.get("loss_is_nan") is True:
            self.loss = math.nan
            self.nan_step = self.step if self.nan_step is None else self.nan_step
        elif message.get("loss_is_infinite") is True:
            self.loss = math.inf
        self.brief = {name: message[name] for name in report.BRIEF if isinstance(message.get(name), (int, float))}
        point = (message["time"], self.samples)
        self.first = self.first or point
        self.recent.append(point)
        # Steps may take longer than the window: two points are kept, whatever their age.
        while len(self.recent) > 2 and point[0] - self.recent[0][0] > _WINDOW:
            self.recent.popleft()

    @property
    def samples_per_second(self) -> float | None:
        """None until two reports say how much lies between them."""
        if len(self.recent) < 2:
            return None
        (began, before), (ended, after) = self.recent[0], self.recent[-1]
        return (after - before) / (ended - began) if ended > began else None


class Progress:
    """All workers of this host, and the socket at which they report."""

    def __init__(self, path: Path, indices: Iterable[int]) -> None:
        self.workers = {index: WorkerProgress() for index in indices}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind(str(path))

    def receive(self) -> None:
        """Takes the reports that have come. What is no report, or from nobody known, is left out."""
        for _ in range(_MAX_AT_ONCE):
            try:
                datagram = self.socket.recv(report.MAX_BYTES + 1)
            except BlockingIOError:
                return
            self.take(datagram)

    def take(self, datagram: bytes | str, age: float | None = None) -> None:
        """Takes one report. ``age``: how many seconds ago it was made, where another host's clock is in it."""
        with contextlib.suppress(ValueError, RecursionError):
            message = json.loads(datagram)
            if _is_report(message) and message["index"] in self.workers:
                if age is not None:
                    message["time"] = time.monotonic() - age
                self.workers[message["index"]].take(message)

    def expect(self, index: int) -> None:
        """Another worker's reports are heard from here on."""
        self.workers[index] = WorkerProgress()

    def begin_again(self, index: int) -> None:
        """Forgets what a worker has said: another process goes on in its place, and counts for itself."""
        self.workers[index] = WorkerProgress()

    def close(self) -> None:
        self.socket.close()

    @property
    def steps(self) -> int | None:
        """Steps of the worker that is furthest."""
        return max((worker.step for worker in self.workers.values() if worker.step is not None), default=None)

    @property
    def samples_per_second(self) -> float | None:
        """All workers together, from the first report to the last."""
        told = [worker for worker in self.workers.values() if worker.first is not None]
        if not told:
            return None
        began = min(worker.first[0] for worker in told if worker.first)
        ended = max(worker.recent[-1][0] for worker in told)
        read = sum(worker.samples - worker.first[1] for worker in told if worker.first)
        return read / (ended - began) if ended > began and read else None


def _is_report(message: object) -> bool:
    # Only this user's processes reach the socket, yet a script may send anything.
    if not isinstance(message, dict) or message.get("role") != "worker":
        return False
    whole = all(isinstance(message.get(name), int) and message[name] >= 0 for name in ("index", "step", "samples"))
    loss = message.get("loss")
    return whole and isinstance(message.get("time"), float) and (loss is None or isinstance(loss, (int, float)))
