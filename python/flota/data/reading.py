"""One pass over a data set: lanes read pieces ahead, and batches are filled from them.

Samples are taken from the lanes in turn, a block from each, so that all of them are busy; where pieces are assigned by
number, the order is the same in every run.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty
from typing import Any, Generic, NamedTuple, TypeVar

from flota import _core, workers
from flota.data.lanes import Block, Lane, LaneEnd, PieceEnd, Read
from flota.data.leases import Assignment, Mark
from flota.data.slots import Arrays
from flota.errors import FlotaError, InvalidArgument
from flota.timeline import span
from flota.workers import Epoch, GoesOn

B = TypeVar("B")

_LOOK = 0.02  # seconds between two looks at a lane that is slow
_LAST_WAIT = 5.0  # seconds for a lane to come to its end

_passes: weakref.WeakSet[Pass[Any]] = weakref.WeakSet()


@atexit.register
def close_passes() -> None:
    """Ends all reading of this process: before its connection goes, or the interpreter, which threads that are in
    native code would take down with them."""
    for each in list(_passes):
        with suppress(FlotaError):
            each.close()


def reads() -> bool:
    """Whether a data set is being read by this process."""
    return any(not each.closed for each in list(_passes))


def tell_trained() -> None:
    """Before a checkpoint: what this worker has trained is told, as far as the tables have it."""
    for each in list(_passes):
        each.tell_trained()


def open_epochs() -> list[GoesOn]:
    """Where the passes that train stand, before the batches at hand."""
    found = [position for each in list(_passes) if (position := each.position()) is not None]
    return sorted(found, key=lambda each: (each.name, each.number))


class _Handed(NamedTuple):
    """A batch that was handed out: what it is made of, and whose turn it is after it."""

    marks: list[Mark]
    samples: int
    turns: list[int]


class Pass(Generic[B]):
    """An iterator over the batches of one pass.

    A batch counts as trained when the next one is asked for. Who reads ahead of the training calls ``hold`` first,
    ``trained`` after each batch's step, and ``idle`` while it waits for a batch, all three in the thread that trains.
    ``unused`` is called when a pass is given up before anything of it was trained. ``marks``: what was behind the
    worker before it was started again.
    """

    def __init__(
        self,
        assignment: Assignment,
        read: Read,
        turns: Sequence[int],
        batch_size: int,
        make: Callable[[Arrays], B],
        unused: Callable[[], None] | None = None,
        epoch: Epoch | None = None,
        marks: Sequence[Mark] = (),
    ) -> None:
        self._assignment = assignment
        self._epoch = epoch
        self._path: deque[_Handed] = deque()  # what was handed out and is not behind the worker
        self._reached = {assignment.lane_of(mark.piece): mark for mark in marks}  # by lane: the last of what is
        self._turns = list(turns)  # after it
        self._where = workers.current().where()  # was the worker then
        self._batch_size = batch_size
        self._make = make
        self._lanes = deque(Lane(number, assignment, read) for number in turns)
        self._all_lanes = list(self._lanes)
        self._parts: deque[Block | PieceEnd] = deque()
        self._pending = 0  # samples in them
        self._handed: deque[_Handed] = deque()
        self._lock = threading.Lock()  # of what was handed out
        self._thread = threading.get_ident()
        self._held = False
        self._dry = False  # all that is left is in others' hands
        self._rested = False  # and they know what this worker has done
        self._step = workers.current().steps  # when the last batch was trained
        self._told_early = 0  # batches that were told before the next one was asked for
        self._used = False  # whether anything of it was trained
        self._unused = unused
        self._ended = False
        self._error: BaseException | None = None
        self._closed = False
        _passes.add(self)

    @property
    def closed(self) -> bool:
        return self._closed

    def __iter__(self) -> Pass[B]:
        return self

    def __next__(self) -> B:
        if self._closed:
            raise StopIteration
        if not self._held:
            self._check_thread()
            self.trained()
        with span("read"):
            parts, marks = self._next_parts()
        if parts:
            with self._lock:
                self._hand_out(_Handed(marks, sum(count for _, _, count in parts), self._whose_turn()))
                self._dry = self._rested = False
            return self._make(_core.gather_batch(parts))
        if marks:
            with self._lock:
                self._hand_out(_Handed(marks, 0, self._whose_turn()))
        self._ended = not self._closed
        if not self._held:
            self.trained()
            self.close()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        raise StopIteration

    def _check_thread(self) -> None:
        """What is read is told as trained, and by a thread that reads ahead of the training it would be too early."""
        if threading.get_ident() != self._thread and self._assignment.tells:
            raise InvalidArgument(
                "the data set is read by another thread than the one that began: give flota.prefetch and "
                "train_from_dataset the data set itself, not a DataLoader or generator around it, or share it by "
                "sharing='none'"
            )

    # --- in the thread that trains ---

    def hold(self) -> None:
        """Batches count as trained when ``trained`` says so."""
        self._held = True

    def trained(self) -> None:
        """The oldest batch that was handed out is trained."""
        if self._told_early > 0:
            self._told_early -= 1
        else:
            self._note_oldest()
        self._leave_behind()
        self.idle()

    def _leave_behind(self) -> None:
        """The oldest batch: the script is done with it."""
        self._where = workers.current().where()
        if self._where is None:
            return
        with self._lock:
            batches = 0
            while self._path and (self._path[0].samples == 0 or batches == 0):
                handed = self._path.popleft()
                batches += handed.samples > 0
                self._turns = handed.turns
                for mark in handed.marks:
                    lane = self._assignment.lane_of(mark.piece)
                    if lane not in self._reached or mark.piece >= self._reached[lane].piece:
                        self._reached[lane] = mark

    def position(self) -> GoesOn | None:
        """Where an epoch that workers share stands, before the batch at hand."""
        if self._epoch is None or self._where is None or self._closed:
            return None
        marks = [(mark.piece, mark.samples, mark.done) for mark in self._reached.values()]
        return GoesOn(self._epoch.name, self._epoch.number, marks, self._turns, self._where)

    def _note_oldest(self) -> None:
        self._step = workers.current().steps
        done: list[_Handed] = []
        with self._lock:
            batches = 0
            while self._handed and (self._handed[0].samples == 0 or batches == 0):
                batches += self._handed[0].samples > 0
                done.append(self._handed.popleft())
        for each in done:
            self._used = True
            self._assignment.trained(each.marks, each.samples)

    def tell_trained(self) -> None:
        """Tells what is trained; the batch at hand too, if a step was made since the one before it."""
        if not self._closed:
            self._note_batch_at_hand()
            self._assignment.flush()

    def _note_batch_at_hand(self) -> None:
        if workers.current().steps > self._step and self._outstanding():
            self._note_oldest()
            self._told_early += 1

    def _outstanding(self) -> bool:
        with self._lock:
            return any(handed.samples for handed in self._handed)

    def idle(self) -> None:
        """While no batch is there: if all else is in other workers' hands, they learn what this one has done, and do
        not wait for it."""
        if not self._dry or self._outstanding():
            return
        if self._handed:
            self._note_oldest()
        if not self._rested:
            self._rested = True
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
            self._note_batch_at_hand()
            if not self._outstanding() and self._handed:
                self._note_oldest()
            self._assignment.flush()
            if self._assignment.untold():
                workers.current().idle()
        finally:
            try:
                self._assignment.close()
            finally:
                for lane in self._all_lanes:
                    lane.join(_LAST_WAIT)
        if self._epoch is not None and (self._used or self._ended):
            workers.current().end_epoch(self._epoch)
        elif not self._used and not self._ended and self._unused is not None:
            self._unused()

    def __del__(self) -> None:
        # By whatever thread finds it unused; only the one that began may tell.
        if not self._closed and threading.get_ident() == self._thread:
            with suppress(FlotaError):
                self.close()
        elif not self._closed:
            for lane in self._all_lanes:
                lane.stop()

    # --- in the thread that takes batches ---

    def _next_parts(self) -> tuple[list[tuple[_core.Samples, int, int]], list[Mark]]:
        while self._pending < self._batch_size and self._lanes and self._fill():
            if workers.current().leaves():
                break
        if workers.current().leaves():
            self._end_here()
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

    def _end_here(self) -> None:
        """This worker leaves the job: what it has handed out is the last, and what it has read beyond is given back."""
        self._lanes.clear()
        self._parts.clear()
        self._pending = 0

    def _hand_out(self, handed: _Handed) -> None:
        self._handed.append(handed)
        if self._where is not None:
            self._path.append(handed)

    def _whose_turn(self) -> list[int]:
        """The lanes in the order in which they go on: that of a block of which something is left comes first. There is
        one such block at most, the last that was taken, and its lane was put last."""
        turns = [lane.number for lane in self._lanes]
        left = any(isinstance(part, Block) for part in self._parts)
        return turns[-1:] + turns[:-1] if left else turns

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
                self._hand_out(_Handed(marks, 0, self._whose_turn()))
