"""``paddle.io``: loaders that feed programs from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from flota.errors import InvalidArgument
from flota.paddle.core import EOFException
from flota.paddle.graph.variable import Variable
from flota.paddle.jagged import Jagged

Reader = Callable[[], Iterable[Any]]


def batched(reader: Reader, batch_size: int, drop_last: bool = False) -> Reader:
    """``paddle.batch``: the reader's samples in lists of ``batch_size``."""
    if batch_size < 1:
        raise InvalidArgument(f"batch_size must be 1 or more, not {batch_size}")

    def read() -> Iterator[list[Any]]:
        batch: list[Any] = []
        for sample in reader():
            batch.append(sample)
            if len(batch) == batch_size:
                yield batch
                batch = []
        if batch and not drop_last:
            yield batch

    return read


class DataFeeder:
    """Makes feeds of samples."""

    def __init__(self, feed_list: Sequence[Variable], place: Any = None, program: Any = None) -> None:
        self._variables = list(feed_list)

    def feed(self, samples: Iterable[Sequence[Any]]) -> dict[str, Any]:
        """Of a list of samples, each with a value for every variable."""
        columns = list(zip(*samples, strict=True))
        if len(columns) != len(self._variables):
            raise InvalidArgument(f"samples have {len(columns)} values, and the feed {len(self._variables)} variables")
        return {
            variable.name: _column(variable, column) for variable, column in zip(self._variables, columns, strict=True)
        }

    def feed_batch(self, arrays: Any) -> dict[str, Any]:
        """Of a batch that is an array for each variable already."""
        if isinstance(arrays, dict):
            return arrays
        given = [arrays] if len(self._variables) == 1 and not isinstance(arrays, (list, tuple)) else list(arrays)
        if len(given) != len(self._variables):
            raise InvalidArgument(f"a batch has {len(given)} arrays, and the feed {len(self._variables)} variables")
        return {variable.name: array for variable, array in zip(self._variables, given, strict=True)}


def _column(variable: Variable, values: Sequence[Any]) -> torch.Tensor | Jagged:
    if variable.lod_level:
        each = [torch.as_tensor(np.asarray(value)).reshape(-1, *variable.shape[1:]) for value in values]
        ends = np.cumsum([0, *map(len, each)])
        return Jagged(torch.cat(each).to(variable.dtype), torch.from_numpy(ends))
    stacked = torch.as_tensor(np.asarray(values)).to(variable.dtype)
    inner = variable.shape[1:]
    return stacked if any(side < 0 for side in inner) else stacked.reshape(len(values), *inner)


class GeneratorLoader:
    """What ``DataLoader.from_generator`` makes. Iterable, it gives feeds; else it feeds the program that its variables
    are of, between ``start`` and the ``EOFException`` at the end of a pass."""

    def __init__(self, feed_list: Sequence[Variable] | None, iterable: bool, return_list: bool) -> None:
        if not feed_list:
            raise InvalidArgument("from_generator needs feed_list: the variables that it feeds")
        self._feeder = DataFeeder(feed_list)
        self._iterable = iterable
        self._return_list = return_list
        self._read: Callable[[], Iterator[dict[str, Any]]] | None = None
        self._pass: Iterator[dict[str, Any]] | None = None
        if not iterable:
            feed_list[0].program.readers.append(self)

    def set_sample_generator(
        self, reader: Reader, batch_size: int, drop_last: bool = True, places: Any = None
    ) -> GeneratorLoader:
        return self.set_sample_list_generator(batched(reader, batch_size, drop_last), places)

    def set_sample_list_generator(self, reader: Reader, places: Any = None) -> GeneratorLoader:
        self._read = lambda: (self._feeder.feed(samples) for samples in reader())
        return self

    def set_batch_generator(self, reader: Reader, places: Any = None) -> GeneratorLoader:
        self._read = lambda: (self._feeder.feed_batch(batch) for batch in reader())
        return self

    decorate_sample_generator = set_sample_generator
    decorate_sample_list_generator = set_sample_list_generator
    decorate_batch_generator = set_batch_generator

    def start(self) -> None:
        """Begins a pass."""
        if self._iterable:
            raise InvalidArgument("an iterable loader is iterated over; start() is for one with iterable=False")
        self._pass = self._begin()

    def reset(self) -> None:
        """Ends a pass."""
        self._pass = None

    def next_batch(self) -> dict[str, Any]:
        if self._pass is None:
            raise InvalidArgument("the program's loader was not started: call its start() before each pass")
        batch = next(self._pass, None)
        if batch is None:
            raise EOFException("the loader's pass is over: call reset(), and start() for another one")
        return batch

    def __iter__(self) -> Iterator[Any]:
        if not self._iterable:
            raise InvalidArgument("this loader feeds its program: start() it, or make it with iterable=True")
        return (list(batch.values()) if self._return_list else batch for batch in self._begin())

    def _begin(self) -> Iterator[dict[str, Any]]:
        if self._read is None:
            raise InvalidArgument("the loader has nothing to read: call one of its set_…_generator functions")
        return self._read()


class DataLoader:
    """Loaders of Python data."""

    @staticmethod
    def from_generator(
        feed_list: Sequence[Variable] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> GeneratorLoader:
        """``capacity`` and ``use_double_buffer`` are how far the reference reads ahead; here a batch is made when it is
        asked for."""
        if use_multiprocess:
            raise InvalidArgument(
                "from_generator: use_multiprocess would have no effect: the generator runs in this process"
            )
        return GeneratorLoader(feed_list, iterable, return_list)
