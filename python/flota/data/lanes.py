"""Threads that read pieces of a data set ahead, each one piece after another."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from queue import Queue
from typing import NamedTuple

from flota import _core
from flota.data.leases import Assignment, Leased

_BLOCKS = 4  # that a lane may be ahead

# The samples of a piece, a block at a time.
Read = Callable[[int], Iterator[_core.Samples]]


class Block(NamedTuple):
    """Samples of one piece, from ``begin`` on; ``before`` others of the piece came earlier."""

    samples: _core.Samples
    begin: int
    piece: int
    before: int


class PieceEnd(NamedTuple):
    """All of a piece's samples have come."""

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
        self._asking = False
        self._ready: Queue[Block | PieceEnd | LaneEnd] = Queue()
        self._room = threading.Semaphore(_BLOCKS)
        self._thread = threading.Thread(target=self._run, name=f"flota reader {number}", daemon=True)
        self._thread.start()

    @property
    def dry(self) -> bool:
        """Whether it has nothing, and waits to be given a piece."""
        return self._asking and self._ready.empty()

    def get(self, timeout: float | None) -> Block | PieceEnd | LaneEnd:
        """The next there is; raises ``queue.Empty`` if that takes too long."""
        got = self._ready.get(timeout=timeout)
        if isinstance(got, Block):
            self._room.release()
        return got

    def stop(self) -> None:
        self._stopped.set()
        self._room.release()

    def join(self, seconds: float | None = None) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while (leased := self._next()) is not None:
                self._read_piece(leased)
            self._ready.put(LaneEnd(None))
        except _Stopped:
            pass
        except BaseException as error:  # raised where batches are taken
            self._ready.put(LaneEnd(error))

    def _next(self) -> Leased | None:
        self._asking = True
        try:
            return None if self._stopped.is_set() else self._assignment.next(self._number)
        finally:
            self._asking = False

    def _read_piece(self, leased: Leased) -> None:
        seen = 0
        # Named, so that it is closed when this ends early: it may hold a process.
        blocks = self._read(leased.piece)
        try:
            for samples in blocks:
                if self._assignment.lost(leased.piece):
                    return
                if seen + len(samples) > leased.skip:
                    self._put(Block(samples, max(leased.skip - seen, 0), leased.piece, seen))
                seen += len(samples)
        finally:
            close: Callable[[], None] | None = getattr(blocks, "close", None)
            if close is not None:
                close()
        self._ready.put(PieceEnd(leased.piece, seen))

    def _put(self, block: Block) -> None:
        self._room.acquire()
        if self._stopped.is_set():
            raise _Stopped
        self._ready.put(block)


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
