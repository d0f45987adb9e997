"""What people see of an epoch while it runs: fetches, where the time went, a progress bar."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from flota.metrics import Auc
from flota.training.fetching import Fetch, Fetches, Watch
from flota.training.outcome import Outcome
from flota.training.progress import Bar, bar
from flota.training.trainer import Times

_AUC_EVERY = 1.0  # seconds


@dataclass(frozen=True)
class Trained:
    """What came out, on this worker. ``loss`` is the mean by sample, ``auc`` of all predictions; None where nothing
    tells. ``auc_metric.compute_global()`` is that of all workers, when all of them call it."""

    batches: int
    samples: int
    seconds: float
    loss: float | None
    auc: float | None
    auc_metric: Auc


class View:
    """Shows each batch's outcome, and keeps what came of all. One thread's at a time."""

    def __init__(
        self, fetch_list: Sequence[Fetch] | None, fetch_info: Sequence[str] | None, print_period: int, debug: bool
    ) -> None:
        self.times = Times()
        self._fetches = Fetches(fetch_list, fetch_info, print_period)
        self._watch = Watch(self._fetches.want("batch_auc"))
        self._period = print_period
        self._debug = debug
        self._bar: Bar | None = None
        self._began = self._told = time.monotonic()

    @contextmanager
    def shown(self, what: str, dataset: Any, progress: bool | None) -> Iterator[None]:
        """While the epoch runs."""
        self._began = time.monotonic()
        with bar(what, dataset, progress) as self._bar:
            yield
            if self._bar is not None:
                self._bar.show(self._watch, last=True)

    def show(self, outcome: Outcome) -> None:
        watch = self._watch
        watch.note(outcome)
        self._fetches.show(watch)
        if self._debug and watch.batches % self._period == 0:
            print(f"batch {watch.batches}: {self.times}", flush=True)
        if self._bar is not None:
            self._bar.show(watch)
        if watch.has_auc and time.monotonic() - self._told > _AUC_EVERY:
            watch.auc.compute()  # which those who look on see
            self._told = time.monotonic()

    def timed(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches, with the time that it took to wait for them."""
        while True:
            with self.times.of("wait for data"):
                try:
                    batch = next(batches)
                except StopIteration:
                    return
            yield batch

    def result(self) -> Trained:
        watch = self._watch
        area = watch.auc.compute() if watch.has_auc else None
        return Trained(watch.batches, watch.samples, time.monotonic() - self._began, watch.loss, area, watch.auc)
