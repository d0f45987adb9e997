"""One pass over a data set: lanes read pieces ahead, and batches are filled from them.

Samples are taken from the lanes in turn, a block from each, so that all of them are busy; where pieces are assigned by
number, the order is the same in every run.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable
from queue import Empty
from typing import Any, Generic, NamedTuple, TypeVar

from flota import _core, workers
from flota.data.lanes import Block, Lane, LaneEnd, PieceEnd, Read
from flota.data.leases import Assignment, Mark
from flota.data.slots import Arrays

B = TypeVar("B")

_LOOK = 0.02  # seconds between two looks at a lane that is slow
_LAST_WAIT = 5.0  # seconds for a lane to come to its end

_passes: weakref.WeakSet[Pass[Any]] = weakref.WeakSet()


@atexit.register
def _close_passes() -> None:
    """Threads that are in native code when the interpreter ends would take the process down."""
    for each in list(_passes):
        each.close()


def tell_trained() -> None:
    """Before a checkpoint: what this worker has trained is told, as far as the tables have it."""
    for each in list(_passes):
        each.tell_trained()


class _Handed(NamedTuple):
    """A batch that was handed out: what it is made of."""

    marks: list[Mark]
    samples: int


class Pass(Generic[B]):
    """An iterator over the batches of one pass.

    A batch counts as trained when the next one is asked for. Who reads ahead of the training calls ``hold`` first,
    ``trained`` after each batch's step, and ``idle`` while it waits for a batch, all three in the thread that trains.
    """

    def __init__(
        self, assignment: Assignment, read: Read, lanes: int, batch_size: int, make: Callable[[Arrays], B]
    ) -> None:
        self._assignment = assignment
        self._batch_size = batch_size
        self._make = make
        self._lanes = deque(Lane(number, assignment, read) for number in range(lanes))
        self._all_lanes = list(self._lanes)
        self._parts: deque[Block | PieceEnd] = deque()
        self._pending = 0  # samples in them
        self._handed: deque[_Handed] = deque()
        self._lock = threading.Lock()  # of what was handed out
        self._held = False
        self._dry = False
        self._step = workers.current().steps  # when the last batch was trained
        self._ahead = 0  # batches that were told before their time
        self._error: BaseException | None = None
        self._closed = False
        _passes.add(self)

    def __iter__(self) -> Pass[B]:
        return self

    def __next__(self) -> B:
        if not self._held:
            self.trained()
        parts, marks = self._next_parts()
        if parts:
            with self._lock:
                self._handed.append(_Handed(marks, sum(count for _, _, count in parts)))
            return self._make(_core.gather_batch(parts))
        if marks:
            with self._lock:
                self._handed.append(_Handed(marks, 0))
        if not self._held:
            self.trained()
            self.close()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        raise StopIteration

    # --- in the thread that trains ---

    def hold(self) -> None:
        """Batches count as trained when ``trained`` says so."""
        self._held = True

    def trained(self) -> None:
        """The oldest batch that was handed out is trained."""
        if self._ahead > 0:
            self._ahead -= 1
            return
        self._step = workers.current().steps
        with self._lock:
            done = [self._handed.popleft()] if self._handed else []
            while self._handed and self._handed[0].samples == 0:
                done.append(self._handed.popleft())
        for each in done:
            self._assignment.trained(each.marks, each.samples)
        self.idle()

    def tell_trained(self) -> None:
        """Tells what is trained; the batch at hand too, if a step was made since the one before it."""
        if self._closed:
            return
        if workers.current().steps > self._step and any(handed.samples for handed in self._handed):
            self.trained()
            self._ahead += 1
        self._assignment.flush()

    def idle(self) -> None:
        """While no batch is there: if all else is in other workers' hands, they learn what this one has done."""
        with self._lock:
            if not self._dry or any(handed.samples for handed in self._handed):
                return
            rest = [mark for handed in self._handed for mark in handed.marks]
            self._handed.clear()
            self._dry = False
        self._assignment.trained(rest, 0)
        self._tell_all()

    def _tell_all(self) -> None:
        self._assignment.flush()
        if self._assignment.untold():
            workers.current().idle()
            self._assignment.flush()

    def close(self) -> None:
        """Ends the reading. What was trained is told, what was not is given back."""
        if self._closed:
            return
        self._closed = True
        for lane in self._all_lanes:
            lane.stop()
        try:
            if not any(handed.samples for handed in self._handed):
                for handed in self._handed:
                    self._assignment.trained(handed.marks, 0)
                self._tell_all()
        finally:
            self._assignment.close()
            for lane in self._all_lanes:
                lane.join(_LAST_WAIT)

    def __del__(self) -> None:
        if not self._closed:
            self._abandon()

    def _abandon(self) -> None:
        for lane in self._all_lanes:
            lane.stop()
        self._assignment.close()

    # --- in the thread that takes batches ---

    def _next_parts(self) -> tuple[list[tuple[_core.Samples, int, int]], list[Mark]]:
        while self._pending < self._batch_size and self._lanes and self._fill():
            pass
        parts: list[tuple[_core.Samples, int, int]] = []
        marks: dict[int, Mark] = {}
        room = self._batch_size
        while self._parts and (room > 0 or isinstance(self._parts[0], PieceEnd)):
            part = self._parts.popleft()
            if isinstance(part, PieceEnd):
                marks[part.piece] = Mark(part.piece, part.samples, True)
                continue
            count = min(room, len(part.samples) - part.begin)
            end = part.begin + count
            parts.append((part.samples, part.begin, count))
            marks[part.piece] = Mark(part.piece, part.before + end, part.last and end == len(part.samples))
            room -= count
            self._pending -= count
            if end < len(part.samples):
                self._parts.appendleft(part._replace(begin=end))
        return parts, list(marks.values())

    def _fill(self) -> bool:
        """Takes what the next lane has; whether it is worth going on before a batch is made of what is there."""
        lane = self._lanes[0]
        try:
            got = lane.get(_LOOK)
        except Empty:
            return self._nothing_came(lane)
        if isinstance(got, LaneEnd):
            self._lanes.popleft()
            if got.error is not None:
                self._error = got.error
                self._lanes.clear()
            return True
        self._parts.append(got)
        if isinstance(got, Block):
            self._pending += len(got.samples) - got.begin
            self._lanes.rotate(-1)
        return True

    def _nothing_came(self, lane: Lane) -> bool:
        if not lane.dry:
            return True
        self._lanes.rotate(-1)
        if not all(each.dry for each in self._lanes):
            return True
        # Nothing more comes before what is here is trained.
        if self._pending > 0:
            return False
        self._hand_out_ends()
        self._dry = True
        if not self._held:
            self.idle()
        return True

    def _hand_out_ends(self) -> None:
        """Pieces that ended with the batches before."""
        marks = [Mark(part.piece, part.samples, True) for part in self._parts if isinstance(part, PieceEnd)]
        self._parts.clear()
        if marks:
            with self._lock:
                self._handed.append(_Handed(marks, 0))
