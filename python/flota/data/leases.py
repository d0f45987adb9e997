"""Who reads which piece of the data: the coordinator hands pieces out, and knows how far each was trained.

A worker asks for a piece when it has room. It tells how many of a piece's samples the tables have learnt from; it has
to say so from time to time to keep it. What a worker that falls silent had is handed out again, from where it was.

The bound: while nobody dies, every sample of an epoch is trained exactly once. When a worker dies, what it trained and
had not told yet is trained again by whoever gets its pieces, and nothing is left out: at most ``REPORT_SAMPLES``
samples and a batch, beside what was on its way to the servers (in Geo, up to ``k_steps`` batches) when it last told.
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from flota import _core, workers
from flota._core import SHARD_DONE, SHARD_RELEASED, LeaseOutcome
from flota.errors import FlotaError
from flota.log import say
from flota.standing import Place
from flota.standing import worker as standing
from flota.workers import Epoch, Workers

REPORT_SAMPLES = 8192
TEST_PREFIX = "test/"  # of passes that train nothing
LEASE_SECONDS = 10.0

# Seconds between two questions when all is in others' hands. Not spent at the coordinator: questions go one at a time,
# and what was trained must be told meanwhile.
_PATIENCE = 0.05

# Numbers of this process's questions, for all passes together: one that comes again under its number gets the same
# answer, and a pass that is begun anew, as after a look at its first batch, asks for the same pieces.
_calls = itertools.count(1)


@functools.cache
def own_coordinator() -> _core.Leases:
    """This process's own, where there are no servers."""
    return _core.Leases()


class Leased(NamedTuple):
    """A piece to read, and how many of its samples were trained before."""

    piece: int
    skip: int


class Mark(NamedTuple):
    """So many of a piece's samples; all of them, if done."""

    piece: int
    samples: int
    done: bool


class Assignment(Protocol):
    """Hands out pieces to the reader threads of one worker. Thread safety: any thread."""

    @property
    def tells(self) -> bool:
        """Whether others depend on what is told as trained."""

    def next(self, lane: int) -> Leased | None:
        """The next piece for a thread; None: there are no more. May wait for what other workers give back."""

    def waits(self, lane: int) -> bool:
        """Whether a thread waits for what other workers give back."""

    def trained(self, marks: Sequence[Mark], samples: int) -> None:
        """The steps so far have used these, among them so many samples that were not told yet."""

    def flush(self) -> None:
        """Tells all that is in the tables by now."""

    def untold(self) -> bool:
        """Whether something was trained that is not told yet, because the tables do not have it."""

    def lost(self, piece: int) -> bool:
        """Whether the piece is somebody else's by now."""

    def lane_of(self, piece: int) -> int:
        """Which thread reads the piece, where they have theirs by their numbers."""

    def close(self) -> None:
        """Nothing more is asked for; what is not done is given back."""


class Fixed:
    """Each piece by its number: for processes that cannot ask anybody, such as a ``DataLoader``'s."""

    tells = False

    def __init__(self, count: int, lanes: int, place: int, places: int) -> None:
        self._next = [place + places * lane for lane in range(lanes)]
        self._stride = places * lanes
        self._count = count

    def next(self, lane: int) -> Leased | None:
        piece = self._next[lane]
        self._next[lane] += self._stride
        return Leased(piece, 0) if piece < self._count else None

    def waits(self, lane: int) -> bool:
        return False

    def lane_of(self, piece: int) -> int:
        return 0  # nobody asks

    def trained(self, marks: Sequence[Mark], samples: int) -> None:
        """Nobody asks."""

    def flush(self) -> None:
        """Nobody asks."""

    def untold(self) -> bool:
        return False

    def lost(self, piece: int) -> bool:
        return False

    def close(self) -> None:
        """Nothing is held."""


class Used(NamedTuple):
    """What a batch was made of, and the step that used it: not told yet."""

    step: int
    marks: Sequence[Mark]
    samples: int


