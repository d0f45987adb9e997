"""The number of workers of a job that runs, changed: by whom, in which order, and until when.

Server 0 decides: it refuses what cannot be, lets workers of higher ranks join, and tells those that are to leave. Only
then somebody starts processes, or sees them end. Whatever runs a job's workers has a ``Workplace``, and ``Scaling``
does the rest of it (``following.Following``, where other hosts have workers, too)::

    scaling.ask(3, answer)     # answer.say(…) as it goes on; answer.end(…) when it is over, or why it is not done
    scaling.update()           # several times a second

An engine whose workers are looked after by others, who also start them again, needs no ``Scaling``: it calls
``flota.launch.envoy`` and has the others start or stop as many.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from flota.launch.envoys import Envoy, Said


class Workplace(Protocol):
    """Where a job's workers run. Workers are called by their index among all of the job."""

    @property
    def workers(self) -> int:
        """How many there shall be."""

    def set_workers(self, workers: int) -> None:
        """So many there shall be from here on, also for those that are started again, and when the job is resumed."""

    def start_worker(self, index: int) -> str:
        """Starts it, as one that joins: nobody with this index runs. Returns what is to be said of it."""

    def ask_to_leave(self, index: int) -> None:
        """It was told by server 0 that it is to leave, and ends by itself; one that has not joined yet is stopped.
        It is not started again."""

    def runs(self, index: int) -> bool:
        """Whether it has not ended, or is to be started again."""

    def joined(self, index: int) -> bool:
        """Whether it has joined since ``start_worker``."""

    def said_goodbye(self, index: int) -> bool:
        """Of one that has ended: whether it did so in good order. Else the servers are told in its place."""

    def send_envoy(self, *words: str) -> Envoy:
        """Tells server 0: see ``envoy``."""


class Answer(Protocol):
    """Who asked for another number."""

    @property
    def gone(self) -> bool:
        """Whether nobody listens any more."""

    def say(self, line: str) -> None:
        """How it goes on."""

    def end(self, line: str, *, done: bool) -> None:
        """It is done; or it is not, and why."""


def workers_text(workers: int) -> str:
    return f"{workers} worker{'s' * (workers != 1)}"


def _overtaken(workers: int) -> str:
    return f"another command asks for {workers_text(workers)}: that holds"


def names(indices: Iterable[int]) -> str:
    found = [str(index) for index in indices]
    return f"worker{'s' * (len(found) != 1)} {', '.join(found)}"


