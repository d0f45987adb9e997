"""The number of workers of a job that runs on several hosts, followed on one of them.

Each host looks after its own. Whoever asks for another number asks server 0, by an envoy that also tells how it goes on
(``changes``); every host hears of it from server 0, by a watch, and starts those of the new workers that fall to it, or
sees its own go. Hosts never ask each other.

What a watch tells is a moment old. Nothing is asked of server 0 because of it but what is harmless when it is too late:
``gone`` for a worker that is not there, and ``without``, which never makes a number greater.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from typing import Protocol

from flota.launch.changes import Changes
from flota.launch.envoys import Said, Watch
from flota.launch.scaling import Answer, Nobody, Question, Scaling, Workplace

# Seconds until what server 0 knew when a worker ended has been heard of here.
_HEARD_AFTER = 2.0
_AGAIN = 5.0  # seconds before what went wrong on this host, or could not be told, is tried again


class PartialWorkplace(Workplace, Protocol):
    """One of several that the job's workers are at."""

    def is_here(self, index: int) -> bool:
        """Whether a worker of this index runs here, if it runs. What a workplace does it is asked of these alone."""

    @property
    def takes_workers(self) -> bool:
        """Whether any worker ever runs here."""

    @property
    def indices(self) -> Collection[int]:
        """The workers that run here, or have."""

    def send_watch(self) -> Watch | None:
        """None: it could not be started."""


class Following(Scaling):
    """``changes``: asks on behalf of whoever asks this host."""

    def __init__(self, place: PartialWorkplace, changes: Changes) -> None:
        super().__init__(place)
        self._here = place
        self._changes = changes
        self._watch: Watch | None = None
        self._watches = place.takes_workers  # False once the number is known to be fixed
        self._next_watch = 0.0
        self._known = Said()
        self._left: dict[int, float] = {}  # before it was known here that they were to, and when
        self._later: list[tuple[float, Question]] = []  # what server 0 could not be told, and when it is tried again
        self._told_without: dict[int, int] = {}  # of those given up: the version at which server 0 had heard of it
        self._bidden_farewell: set[int] = set()

    def ask(self, workers: int, answer: Answer) -> None:
        self._changes.begin(workers, answer)

    def settle(self) -> None:
        """Server 0 knows how many there are to be, and says so."""

    def close(self) -> None:
        self._changes.close()
        if self._watch is not None:
            self._watch.close()
        super().close()

    def update(self) -> None:
        self._changes.update()
        self._look()
        while self._later and self._later[0][0] <= time.monotonic():
            self._asked.append(self._later.pop(0)[1])
        super().update()

    def idles(self, patience: float) -> bool:
        """Whether all workers of this host have left, and others may come: as long as server 0 answers, or has been
        away for no longer than ``patience`` seconds."""
        if self._watch is None or self._watch.away_for > patience:
            return False
        return all(index in self._absent or self.leaves(index) for index in self._here.indices)

    def may_leave(self, index: int, ended_for: float) -> bool:
        """Of a worker that ended so many seconds ago: whether it may have been one that is to leave, which is not known
        here yet."""
        return self._watches and index > 0 and ended_for < _HEARD_AFTER

    # --- what server 0 says ---

    def _look(self) -> None:
        if self._watch is None:
            if self._watches and time.monotonic() >= self._next_watch:
                self._next_watch = time.monotonic() + _AGAIN
                self._watch = self._here.send_watch()
            return
        told = self._watch.told
        if told != self._known and told.wanted and not told.error:
            self._follow(told)
        self._forgive()
        self._notice_those_who_left()
        if self._watch.status is not None:
            self._watches = self._watch.status != 0  # it ends by itself where the number is fixed, or it cannot ask
            self._watch.close()
            self._watch = None

    def _follow(self, told: Said) -> None:
        if told.version < self._known.version:
            self._told_without = dict.fromkeys(self._told_without, 0)  # a server 0 that has forgotten all counts anew
        self._known = told
        for index in self._concerned(range(told.wanted, told.workers)):
            self._bid_farewell(index)
        if told.wanted != self._place.workers:
            self._begin(told.wanted, Nobody())

    def _forgive(self) -> None:
        """Whoever still wants a worker that could not come, by what was heard since server 0 knew of it, has asked
        anew."""
        for index, version in list(self._told_without.items()):
            if self._known.version >= version:
                del self._told_without[index]
                self._given_up.discard(index)

    def _bid_farewell(self, index: int) -> None:
        """Of one that is to leave. Where it never ran since this launch began, it ran under one before."""
        if index not in self._here.indices and index not in self._bidden_farewell:
            self._bidden_farewell.add(index)
            self._goodbyes.append(index)

    def _notice_those_who_left(self) -> None:
        """They heard of another number before this host did."""
        for index in self._here.indices:
            known = self._absent | self._coming | self._leaving | self._asked_back
            if index not in known and not self._place.runs(index) and self._place.said_goodbye(index):
                self._absent.add(index)
                self._left[index] = time.monotonic()

    def _may_start(self, index: int) -> bool:
        # By then this host has heard of that number as well; if it has not, another one was asked for since.
        settled = time.monotonic() - self._left.get(index, -_HEARD_AFTER) > _HEARD_AFTER
        return settled and super()._may_start(index)

    def _start(self, index: int) -> None:
        self._left.pop(index, None)
        super()._start(index)

    def _concerned(self, indices: Iterable[int]) -> Iterable[int]:
        return filter(self._here.is_here, indices)

    def _heard(self, question: Question, said: Said) -> None:
        """That a worker could not come is known to server 0, or is told once more."""
        if said.error:
            self._later.append((time.monotonic() + _AGAIN, question))
        else:
            self._told_without[question.workers] = said.version
