"""How this worker does, for people who look on: its step, loss, speed, and what it waits for.

Whoever knows something sets it here; ``note()`` is all of it as a dictionary of numbers and short texts, which
``flota.fleet.telling`` sends to server 0 once a second and ``flota.report`` to the launcher. Setting costs next to
nothing; nothing here ever waits, or raises into training.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, SupportsFloat

from flota import timeline

_WINDOW = 10.0  # seconds over which speed and shares are measured
_MOST_METRICS = 32
_MOST_TEXT = 200


@dataclass
class Place:
    """In the data: a pass, how many pieces it has, how many of them are done."""

    name: str = ""
    epoch: int = 0
    pieces: int = 0
    left: int = 0
    began: float = 0.0

    @property
    def done(self) -> float | None:
        return 1 - self.left / self.pieces if self.pieces else None


@dataclass
class _Point:
    """At one time: what sums are measured from."""

    time: float
    samples: int
    steps: int
    seconds: dict[str, float]
    stale: tuple[float, int] = (0.0, 0)


@dataclass
class Standing:
    phase: str = "starting"
    step: int = 0
    samples: int = 0
    loss: Any = None  # a number, or a tensor that becomes one when somebody looks
    learning_rate: float | None = None
    mode: str = ""
    in_flight: Callable[[], int] | None = None  # steps that the tables do not have yet
    stale: tuple[float, int] = (0.0, 0)  # the sum of what was told of its gradients' staleness, and how often
    place: Place = field(default_factory=Place)
    lease: str = ""  # the pieces of the data that it has
    metrics: dict[str, float] = field(default_factory=dict)
    began: float = field(default_factory=time.time)
    points: deque[_Point] = field(default_factory=deque)
    last: dict[str, Any] = field(default_factory=dict)  # the last note

    def begin(self, mode: str, in_flight: Callable[[], int] | None) -> None:
        """A job begins: a process may have several, one after another."""
        self.__dict__.update(Standing(phase="connected", mode=mode, in_flight=in_flight).__dict__)

    def stepped(self, step: int, samples: int, loss: SupportsFloat | None, learning_rate: float | None) -> None:
        self.phase = "training"
        self.step = step
        self.samples += samples
        # The number alone: the graph behind it holds the memory of the whole step.
        detach = getattr(loss, "detach", None)
        self.loss = loss if detach is None else detach()
        self.learning_rate = learning_rate
        timeline.stepped()

    def measured(self, **values: SupportsFloat) -> None:
        """Shows metrics to whoever looks on, by their names: ``flota.log_metrics(auc=0.79, recall=0.4)``. Those of
        ``flota.metrics`` are shown when they are computed."""
        for name, value in values.items():
            if name in self.metrics or len(self.metrics) < _MOST_METRICS:
                self.metrics[name[:64]] = float(value)

    def measured_staleness(self, pushes: float) -> None:
        """So many pushes of others came between what a gradient was computed from and the gradient."""
        self.stale = (self.stale[0] + pushes, self.stale[1] + 1)

    def note(self) -> dict[str, Any]:
        now = time.monotonic()
        before = self._since(now)
        seconds = timeline.seconds()
        used = resource.getrusage(resource.RUSAGE_SELF)
        found: dict[str, Any] = {
            "phase": self.phase,
            "mode": self.mode,
            "step": self.step,
            "samples": self.samples,
            "loss": _number(self.loss),
            "learning_rate": _number(self.learning_rate),
            "metrics": {name: _number(value) for name, value in list(self.metrics.items())},
            "seconds": {part: round(spent, 4) for part, spent in seconds.items()},
            "host": socket.gethostname()[:_MOST_TEXT],
            "pid": os.getpid(),
            "began": round(self.began, 3),
            "time": round(time.time(), 3),
            "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
            "memory_bytes": _resident(),
            "lease": self.lease[:_MOST_TEXT],
        }
        if self.in_flight is not None:
            with contextlib.suppress(Exception):  # of a connection that ends meanwhile
                found["in_flight"] = self.in_flight()
        if self.place.pieces:
            found["pass"], found["epoch"] = self.place.name[:_MOST_TEXT], self.place.epoch
            found["done"] = _number(self.place.done)
            found["left_seconds"] = self._left(now)
        told = self.stale[1] - before.stale[1]
        if told > 0:
            found["staleness"] = round((self.stale[0] - before.stale[0]) / told, 2)
        passed = now - before.time
        if passed > 0:
            found["samples_per_second"] = (self.samples - before.samples) / passed
            found["steps_per_second"] = (self.step - before.steps) / passed
            whole = seconds["whole"] - before.seconds.get("whole", 0.0)
            if whole > 0:
                shares = {part: (seconds[part] - before.seconds.get(part, 0.0)) / whole for part in timeline.PARTS}
                found["shares"] = {part: round(share, 4) for part, share in shares.items()}
        self.points.append(_Point(now, self.samples, self.step, seconds, self.stale))
        self.last = found
        return found

    def brief(self) -> dict[str, float]:
        """What a launcher shows of it: the AUC, how much of the pass is done and how many seconds are left, the share
        of the time that this worker waits, and how stale its gradients are, as far as each is known."""
        shares = self.last.get("shares", {})
        found = {
            "auc": self.metrics.get("auc"),
            "done": self.place.done,
            "left_seconds": self.last.get("left_seconds"),
            "waits": sum(shares.get(part, 0.0) for part in ("read", "pull", "push", "wait")) if shares else None,
            "in_flight": self.last.get("in_flight"),
            "staleness": self.last.get("staleness"),
        }
        numbers = {name: _number(value) for name, value in found.items()}
        return {name: value for name, value in numbers.items() if value is not None}

    def _since(self, now: float) -> _Point:
        while len(self.points) > 1 and now - self.points[0].time > _WINDOW:
            self.points.popleft()
        return self.points[0] if self.points else _Point(now, self.samples, self.step, {})

    def _left(self, now: float) -> float | None:
        """Seconds until the pass is over, at the pace so far."""
        done, passed = self.place.done, now - self.place.began
        if not done or passed <= 0:
            return None
        return round(passed * (1 - done) / done, 1)


worker = Standing()


def _number(value: Any) -> float | None:
    """A number that JSON has; None for what is none, or not finite."""
    with contextlib.suppress(Exception):
        number = float(value)
        return number if math.isfinite(number) else None
    return None


def _resident() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
