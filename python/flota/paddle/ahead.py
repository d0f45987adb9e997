"""Reading ahead: a thread makes what a loop will ask for."""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_LAST_WAIT = 5.0  # seconds

_reading: set[ReadAhead[Any]] = set()


class ReadAhead(Generic[T]):
    """Iterates over what ``read`` returns, up to ``depth`` of it made before it is asked for, in the same order.

    What goes wrong in the thread is raised where the next one is asked for. ``close`` ends the thread; so does the end
    of what there is to read. Use it through ``ahead`` where a loop may break off.
    """

    def __init__(self, read: Callable[[], Iterable[T]], depth: int) -> None:
        self._read = read
        self._depth = depth
        self._made: deque[T] = deque()
        self._change = threading.Condition()
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="flota reading ahead", daemon=True)
        _reading.add(self)
        self._thread.start()

    def _run(self) -> None:
        try:
            source = iter(self._read())
            while self._has_room():
                try:
                    each = next(source)
                except StopIteration:
                    return
                with self._change:
                    self._made.append(each)
                    self._change.notify_all()
        except BaseException as error:  # raised where the next one is asked for
            self._error = error
        finally:
            with self._change:
                self._ended = True
                self._change.notify_all()
            _reading.discard(self)

    def _has_room(self) -> bool:
        """Waits for it; False: nobody wants more."""
        with self._change:
            self._change.wait_for(lambda: len(self._made) < self._depth or self._closed)
            return not self._closed

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        with self._change:
            self._change.wait_for(lambda: self._made or self._ended or self._closed)
            if self._made and not self._closed:
                each = self._made.popleft()
                self._change.notify_all()
                return each
        error, self._error = self._error, None
        if error is not None and not self._closed:
            raise error
        raise StopIteration

    def close(self) -> None:
        """Ends the thread. One that waits for something else, as a generator of the script's may, ends after it."""
        with self._change:
            self._closed = True
            self._made.clear()
            self._change.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(_LAST_WAIT)


def ahead(read: Callable[[], Iterable[T]], depth: int) -> Iterator[T]:
    """The same as a generator, which begins with the first ``next``: a loop that breaks off closes it."""
    reading = ReadAhead(read, depth)
    try:
        yield from reading
    finally:
        reading.close()


@atexit.register
def _close_all() -> None:
    """A thread that is in native code when the interpreter ends would take the process down."""
    for reading in list(_reading):
        reading.close()