class Leases:
    """Pieces by lease from the job's coordinator. With ``classes``, this worker's place and how many share the pieces,
    each thread of each of them gets every so manieth piece, whoever is faster."""

    def __init__(
        self, epoch: Epoch, lanes: int, classes: tuple[int, int] | None, seconds: float = LEASE_SECONDS
    ) -> None:
        self._epoch = epoch
        self._workers: Workers = workers.current()
        self._client = self._workers.client
        self._lanes = lanes
        self._classes = classes
        self._seconds = seconds
        self._lock = threading.Lock()  # one question at a time: each has its number
        self._waiting: set[int] = set()  # lanes
        self._told_patience = 0
        self._held: dict[int, int] = {}  # pieces, and samples trained
        self._lost: set[int] = set()
        self._resumed: dict[int, Leased] = {}  # what each thread reads next, without having to ask
        self._trained: deque[Used] = deque()
        self._untold = 0
        self._heard = time.monotonic()  # when it was last asked
        self._closed = threading.Event()
        self._renewal = threading.Thread(target=self._renew, name="flota leases", daemon=True)
        self._renewal.start()

    @property
    def tells(self) -> bool:
        return self._workers.count > 1

    def go_on(self, marks: Sequence[Mark]) -> None:
        """Before anything is asked for, where each thread has its pieces by their numbers: a worker that was started
        again reads on from here, whatever it has told, which may be a batch more."""
        assert self._classes is not None
        place, places = self._classes
        self._resumed = {lane: Leased(place + places * lane, 0) for lane in range(self._lanes)}
        for piece, samples, done in marks:
            self._resumed[self.lane_of(piece)] = Leased(
                piece + places * self._lanes if done else piece, 0 if done else samples
            )

    def lane_of(self, piece: int) -> int:
        """Where each thread has its pieces by their numbers: which has this one."""
        place, places = self._classes or (0, 1)
        return (piece - place) // places % self._lanes

    def _next_resumed(self, lane: int) -> Leased | None:
        with self._lock:
            leased = self._resumed[lane]
            if leased.piece >= self._epoch.pieces or self._closed.is_set():
                return None
            stride = (self._classes or (0, 1))[1] * self._lanes
            self._resumed[lane] = Leased(leased.piece + stride, 0)
            self._held[leased.piece] = leased.skip
            return leased

    def next(self, lane: int) -> Leased | None:
        if self._resumed:
            return self._next_resumed(lane)
        began = time.monotonic()
        try:
            while not self._closed.is_set():
                outcome, piece, skip = self._ask(lane)
                if outcome == LeaseOutcome.granted:
                    return Leased(piece, skip)
                if outcome != LeaseOutcome.none:
                    return None
                self._waiting.add(lane)
                self._closed.wait(_PATIENCE)
                self._tell_patience(began)
            return None
        finally:
            self._waiting.discard(lane)

    def waits(self, lane: int) -> bool:
        return lane in self._waiting

    def _tell_patience(self, began: float) -> None:
        """Others' pieces may take as long as they take; but whoever looks on shall know what is waited for."""
        waited = time.monotonic() - began
        if self._client is not None and waited > self._client.timeout * (1 + self._told_patience):
            self._told_patience += 1
            say(
                "waits_for_pieces",
                f"worker {self._workers.index} has waited {waited:.0f} s for the last pieces of epoch "
                f"{self._epoch.number}, which other workers have",
                "warning",
            )

    def trained(self, marks: Sequence[Mark], samples: int) -> None:
        self._trained.append(Used(self._workers.steps, marks, samples))
        self._untold += samples
        # Who was paused for longer than its leases last asks before it trains on: others may have what it read.
        ended = time.monotonic() - self._heard > self._seconds
        if self._untold >= REPORT_SAMPLES or self._workers.in_step or ended:
            self.flush()

    def flush(self) -> None:
        self._ask(None)

    def untold(self) -> bool:
        return bool(self._trained)

    def lost(self, piece: int) -> bool:
        return piece in self._lost

    def close(self) -> None:
        if self._closed.is_set():
            return
        self._closed.set()
        self._renewal.join()
        self._ask(None, release=True)

    def _renew(self) -> None:
        while not self._closed.wait(self._seconds / 3):
            # A server that is gone is told to the thread that trains, by its next question or push.
            with suppress(FlotaError):
                self._ask(None)

    def _progress(self, release: bool) -> tuple[int, dict[int, int], set[int]]:
        """(how many batches that the tables have, how far the pieces are that are held, which of them are done)"""
        held, done, used = dict(self._held), set[int](), 0
        applied = self._workers.applied
        for batch in list(self._trained):
            if batch.step > applied:
                break
            used += 1
            for mark in batch.marks:
                if mark.piece in held:
                    held[mark.piece] = max(mark.samples, held[mark.piece])
                    if mark.done:
                        done.add(mark.piece)
        return used, held, done

    def _ask(self, lane: int | None, release: bool = False) -> tuple[LeaseOutcome, int, int]:
        first, stride = 0, 1
        if self._classes is not None and lane is not None:
            place, places = self._classes
            first = place + places * lane
            stride = places * self._lanes
        with self._lock:
            if lane is not None and self._closed.is_set():
                return LeaseOutcome.none, 0, 0  # what was taken now would not be given back
            used, held, done = self._progress(release)
            asked_at = time.monotonic()
            flags = {piece: SHARD_DONE if piece in done else SHARD_RELEASED if release else 0 for piece in held}
            outcome, piece, samples, left, lost = self._send(
                call=next(_calls),
                first=first,
                stride=stride,
                take=lane is not None,
                progress=[(each, count, flags[each]) for each, count in held.items()],
            )
            self._heard = asked_at
            if self._resumed:
                lost = []  # nobody else reads them
            # Only now that it is told.
            for _ in range(used):
                self._untold -= self._trained.popleft().samples
            self._held = {each: count for each, count in held.items() if each not in done and each not in lost}
            self._lost.update(lost)
            if outcome == LeaseOutcome.granted:
                self._held[piece] = samples
                self._lost.discard(piece)
            self._show(left)
            return outcome, piece, samples

    def _show(self, left: int) -> None:
        """To whoever looks on: where this worker is."""
        epoch, before = self._epoch, standing.place
        if epoch.name.startswith(TEST_PREFIX):
            return
        if (before.name, before.epoch) != (epoch.name, epoch.number):
            before = standing.place = Place(epoch.name, epoch.number, epoch.pieces, left, time.monotonic())
        before.left = left
        pieces = ", ".join(str(piece) for piece in sorted(self._held)[:8])
        standing.lease = f"{epoch.name} {epoch.number}: {pieces}" if pieces else ""

    def _send(self, **question: Any) -> tuple[LeaseOutcome, int, int, int, list[int]]:
        epoch, team = self._epoch, self._workers
        asked = {
            "pass_": epoch.name,
            "epoch": epoch.number,
            "shards": epoch.pieces,
            "rank": team.index,
            "world": team.count,
            "ttl_ms": int(self._seconds * 1000),
            "wait": False,
            **question,
        }
        if self._client is None:
            return own_coordinator().lease(**asked, time_ms=0)
        return self._client.native.lease(**asked, time_ms=self._client.time(None))
