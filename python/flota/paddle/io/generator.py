"""Loaders of what a script's generators yield: they read ahead, and feed programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from flota import checks
from flota.errors import InvalidArgument
from flota.paddle.ahead import ReadAhead, ahead
from flota.paddle.core import EOFException
from flota.paddle.graph.variable import Variable
from flota.paddle.io.collate import as_tensors, default_collate_fn
from flota.paddle.io.feeding import DataFeeder, check_places
from flota.paddle.mode import in_dynamic_mode
from flota.paddle.reader import Reader, batch
from flota.paddle.tensor import Tensor

Loader = TypeVar("Loader", bound="GeneratorLoader")


class GeneratorLoader:
    """What ``DataLoader.from_generator`` makes. Iterable, it gives feeds; else it feeds the program that its variables
    are of, between ``start`` and the ``EOFException`` at the end of a pass. Without variables it gives lists of
    tensors.

    A thread reads up to ``capacity`` batches ahead, and one more with ``use_double_buffer``. It ends with the pass,
    with ``reset``, and with a loop that breaks off; what goes wrong in it is raised in the loop.
    """

    def __init__(
        self,
        feed_list: Sequence[Variable] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
    ) -> None:
        if capacity is None:
            raise InvalidArgument("the loader needs capacity: how many batches are read ahead")
        self._depth = checks.whole("capacity", capacity, 1, 1 << 20) + bool(use_double_buffer)
        if not feed_list and not (in_dynamic_mode() and iterable):
            raise InvalidArgument("the loader needs feed_list: the variables that it feeds")
        self._feeder = DataFeeder(feed_list) if feed_list else None
        self.iterable = iterable
        self._return_list = return_list
        self._read: Callable[[], Iterator[Any]] | None = None
        self._pass: ReadAhead[dict[str, Any]] | None = None
        if feed_list and not iterable:
            feed_list[0].program.readers.append(self)

    def set_sample_generator(
        self: Loader, reader: Reader, batch_size: int, drop_last: bool = True, places: Any = None
    ) -> Loader:
        """``reader`` yields samples."""
        return self.set_sample_list_generator(batch(reader, batch_size, drop_last), places)

    def set_sample_list_generator(self: Loader, reader: Reader, places: Any = None) -> Loader:
        """``reader`` yields lists of samples."""
        feeder = self._feeder
        make = _stacked if feeder is None else feeder.feed
        return self._set(lambda: map(make, reader()), places)

    def set_batch_generator(self: Loader, reader: Reader, places: Any = None) -> Loader:
        """``reader`` yields batches: an array for each variable."""
        feeder = self._feeder
        make = _listed if feeder is None else feeder.feed_batch
        return self._set(lambda: map(make, reader()), places)

    def _set(self: Loader, read: Callable[[], Iterator[Any]], places: Any) -> Loader:
        check_places("the loader", places)
        self._read = read
        return self

    decorate_sample_generator = set_sample_generator
    decorate_sample_list_generator = set_sample_list_generator
    decorate_batch_generator = set_batch_generator

    def start(self) -> None:
        """Begins a pass."""
        if self.iterable:
            raise InvalidArgument("an iterable loader is iterated over; start() is for one with iterable=False")
        self.reset()
        self._pass = ReadAhead(self._reader(), self._depth)

    def reset(self) -> None:
        """Ends a pass."""
        if self._pass is not None:
            self._pass.close()
        self._pass = None

    def next_batch(self) -> dict[str, Any]:
        if self._pass is None:
            raise InvalidArgument("the program's loader was not started: call its start() before each pass")
        batch = next(self._pass, None)
        if batch is None:
            raise EOFException("the loader's pass is over: call reset(), and start() for another one")
        return batch

    def __iter__(self) -> Iterator[Any]:
        if not self.iterable:
            raise InvalidArgument("this loader feeds its program: start() it, or make it with iterable=True")
        batches = ahead(self._reader(), self._depth)
        return batches if self._feeder is None else shown(batches, self._return_list)

    def __call__(self) -> Iterator[Any]:
        return iter(self)

    def _reader(self) -> Callable[[], Iterator[Any]]:
        if self._read is None:
            raise InvalidArgument("the loader has nothing to read: call one of its set_…_generator functions")
        return self._read


class PyReader(GeneratorLoader):
    """``fluid.io.PyReader``: the same by its older name."""


def shown(feeds: Iterable[dict[str, Any]], return_list: bool) -> Iterator[list[Any]]:
    """Feeds as scripts are given them: for each device, of which there is one, a mapping or a list."""
    for feed in feeds:
        tensors = {name: Tensor(value) for name, value in feed.items()}
        yield [list(tensors.values()) if return_list else tensors]


def _stacked(samples: Sequence[Any]) -> list[Any]:
    return _listed(default_collate_fn(samples))


def _listed(batch: Any) -> list[Any]:
    """Tensors of their own, for a generator may fill the same array again while the batch waits for its turn."""
    given = batch if isinstance(batch, (list, tuple)) else [batch]
    return [as_tensors(value.copy() if isinstance(value, np.ndarray) else value) for value in given]
