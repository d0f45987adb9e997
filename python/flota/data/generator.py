"""Data generators: a Python program that turns lines into samples, to be used as a ``pipe_command``.

    class Reader(flota.data.MultiSlotDataGenerator):
        def generate_sample(self, line):
            def samples():
                label, *words = line.split()
                yield [("words", [int(word) for word in words]), ("label", [int(label)])]
            return samples

    Reader().run_from_stdin()

What is printed is slot text: for each slot the number of its values and then the values, between spaces.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Real
from typing import Any, TextIO

from flota import checks
from flota.errors import DataError, InvalidArgument

_NUMBERS = {int, float}

# A sample: each slot's name and values, in the order of the data set's variables.
Sample = Sequence[tuple[str, Sequence[Any]]]
Samples = Callable[[], Iterable[Sample]]


class DataGenerator(ABC):
    """Turns lines into samples, and samples into text."""

    def __init__(self) -> None:
        self.batch_size_ = 32
        self._slots: list[str] | None = None

    def set_batch(self, batch_size: int) -> None:
        """How many samples ``generate_batch`` is given at a time."""
        self.batch_size_ = checks.whole("batch_size", batch_size, 1, 1 << 30)

    def generate_sample(self, line: str | None) -> Callable[[], Iterable[Sample | None]]:
        """To be written by you: a function that yields the samples of a line, or None where it makes none.
        ``run_from_memory`` gives it None."""
        raise NotImplementedError("write generate_sample(self, line), which returns a function that yields samples")

    def generate_batch(self, samples: list[Sample]) -> Samples:
        """To be written by you if samples depend on those beside them: a function that yields a batch's samples."""

        def each() -> Iterator[Sample]:
            yield from samples

        return each

    def run_from_stdin(self) -> None:
        """Prints the samples of the lines of standard input."""
        self._run(sys.stdin, sys.stdout)

    def run_from_memory(self) -> None:
        """Prints the samples that ``generate_sample(None)`` yields."""
        self._run([None], sys.stdout)

    def _run(self, lines: Iterable[str | None], out: TextIO) -> None:
        batch: list[Sample] = []
        for line in lines:
            for sample in self._samples(line):
                if sample is None:  # a line that makes none
                    continue
                batch.append(sample)
                if len(batch) == self.batch_size_:
                    self._print(batch, out)
                    batch = []
        self._print(batch, out)
        out.flush()

    def _samples(self, line: str | None) -> Iterable[Sample | None]:
        samples = self.generate_sample(line)
        if not callable(samples):
            raise InvalidArgument(f"generate_sample must return a function that yields samples, not {samples!r}")
        return samples()

    def _print(self, batch: list[Sample], out: TextIO) -> None:
        if batch:
            out.writelines(self._gen_str(sample) for sample in self.generate_batch(batch)())

    def _gen_str(self, line: Sample) -> str:
        """A sample's text."""
        if not isinstance(line, (list, tuple)):
            line = self._listed(line)
        try:
            names = [name for name, _ in line]
        except (TypeError, ValueError):
            raise InvalidArgument(f"a sample must be a list of (name, [values]), not {line!r}") from None
        if names != self._slots:
            self._meet(names, line)
        return " ".join([self._text(name, values) for name, values in line]) + "\n"

    def _listed(self, line: Any) -> Sample:
        if not hasattr(line, "__iter__") or isinstance(line, (str, bytes)):
            raise InvalidArgument(f"a sample must be a list of (name, [values]), not {line!r}")
        return list(line)

    def _meet(self, names: list[str], line: Sample) -> None:
        """The slots of the first sample are those of all."""
        if self._slots is None:
            if not all(isinstance(name, str) for name in names):
                raise InvalidArgument(f"a slot must be (name, [values]), its name a text: {line!r}")
            self._slots = names
        elif len(self._slots) != len(names):
            raise DataError(f"the samples before had {len(self._slots)} slots, and this one has {len(names)}: {line}")
        else:
            raise DataError(f"the samples before had the slots {self._slots}, and this one has others: {line}")

    @abstractmethod
    def _text(self, name: str, values: Sequence[Any]) -> str:
        """A slot's text."""


class MultiSlotDataGenerator(DataGenerator):
    """Samples of numbers."""

    def _text(self, name: str, values: Sequence[Any]) -> str:
        if not isinstance(values, (list, tuple)):
            raise InvalidArgument(f"slot {name!r}: its values must be a list, not {values!r}")
        # One look at the types: a sample costs a few microseconds, and this is for each of its values.
        if not _NUMBERS.issuperset(map(type, values)):
            for value in values:
                if isinstance(value, bool) or not isinstance(value, Real):
                    raise InvalidArgument(f"slot {name!r}: values must be numbers, not {value!r}")
        return " ".join(map(str, (len(values), *values)))


class MultiSlotStringDataGenerator(DataGenerator):
    """Samples whose values are texts already, and are printed as they are."""

    def _text(self, name: str, values: Sequence[Any]) -> str:
        if not isinstance(values, (list, tuple)):
            raise InvalidArgument(f"slot {name!r}: its values must be a list, not {values!r}")
        try:
            text = " ".join((str(len(values)), *values))
        except TypeError:
            raise InvalidArgument(f"slot {name!r}: its values must be texts, not {values!r}") from None
        if len(text.split()) != len(values) + 1:
            raise InvalidArgument(f"slot {name!r}: a value is empty or has a space in it: {values!r}")
        return text
