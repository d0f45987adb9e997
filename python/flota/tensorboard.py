"""A worker's loss, metrics and speed as TensorBoard reads them: ``FLOTA_TENSORBOARD`` names a folder, and worker N
writes into ``worker-N`` of it.

Everything is done by a thread of its own, every two seconds, from what ``flota.standing`` and ``flota.timeline`` have
anyway. A step that made no progress writes nothing. A disk that is full is told once; what could not be written is
left out, never half there, and training goes on.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import itertools
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from flota import config, log, timeline
from flota.errors import InvalidArgument, SystemFailure
from flota.standing import Standing

_EVERY = 2.0  # seconds
_STALE_EVERY = 5  # times: the servers are asked
_LAST_WAIT = 2.0
_numbers = itertools.count()


class Stale(Protocol):
    """How stale gradients were so far; as ``flota.staleness()`` has it."""

    @property
    def mean(self) -> float: ...

    @property
    def max(self) -> int: ...

    @property
    def count(self) -> int: ...


def check_installed(named: str) -> None:
    """Refuses ``named``, the flag or variable by which event files are asked for, where nothing could write them."""
    if find_spec("tensorboard") is None:
        raise InvalidArgument(f"{named} needs TensorBoard, which is not installed: pip install 'flota[tensorboard]'")


class EventFile:
    """One file of events, which only grows by whole ones. Thread safety: one call at a time."""

    def __init__(self, folder: Path) -> None:
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self.path = folder / name
        self._size = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise SystemFailure(
                f"{self.path} cannot be made: {error.strerror}; {config.TENSORBOARD} names a folder in which workers "
                "may write"
            ) from error
        with contextlib.suppress(OSError):  # a full disk: it comes before the first event that there is room for
            self.write()

    def write(self, *events: Any) -> None:
        """Appends these events, all or none of them (OSError)."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        records = io.BytesIO()
        writer = RecordWriter(records)
        first = [] if self._size else [Event(wall_time=time.time(), file_version="brain.Event:2")]
        for event in [*first, *events]:
            writer.write(event.SerializeToString())
        self._append(memoryview(records.getvalue()))

    def close(self) -> None:
        os.close(self._file)

    def _append(self, records: memoryview) -> None:
        left = records
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            # A reader takes what follows half a record for damage.
            os.ftruncate(self._file, self._size)
            os.lseek(self._file, self._size, os.SEEK_SET)
            raise
        self._size += len(records)


@dataclass(frozen=True)
class _Point:
    """What speed is measured from."""

    time: float
    step: int
    samples: int
    seconds: Mapping[str, float]


class Scribe:
    """At work from here until ``close``."""

    stale: Callable[[], Stale] | None = None  # asked now and then, where this worker is to show staleness

    def __init__(self, folder: str, index: int, standing: Standing) -> None:
        check_installed(f"{config.TENSORBOARD}={folder}")
        self._file = EventFile(Path(folder) / f"worker-{index}")
        self._standing = standing
        self._before = self._point()
        self._stale_before = (0, 0.0)
        self._writes = 0
        self._purges = config.restarts() > 0
        self._told = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flota tensorboard", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def close(self) -> None:
        """Writes what is new; a second call does nothing."""
        if self._ended.is_set():
            return
        atexit.unregister(self.close)
        self._ended.set()
        self._thread.join(_LAST_WAIT)

    def _run(self) -> None:
        while True:
            last = self._ended.wait(_EVERY)
            try:
                self._write()
            except Exception as error:  # whatever a loss or a metric is, and whatever the disk says
                self._tell(error)
            if last:
                self._file.close()
                return

    def _write(self) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary

        now = self._point()
        if now.step == self._before.step:
            return
        values = {name: value for name, value in self._scalars(now).items() if math.isfinite(value)}
        events = []
        if self._purges:  # steps that this worker made before it was started again, and makes once more
            events.append(Event(wall_time=time.time(), step=now.step, session_log=SessionLog(status=SessionLog.START)))
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])
        events.append(Event(wall_time=time.time(), step=now.step, summary=summary))
        self._file.write(*events)
        self._purges = False
        self._before = now
        self._writes += 1

    def _point(self) -> _Point:
        standing = self._standing
        return _Point(time.monotonic(), standing.step, standing.samples, timeline.seconds())

    def _scalars(self, now: _Point) -> dict[str, float]:
        standing, before = self._standing, self._before
        found: dict[str, Any] = {"loss": standing.loss, "learning_rate": standing.learning_rate}
        found |= {f"metric/{name}": value for name, value in list(standing.metrics.items())}
        passed = now.time - before.time
        if passed > 0 and now.step > before.step:
            found["speed/samples_per_second"] = (now.samples - before.samples) / passed
            found["speed/steps_per_second"] = (now.step - before.step) / passed
        whole = now.seconds["whole"] - before.seconds["whole"]
        if whole > 0:
            for part in timeline.PARTS:
                found[f"share/{part}"] = min(1.0, max(0.0, (now.seconds[part] - before.seconds[part]) / whole))
        if standing.in_flight is not None:
            with contextlib.suppress(Exception):  # of a connection that ends meanwhile
                found["steps_in_flight"] = standing.in_flight()
        found["pass_done"] = standing.place.done
        return {**_numbers_of(found), **self._staleness()}

    def _staleness(self) -> dict[str, float]:
        """Of the pushes since they were asked for before."""
        if self.stale is None or self._writes % _STALE_EVERY:
            return {}
        with contextlib.suppress(Exception):  # servers that are away
            told = self.stale()
            count, total = self._stale_before
            self._stale_before = (told.count, told.mean * told.count)
            if told.count > count:
                mean = (told.mean * told.count - total) / (told.count - count)
                return {"staleness/mean": mean, "staleness/max": float(told.max)}
        return {}

    def _tell(self, error: Exception) -> None:
        if not self._told:
            self._told = True
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            log.say(
                "tensorboard_failed",
                f"{self._file.path} could not be written: {reason}; training goes on, and what there is no room for is "
                "not in TensorBoard",
                "warning",
            )


def _numbers_of(values: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for name, value in values.items():
        with contextlib.suppress(Exception):
            found[name] = float(value)
    return found
