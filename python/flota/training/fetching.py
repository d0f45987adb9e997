"""What is printed every so many batches, in the form that Paddle's executor prints it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from flota import checks
from flota.errors import InvalidArgument
from flota.metrics import Auc
from flota.training.outcome import Outcome

# A name that the step returns ("loss", "auc", "batch_auc" are always known), or something that computes a number.
Fetch = Any

_WINDOW = 20  # batches of a batch AUC
_TOGETHER = 16  # batches


class Watch:
    """Keeps what people want to see of a training."""

    def __init__(self, batch_auc: bool = False) -> None:
        self._auc = Auc(window=_WINDOW if batch_auc else 0)
        # Losses and histogram are brought up to date for several batches at once, where none is asked for on its own.
        self._together = 1 if batch_auc else _TOGETHER
        self._new_losses: list[tuple[torch.Tensor, int]] = []
        self._scores: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._scored = False
        self.batches = 0
        self.samples = 0
        self.last = Outcome(0)
        self._losses = 0.0
        self._weight = 0

    def note(self, outcome: Outcome) -> None:
        self.batches += 1
        self.samples += outcome.samples
        if outcome.loss is not None:
            self._new_losses.append((outcome.loss.detach(), outcome.samples))
        if outcome.scores is not None and outcome.labels is not None and outcome.samples > 0:
            self._scored = True
            self._scores.append((_rows(outcome.scores.detach()), _rows(outcome.labels)))
        if max(len(self._scores), len(self._new_losses)) == self._together:
            self._count()
        self.last = outcome

    def _count(self) -> None:
        # In double: an epoch's sum is millions of times a batch's loss.
        self._losses += sum(float(loss) * samples for loss, samples in self._new_losses)
        self._weight += sum(samples for _, samples in self._new_losses)
        self._new_losses = []
        if self._scores:
            scores, labels = zip(*self._scores, strict=True)
            self._scores = []
            self._auc.update(torch.cat(scores), torch.cat(labels))

    @property
    def auc(self) -> Auc:
        """Of all predictions so far."""
        self._count()
        return self._auc

    @property
    def loss(self) -> float | None:
        """The mean of all losses, by sample."""
        self._count()
        return self._losses / self._weight if self._weight > 0 else None

    @property
    def has_auc(self) -> bool:
        return self._scored


class Fetches:
    """The fetches of ``fetch_list``, by the names of ``fetch_info``."""

    def __init__(self, fetch_list: Sequence[Fetch] | None, fetch_info: Sequence[str] | None, print_period: int) -> None:
        wanted = list(fetch_list or [])
        names = list(fetch_info or [])
        if names and len(names) != len(wanted):
            raise InvalidArgument(f"fetch_info has {len(names)} names for the {len(wanted)} of fetch_list")
        self._wanted = list(zip(names or map(_name, wanted), wanted, strict=True))
        self._period = checks.whole("print_period", print_period, 1, 1 << 30)

    def want(self, name: str) -> bool:
        return any(fetch == name for _, fetch in self._wanted)

    def show(self, watch: Watch) -> None:
        """Prints them, if it is time."""
        if self._wanted and watch.batches % self._period == 0:
            values = ", ".join(f"{name}: [{_text(self._value(fetch, watch))}]" for name, fetch in self._wanted)
            now = time.strftime("%Y-%m-%d %H:%M:%S")
            print(f"time: [{now}], batch: [{watch.batches}], {values}", flush=True)

    def _value(self, fetch: Fetch, watch: Watch) -> Any:
        known: dict[str, Callable[[], Any]] = {
            "loss": lambda: watch.last.loss,
            "auc": lambda: watch.auc.compute(),
            "batch_auc": lambda: watch.auc.compute_window(),
        }
        if not isinstance(fetch, str):
            return fetch.compute() if hasattr(fetch, "compute") else fetch()
        if fetch in watch.last.named:
            return watch.last.named[fetch]
        if fetch not in known:
            there = ", ".join(sorted({*known, *watch.last.named}))
            raise InvalidArgument(
                f"fetch_list names {fetch!r}, and the step returned no such value; there are: {there}"
            )
        if "auc" in fetch and not watch.has_auc:
            raise InvalidArgument(
                f"fetch_list names {fetch!r}, and nothing tells predictions and labels: give loss=BCEWithLogitsLoss(), "
                "or return them as 'prediction' and 'label'"
            )
        if fetch == "loss" and watch.last.loss is None:
            raise InvalidArgument("fetch_list names 'loss', and the step returned none")
        return known[fetch]()


def _name(fetch: Fetch) -> str:
    return fetch if isinstance(fetch, str) else getattr(fetch, "__name__", type(fetch).__name__.lower())


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = value.item() if value.numel() == 1 else value.tolist()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _rows(values: torch.Tensor) -> torch.Tensor:
    """As a batch: a single number is one of its own."""
    return values.reshape(1) if values.dim() == 0 else values