class Scaling:
    """One change after the other. A later one takes the place of an earlier that is not over: whoever asked is told."""

    def __init__(self, place: Workplace) -> None:
        self._place = place
        self._asked: list[Question] = []  # that server 0 is still to be told
        self._envoy: Envoy | None = None
        self._telling: Question | None = None  # what it tells; None: that a worker has gone
        self._under_way: Answer | None = None
        self._before = place.workers
        self._absent: set[int] = set()  # that were never started, or have left
        self._coming: set[int] = set()  # that were started, and have not joined
        self._leaving: set[int] = set()
        self._given_up: set[int] = set()  # that have failed, until server 0 has heard of it
        self._asked_back: set[int] = set()  # before they had left, as far as is known
        self._goodbyes: list[int] = []  # to be said in their place
        self._settles = False

    def ask(self, workers: int, answer: Answer) -> None:
        self._asked.append(Question("scale", workers, answer))

    def settle(self) -> None:
        """At the beginning of a job that is resumed: there are as many as it was left with, whoever was about to come
        or go."""
        self._envoy = self._place.send_envoy("settle", str(self._place.workers))
        self._telling = None
        self._settles = True

    def leaves(self, index: int) -> bool:
        """Whether it is to leave or has left: its end is no failure, however it comes."""
        return index >= self._place.workers

    def comes(self, index: int) -> bool:
        """Whether it is to join and has not: nobody waits for it yet."""
        return index in self._coming or index in self._given_up

    def give_up(self, index: int, why: str) -> str:
        """A worker that was to join has failed, and is not started again: the job goes on with those below it. Returns
        what is to be said of it; nothing, where it was given up before."""
        if index in self._given_up:
            return ""
        self._given_up.add(index)
        left = min(self._given_up)  # of several, the lowest says how many are left
        line = f"worker {index} could not join: {why}; the job goes on with {workers_text(left)}"
        asked = self._telling
        if asked is not None and asked.word == "scale" and asked.workers <= index:
            # Server 0 has heard of the later change before the launch has: it sends this worker away.
            line = ""
            self._end(_overtaken(asked.workers), done=False)
        else:
            self._end(line, done=False)
        self._coming.discard(index)
        self._absent.add(index)
        self._goodbyes.append(index)  # it may have come, and not as far as the others
        self._asked.insert(0, Question("without", index, Nobody()))
        return line

    def close(self) -> None:
        if self._envoy is not None:
            self._envoy.close()
        for question in self._asked:
            question.answer.end("the job has ended", done=False)
        if self._telling is not None:
            self._telling.answer.end("the job has ended", done=False)
        self._end("the job has ended", done=False)

    def update(self) -> None:
        self._hear()
        self._coming -= {index for index in self._coming if self._place.joined(index) and self._told(index, "joined")}
        for index in sorted(self._leaving | self._asked_back):
            if not self._place.runs(index):
                self._see_off(index)
        for index in sorted(self._absent):
            if index < self._place.workers and self._may_start(index):
                self._start(index)
        if self._under_way is not None and not self._coming and not self._leaving and not self._goodbyes:
            self._end(f"{workers_text(self._place.workers)} ({self._before} before)", done=True)
        self._tell()

    def _concerned(self, indices: Iterable[int]) -> Iterable[int]:
        """Those of them that run here, if they run."""
        return indices

    def _may_start(self, index: int) -> bool:
        return index not in self._goodbyes and index not in self._given_up

    def tell(self, line: str) -> None:
        """To whoever asked for the change that is under way."""
        if self._under_way is not None:
            self._under_way.say(line)

    def _told(self, index: int, what: str) -> bool:
        self.tell(f"worker {index} has {what}")
        return True

    def _see_off(self, index: int) -> None:
        said = self._place.said_goodbye(index)
        if index in self._asked_back and not said:
            self._asked_back.discard(index)  # it stayed, and ended as any other
            return
        self._asked_back.discard(index)
        self._leaving.discard(index)
        self._absent.add(index)
        if not said:
            self._goodbyes.append(index)
        self._told(index, "left" if said else "ended before it had left")

    def _start(self, index: int) -> None:
        self._absent.discard(index)
        self._coming.add(index)
        self.tell(self._place.start_worker(index))

    # --- what server 0 is told ---

    def _tell(self) -> None:
        if self._envoy is not None:
            return
        if self._goodbyes:
            self._envoy = self._place.send_envoy("gone", str(self._goodbyes[0]))
        elif self._asked:
            self._telling = self._asked.pop(0)
            self._envoy = self._place.send_envoy(self._telling.word, str(self._telling.workers))

    def _hear(self) -> None:
        said = self._envoy.said() if self._envoy is not None else None
        if said is None:
            return
        self._envoy, telling, self._telling = None, self._telling, None
        if self._settles:
            self._settles = False
        elif telling is None:
            # Where nobody could be told, the leases that it had end by themselves.
            self._goodbyes.pop(0)
        else:
            self._heard(telling, said)

    def _heard(self, question: Question, said: Said) -> None:
        if said.error:
            question.answer.end(said.error, done=False)
        elif question.word == "scale":
            # Whoever has failed is wanted again.
            self._given_up.clear()
            self._asked = [other for other in self._asked if other.word == "scale"]
            self._begin(question.workers, question.answer)
        else:
            self._given_up.discard(question.workers)
            if said.wanted < self._place.workers:
                self._begin(said.wanted, question.answer)

    def _begin(self, workers: int, answer: Answer) -> None:
        self._end(_overtaken(workers), done=False)
        self._under_way = answer
        self._before = self._place.workers
        if workers != self._before:
            self._place.set_workers(workers)
        for index in self._concerned(range(self._before, workers)):
            if index in self._leaving:
                self._leaving.discard(index)
                self._asked_back.add(index)
            else:
                self._absent.add(index)
        for index in self._concerned(range(workers, self._before)):
            self._coming.discard(index)
            self._asked_back.discard(index)
            if index in self._absent:
                continue
            self._leaving.add(index)
            self._place.ask_to_leave(index)
        if self._leaving:
            answer.say(f"{names(sorted(self._leaving))} will leave after the batch at hand")

    def _end(self, line: str, *, done: bool) -> None:
        answer, self._under_way = self._under_way, None
        if answer is not None:
            answer.end(line, done=done)


@dataclass(frozen=True)
class Question:
    word: str  # of an envoy's
    workers: int
    answer: Answer


class Nobody:
    """Waits for no answer."""

    gone = False

    def say(self, line: str) -> None: ...

    def end(self, line: str, *, done: bool) -> None: ...
