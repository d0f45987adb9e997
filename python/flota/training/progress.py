"""A line in the terminal that shows how training goes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from flota.training.fetching import Watch

_EVERY = 0.25  # seconds


class Bar:
    def __init__(self, what: str, batches: int | None) -> None:
        self._progress = Progress(
            TextColumn(what),
            BarColumn(bar_width=20),
            MofNCompleteColumn() if batches is not None else TextColumn("{task.completed} batches"),
            TextColumn("{task.fields[shown]}"),
            TimeElapsedColumn(),
            console=Console(file=sys.stderr),
            refresh_per_second=4,
        )
        self._task = self._progress.add_task(what, total=batches, shown="")
        self._began = self._last = time.monotonic()
        self._samples = 0
        self._rate = 0.0

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, watch: Watch, last: bool = False) -> None:
        now = time.monotonic()
        if now - self._last < _EVERY and not last:
            return
        since = now - (self._began if last else self._last)
        self._rate = (watch.samples - (0 if last else self._samples)) / max(since, 1e-9)
        self._last, self._samples = now, watch.samples
        self._progress.update(self._task, completed=watch.batches, shown=shown(watch, self._rate))


def shown(watch: Watch, rate: float) -> str:
    parts = [f"{rate:,.0f} samples/s"]
    if (loss := watch.loss) is not None:
        parts.append(f"loss {loss:.4f}")
    if watch.has_auc:
        parts.append(f"AUC {watch.auc.compute():.4f}")
    return " · ".join(parts)


@contextmanager
def bar(what: str, dataset: Any, wanted: bool | None) -> Iterator[Bar | None]:
    """A progress bar, if it is wanted; unless said, in a terminal only."""
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield None
        return
    try:
        batches: int | None = len(dataset)
    except TypeError:
        batches = None
    with Bar(what, batches) as made:
        yield made
