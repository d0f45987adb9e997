"""Other numbers of workers that server 0 is asked for by a process of this host each: who asked hears how it goes on.

Of a launch that does not look after all of its job's workers: those of other hosts, which do, hear it from server 0.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from flota.launch.envoys import Change
from flota.launch.scaling import Answer

# Seconds for which nobody may come or go before a change is left to itself; whoever asks has a shorter time of its own.
PATIENCE = 600.0


class Changes:
    """They go on also where nobody waits any more, until somebody asks for another one. ``environment``: by which a
    process finds the servers."""

    def __init__(self, environment: Callable[[], Mapping[str, str]]) -> None:
        self._environment = environment
        self._under_way: list[tuple[Change, Answer]] = []

    def begin(self, workers: int, answer: Answer) -> None:
        for change, before in list(self._under_way):
            if before.gone:
                self._forget(change, before)
        try:
            self._under_way.append((Change(self._environment(), workers, PATIENCE), answer))
        except OSError as error:
            answer.end(f"the servers could not be asked: {os.strerror(error.errno or 0)}", done=False)

    def update(self) -> None:
        for change, answer in list(self._under_way):
            for told in change.answers():
                pass_on(told, answer)
            if change.over:
                self._forget(change, answer)

    def close(self) -> None:
        for change, answer in self._under_way:
            change.close()
            answer.end("the job has ended", done=False)
        self._under_way = []

    def _forget(self, change: Change, answer: Answer) -> None:
        change.close()
        self._under_way.remove((change, answer))


def pass_on(told: dict[str, Any], answer: Answer) -> None:
    """One line of a change."""
    if "end" in told:
        answer.end(str(told["end"]), done=told.get("done") is True)
    else:
        answer.say(str(told.get("say", "")))
