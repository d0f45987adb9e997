"""A trace of this process, from within: for scripts, and for jobs without servers, where there is nobody to ask."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import TracebackType

from flota import checks, timeline
from flota.communicator.loss import watch_losses
from flota.data.loaders import watch_loaders
from flota.errors import FlotaError, InvalidArgument, SystemFailure
from flota.fleet import fleet
from flota.fleet.tracing import describe
from flota.observe.trace import chrome
from flota.observe.trace.clocks import Clocks
from flota.observe.trace.notes import WorkerTrace, read
from flota.observe.trace.summary import lines, summary_of
from flota.standing import worker


class Tracing:
    """A trace under way, which ``flota.trace`` has begun. ``str`` of it is its table, once it is written."""

    def __init__(self, path: Path, steps: int) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._found: WorkerTrace | None = None
        self._over = False
        self._trace = timeline.trace(steps, self._done, at_once=True)

    @property
    def written(self) -> bool:
        """Whether the file is there."""
        return self._found is not None

    def stop(self) -> None:
        """Ends it with the whole steps that were made so far, and writes them. Once it is written, it does nothing."""
        timeline.end(self._trace)
        self._finish()
        if self._found is None:
            raise FlotaError(
                f"flota.trace: nothing is written to {self._path}: no whole step was made, by the optimizer of "
                "flota.distributed_optimizer, in the thread that called flota.trace"
            )

    def __enter__(self) -> Tracing:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self.stop()
        else:
            timeline.end(self._trace)

    def __str__(self) -> str:
        summary = None if self._found is None else summary_of(self._found)
        return "no step is traced yet" if summary is None else "\n".join(lines([summary]))

    def _done(self, _: timeline.Trace) -> None:
        # In the middle of training: a full disk must not end that.
        try:
            self._finish()
        except SystemFailure as error:
            print(f"flota.trace: {error}", file=sys.stderr, flush=True)

    def _finish(self) -> None:
        with self._lock:
            if self._over or not self._trace.made:
                return
            self._over = True
            note = describe("", self._trace, worker.step)
            found = read(fleet.worker_index() if fleet.is_worker() else 0, note)
            assert found is not None
            chrome.write(self._path, [found], Clocks({found.worker: 0.0}, 0.0, {}))
            self._found = found


def trace(path: str | os.PathLike[str], *, steps: int = 20) -> Tracing:
    """Writes a timeline of this process's next steps to ``path``: when it read, pulled, computed forward and backward,
    pushed, and waited. It opens in https://ui.perfetto.dev and chrome://tracing.

    The file is written at the end of the last of so many ``steps``, 1 to 1,000. As a context it ends with its block,
    with the steps made until then::

        with flota.trace("trace.json", steps=100) as traced:
            train()
        print(traced)    # what each part of a step takes, and what to do about the slowest

    Call it in the thread that trains, between two steps. ``flota trace`` does the same to a running job, from outside.
    """
    steps = checks.whole("steps", steps, 1, timeline.MOST_STEPS)
    file = Path(path)
    if file.is_dir() or not file.parent.is_dir():
        raise InvalidArgument(f"flota.trace: {file}: name a file in a folder that is there")
    watch_losses()
    watch_loaders()
    return Tracing(file, steps)
