"""Where a worker stands in its script, as it tells it while it trains, and reads it when it was started again."""

from __future__ import annotations

import json
from typing import Any

from flota import _core
from flota.client import Client
from flota.errors import FlotaError
from flota.workers import Epoch, GoesOn, Where

_ENDED = 64  # epochs that are told
MOST_BYTES = 64 << 10

_Key = tuple[str, int]


class Epochs:
    """A worker's epochs: those that are open, and where it was at the end of each of the newest that are over.

    Of older ones it is only known whether workers met in one of them. If they did not, a worker that comes by again
    need not know where it was: the next epoch that is told takes it there.
    """

    def __init__(self, told: dict[str, Any], rank: int) -> None:
        self._rank = rank
        self._ended: dict[_Key, tuple[Where, bool]] = {
            (name, number): (Where(*there), met) for name, number, there, met in told.get("ended", [])
        }
        self._older: bool | None = told.get("older")  # None: there are none; else whether workers met in them
        self._open: dict[_Key, bool] = {(name, number): met for name, number, met in told.get("begun", [])}
        self._told_open = set(self._open)
        self._encoded = ""
        self._encode()

    def begin(self, epoch: Epoch) -> None:
        if self._open.setdefault((epoch.name, epoch.number), False) is False:
            self._encode()

    def meet(self) -> None:
        """Workers wait for each other."""
        if not all(self._open.values()):
            self._open = dict.fromkeys(self._open, True)
            self._encode()

    def end(self, epoch: Epoch, there: Where | None) -> None:
        """``there``: None on the way back, when an epoch that is not told gives nothing once more."""
        key = (epoch.name, epoch.number)
        met = self._open.pop(key, False)
        if there is not None:
            self._ended.setdefault(key, (there, met))
        self._keep(_ENDED)

    def went_on(self, epoch: Epoch) -> bool:
        """Whether it was open when the worker was started again."""
        return (epoch.name, epoch.number) in self._told_open

    def end_of(self, epoch: Epoch) -> Where | None:
        there, _ = self._ended.get((epoch.name, epoch.number), (None, False))
        return there

    def long_over(self, epoch: Epoch) -> bool:
        """On the way back, of an epoch that is not told: whether it is an older one. Whoever asks goes on without
        knowing where it ended, which is an error if workers met in it."""
        later = any(name == epoch.name and number > epoch.number for name, number in (*self._ended, *self._open))
        if self._older:
            raise FlotaError(
                f"worker {self._rank} was started again and comes to epoch {epoch.number} of a data set, which was "
                f"over long before, and workers met within such epochs: where it was then is kept for the newest "
                f"{_ENDED} epochs; the job must be restored from a save"
            )
        return later

    def shorten(self) -> bool:
        """What is told must have fewer bytes; whether there is something to leave out."""
        if not self._ended:
            return False
        self._keep(len(self._ended) // 2)
        return True

    def encoded(self) -> str:
        return self._encoded

    def _keep(self, most: int) -> None:
        while len(self._ended) > most:
            _, met = self._ended.pop(next(iter(self._ended)))
            self._older = met or bool(self._older)
        self._encode()

    def _encode(self) -> None:
        self._encoded = json.dumps(
            {
                "ended": [[*key, there, met] for key, (there, met) in self._ended.items()],
                "older": self._older,
                "begun": [[*key, met] for key, met in self._open.items()],
            }
        )[1:-1]


class Journey:
    """A worker's way through the steps of sync training: what is told of it with every step, and what was told before
    the worker was started again."""

    def __init__(self, client: Client, rank: int, last: _core.Finished | None) -> None:
        self._client = client
        told: dict[str, Any] = json.loads(last.position) if last is not None and last.position else {}
        self.epochs = Epochs(told, rank)
        self._open = [
            GoesOn(name, number, marks, lanes, Where(*there))
            for name, number, marks, lanes, there in told.get("open", [])
        ]
        self.arrivals: dict[str, int] = told.get("arrivals", {})

    def goes_on(self, epoch: Epoch) -> GoesOn | None:
        return next((one for one in self._open if (one.name, one.number) == (epoch.name, epoch.number)), None)

    def forget_open(self) -> None:
        """The worker has made another step: its data sets stand elsewhere."""
        self._open.clear()

    def position(self, open_epochs: list[GoesOn]) -> bytes:
        """Where the worker stands, for a step that is being finished."""
        there = json.dumps([list(one) for one in open_epochs]), json.dumps(self._client.native.arrivals)
        text = f'{{"open":{there[0]},"arrivals":{there[1]},{self.epochs.encoded()}}}'
        if len(text) > MOST_BYTES and self.epochs.shorten():
            return self.position(open_epochs)
        return text.encode()
