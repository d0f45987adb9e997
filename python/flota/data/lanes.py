"""Threads that read pieces of a data set ahead, each one piece after another."""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Callable, Iterator
from queue import Queue
from typing import NamedTuple

from flota import _core
from flota.data.leases import Assignment, Leased
from flota.timeline import span

_BLOCKS = 8  # that a lane may be ahead
_PIECES = 2  # that a lane may have, the one at hand included: what a slow worker has nobody else can take
_LAST_WAIT = 5.0  # seconds for a lane to come to its end

# The samples of a piece, a block at a time. They may have a method ``interrupt``, which lets a thread that waits for
# more of them go on.
Read = Callable[[int], Iterator[_core.Samples]]

_running: set[Lane] = set()
_over = threading.Event()  # the process ends


@atexit.register
def end_lanes() -> None:
    """Threads that are in native code when the interpreter ends would take the process down."""
    _over.set()
    for lane in list(_running):
        lane.stop()
    for lane in list(_running):
        lane.join(_LAST_WAIT)


class Block(NamedTuple):
    """Samples of one piece, from ``begin`` on; ``before`` others of the piece came earlier, and after the ``last``
    none comes."""

    samples: _core.Samples
    begin: int
    piece: int
    before: int
    last: bool = False


class PieceEnd(NamedTuple):
    """A piece had no samples, or none that were not trained before."""

    piece: int
    samples: int


class LaneEnd(NamedTuple):
    """A lane has no more; perhaps because of an error."""

    error: BaseException | None


class _Stopped(Exception):
    """Nobody wants more."""


class Lane:
    """A thread that reads one piece after another, and what it has read."""

    def __init__(self, number: int, assignment: Assignment, read: Read) -> None:
        self._number = number
        self._assignment = assignment
        self._read = read
        self._stopped = threading.Event()
        self._reading: Iterator[_core.Samples] | None = None
        self._ready: Queue[Block | PieceEnd | LaneEnd] = Queue()
        self._room = threading.Semaphore(_BLOCKS)
        self._pieces = threading.Semaphore(_PIECES)
        self._thread = threading.Thread(target=self._run, name=f"flota reader {number}", daemon=True)
        self._thread.start()

    @property
    def number(self) -> int:
        return self._number

    @property
    def dry(self) -> bool:
        """Whether it has nothing, and waits for a piece that others have."""
        return self._assignment.waits(self._number) and self._ready.empty()

    def get(self, timeout: float | None) -> Block | PieceEnd | LaneEnd:
        """The next there is; raises ``queue.Empty`` if that takes too long."""
        got = self._ready.get(timeout=timeout)
        if isinstance(got, Block):
            self._room.release()
        if isinstance(got, PieceEnd) or (isinstance(got, Block) and got.last):
            self._pieces.release()
        return got

    def stop(self) -> None:
        self._stopped.set()
        self._room.release()
        self._pieces.release()
        interrupt: Callable[[], None] | None = getattr(self._reading, "interrupt", None)
        if interrupt is not None:
            interrupt()

    def join(self, seconds: float | None = None) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        _running.add(self)
        try:
            while self._pieces.acquire() and not self._ends():
                leased = self._assignment.next(self._number)
                if leased is None:
                    break
                self._read_piece(leased)
            self._ready.put(LaneEnd(None))
        except _Stopped:
            self._ready.put(LaneEnd(None))
        except BaseException as error:  # raised where batches are taken
            self._ready.put(LaneEnd(error))
        finally:
            _running.discard(self)

    def _ends(self) -> bool:
        return self._stopped.is_set() or _over.is_set()

    def _read_piece(self, leased: Leased) -> None:
        seen = 0
        held: Block | None = None  # until it is known whether another one comes
        # Named, so that it is closed when this ends early: it may hold a process.
        blocks = self._reading = self._read(leased.piece)
        try:
            if self._ends():
                raise _Stopped
            for samples in _timed(blocks):
                if self._assignment.lost(leased.piece):
                    self._pieces.release()
                    return
                self._put(held)
                held = None
                if seen + len(samples) > leased.skip:
                    held = Block(samples, max(leased.skip - seen, 0), leased.piece, seen)
                seen += len(samples)
        except Exception:
            self._put(held)
            raise
        finally:
            self._reading = None
            close: Callable[[], None] | None = getattr(blocks, "close", None)
            if close is not None:
                close()
        if held is None:
            self._ready.put(PieceEnd(leased.piece, seen))
        else:
            self._put(held._replace(last=True))

    def _put(self, block: Block | None) -> None:
        if block is None:
            return
        if not self._stopped.is_set():
            self._room.acquire()
        if self._stopped.is_set():
            raise _Stopped
        self._ready.put(block)


def _timed(blocks: Iterator[_core.Samples]) -> Iterator[_core.Samples]:
    while True:
        with span("read"):
            samples = next(blocks, None)
        if samples is None:
            return
        yield samples


def read_blocks(assignment: Assignment, read: Read, count: int) -> Iterator[_core.Samples]:
    """All samples of ``count`` lanes, a block of each in turn."""
    lanes = [Lane(number, assignment, read) for number in range(count)]
    ring = deque(lanes)
    try:
        while ring:
            got = ring[0].get(None)
            if isinstance(got, LaneEnd):
                ring.popleft()
                if got.error is not None:
                    raise got.error
            elif isinstance(got, Block):
                ring.rotate(-1)
                yield got.samples
    finally:
        for lane in lanes:
            lane.stop()
        for lane in lanes:
            lane.join()
