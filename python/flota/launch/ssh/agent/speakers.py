"""Processes of a node that speak to the job's servers for others: heralds of workers that will be back, and changes of
the number of workers, for whoever asks the launch."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from flota.launch.changes import PATIENCE
from flota.launch.envoys import Change
from flota.launch.heralds import Herald


def line(text: str, *, said: bool, of: int | None = None) -> dict[str, Any]:
    """A line for the launch: whether one of the node's launches said it as an event; ``of``: which question it
    answers."""
    return {"text": text[:4096], "said": said, "of": of}


class Speakers:
    """``environment``: how the servers are found; there before the first ``update`` that wants anybody."""

    def __init__(self) -> None:
        self.environment: dict[str, str] = {}
        self._heralds: dict[int, Herald] = {}
        self._changes: dict[int, Change] = {}  # by the number of the question

    def update(self, heralds: Iterable[int], asks: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
        """Has those at work that are wanted, and no others. ``asks``: (question, workers) each. Returns the lines that
        are answers. Where there is no room for another process, it is tried again."""
        wanted = set(heralds)
        for worker in self._heralds.keys() - wanted:
            self._heralds.pop(worker).close()
        for worker in wanted - self._heralds.keys():
            who = {"PADDLE_TRAINER_ID": str(worker), "PADDLE_TRAINERS_NUM": str(worker + 1)}
            with contextlib.suppress(OSError):
                self._heralds[worker] = Herald({**self.environment, **who})
        for question in self._changes.keys() - {question for question, _ in asks}:
            self._changes.pop(question).close()
        for question, workers in asks:
            if question not in self._changes:
                with contextlib.suppress(OSError):
                    self._changes[question] = Change(self.environment, workers, PATIENCE)
        return [
            line(json.dumps(answer), said=False, of=question)
            for question, change in self._changes.items()
            for answer in change.answers()
        ]

    def close(self) -> None:
        self.update([], [])
