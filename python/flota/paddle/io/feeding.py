"""Feeds: what a program's variables are given, made of samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from flota.errors import InvalidArgument
from flota.paddle.core import CUDAPlace
from flota.paddle.dtypes import name_of
from flota.paddle.graph.executor import as_fed
from flota.paddle.graph.program import Program, default_main_program
from flota.paddle.graph.variable import Variable
from flota.paddle.jagged import Jagged


class DataFeeder:
    """Makes feeds of samples. ``feed_list``: variables, or names of ``program``'s."""

    def __init__(self, feed_list: Sequence[Variable | str], place: Any = None, program: Program | None = None) -> None:
        check_places("DataFeeder", place)
        known = (program or default_main_program()).variables
        self.variables = [_variable(each, known) for each in feed_list]
        self._columns = [_Column(variable) for variable in self.variables]

    def feed(self, iterable: Iterable[Sequence[Any]]) -> dict[str, Any]:
        """Of samples, each with a value for every variable."""
        try:
            columns = list(zip(*iterable, strict=True))
        except ValueError as error:
            if not str(error).startswith("zip()"):
                raise
            raise InvalidArgument("the samples of a batch have different numbers of values") from None
        self._check(len(columns), "samples have {} values")
        return {column.name: column.of(values) for column, values in zip(self._columns, columns, strict=True)}

    def feed_batch(self, arrays: Any) -> dict[str, Any]:
        """Of a batch that is an array for each variable already, in order or by name."""
        if isinstance(arrays, dict):
            arrays = [arrays[variable.name] for variable in self.variables if variable.name in arrays]
        given = [arrays] if len(self.variables) == 1 and not isinstance(arrays, (list, tuple)) else list(arrays)
        self._check(len(given), "a batch has {} arrays")
        # A generator may fill the same array again while the batch waits for its turn.
        own = (value.copy() if isinstance(value, np.ndarray) else value for value in given)
        return {variable.name: as_fed(variable, value) for variable, value in zip(self.variables, own, strict=True)}

    def decorate_reader(
        self,
        reader: Callable[[], Iterable[Any]],
        multi_devices: bool,
        num_places: int | None = None,
        drop_last: bool = True,
    ) -> Callable[[], Iterator[dict[str, Any]]]:
        """A reader of feeds, of one of lists of samples. ``drop_last`` is about devices that would get no batch: there
        is one."""
        if multi_devices or num_places not in (None, 1):
            raise InvalidArgument("decorate_reader: a process feeds one device: give multi_devices=False")
        return lambda: map(self.feed, reader())

    def _check(self, count: int, what: str) -> None:
        if count != len(self._columns):
            raise InvalidArgument(f"{what.format(count)}, and the feed {len(self._columns)} variables")


def check_places(what: str, places: Any) -> None:
    """Batches are made on the CPU."""
    each = places if isinstance(places, (list, tuple)) else [places]
    if len(each) > 1:
        raise InvalidArgument(f"{what}: a process feeds one device, not {len(each)}: start more workers")
    for place in each:
        if isinstance(place, CUDAPlace) or (isinstance(place, str) and place != "cpu"):
            raise InvalidArgument(f"{what}: programs run on the CPU: give CPUPlace(), not {place!r}")


def _variable(given: Variable | str, known: dict[str, Variable]) -> Variable:
    if isinstance(given, Variable):
        return given
    if given not in known:
        raise InvalidArgument(f"feed_list: the program has no variable {given!r}")
    return known[given]


class _Column:
    """Makes one variable's part of a feed. What it knows of the variable is asked for once: this runs for each variable
    and batch."""

    def __init__(self, variable: Variable) -> None:
        self.name = variable.name
        self._dtype = variable.dtype
        # Numbers are made of this type at once, where numpy has it.
        self._kind = None if variable.dtype == torch.bfloat16 else np.dtype(name_of(variable.dtype))
        self._inner = variable.shape[1:]
        self._sequences = bool(variable.lod_level)

    def of(self, values: Sequence[Any]) -> torch.Tensor | Jagged:
        """``values``: one of each sample."""
        if self._sequences:
            return self._joined(values)
        tensor = self._tensor(values)
        if any(side < 0 for side in self._inner):
            return tensor
        return self._shaped(tensor, len(values))

    def _joined(self, values: Sequence[Any]) -> Jagged:
        try:
            tensor = self._shaped(self._tensor(list(itertools.chain.from_iterable(values))), -1)
            ends = _ends(values)
        except TypeError:  # a bare number is a sequence of one
            return self._joined([np.atleast_1d(value) for value in values])
        if len(tensor) != ends[-1]:  # numbers that were not given row by row
            parts = [self._shaped(self._tensor(value), -1) for value in values]
            tensor, ends = torch.cat(parts), _ends(parts)
        return Jagged(tensor, torch.from_numpy(ends))

    def _tensor(self, values: Any) -> torch.Tensor:
        try:
            return torch.from_numpy(np.array(values, self._kind)).to(self._dtype)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(
                f"{self.name!r}: the samples of a batch are no array of {name_of(self._dtype)} ({error}); declare a "
                "variable of sequences with lod_level=1"
            ) from None

    def _shaped(self, tensor: torch.Tensor, rows: int) -> torch.Tensor:
        try:
            return tensor.reshape(rows, *self._inner)
        except RuntimeError:
            raise InvalidArgument(
                f"{self.name!r} was fed the shape {list(tensor.shape)}, and is {[rows, *self._inner]}"
            ) from None


def _ends(sequences: Sequence[Any]) -> np.ndarray:
    """Where each begins and the last one ends."""
    return np.fromiter(itertools.accumulate(map(len, sequences), initial=0), np.int64, len(sequences) + 1)
