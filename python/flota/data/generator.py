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
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

from flota import checks
from flota.errors import DataError, InvalidArgument

# A sample: each slot's name and values, in the order of the data set's variables.
Sample = Sequence[tuple[str, Sequence[Any]]]
Samples = Callable[[], Iterable[Sample]]


class DataGenerator:
    """Turns lines into samples, and samples into text."""

    def __init__(self) -> None:
        self.batch_size_ = 32
        self._slots: list[str] | None = None

    def set_batch(self, batch_size: int) -> None:
        """How many samples ``generate_batch`` is given at a time."""
        self.batch_size_ = checks.whole("batch_size", batch_size, 1, 1 << 30)

    def generate_sample(self, line: str | None) -> Samples:
        """To be written by you: a function that yields the samples of a line. ``run_from_memory`` gives it None."""
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
            for sample in self.generate_sample(line)():
                batch.append(sample)
                if len(batch) == self.batch_size_:
                    self._print(batch, out)
                    batch = []
        self._print(batch, out)
        out.flush()

    def _print(self, batch: list[Sample], out: TextIO) -> None:
        if batch:
            out.writelines(self._gen_str(sample) for sample in self.generate_batch(batch)())

    def _gen_str(self, line: Sample) -> str:
        """A sample's text."""
        slots = self._checked(line)
        if self._slots is None:
            self._slots = [name for name, _ in slots]
        elif len(self._slots) != len(slots):
            raise DataError(f"the samples before had {len(self._slots)} slots, and this one has {len(slots)}: {line}")
        elif any(name != known for (name, _), known in zip(slots, self._slots, strict=True)):
            raise DataError(f"the samples before had the slots {self._slots}, and this one has others: {line}")
        return self._text(slots)

    def _checked(self, line: Sample) -> list[tuple[str, Sequence[Any]]]:
        if not isinstance(line, (list, tuple)) and hasattr(line, "__iter__"):
            line = list(line)
        if not isinstance(line, (list, tuple)):
            raise InvalidArgument(f"a sample must be a list of (name, values), not {line!r}")
        for slot in line:
            if not (isinstance(slot, tuple) and len(slot) == 2 and isinstance(slot[0], str)):
                raise InvalidArgument(f"a slot must be (name, [values]), not {slot!r}")
            if not isinstance(slot[1], (list, tuple)):
                raise InvalidArgument(f"slot {slot[0]!r}: its values must be a list, not {slot[1]!r}")
        return list(line)

    def _text(self, slots: list[tuple[str, Sequence[Any]]]) -> str:
        raise NotImplementedError


class MultiSlotDataGenerator(DataGenerator):
    """Samples of numbers. Each slot holds whole numbers, or once it held a float, numbers."""

    def _text(self, slots: list[tuple[str, Sequence[Any]]]) -> str:
        words: list[str] = []
        for name, values in slots:
            for value in values:
                if isinstance(value, bool) or not isinstance(value, (int, float)):
                    raise InvalidArgument(f"slot {name!r}: values must be numbers, not {value!r}")
            words.append(str(len(values)))
            words.extend(map(str, values))
        return " ".join(words) + "\n"


class MultiSlotStringDataGenerator(DataGenerator):
    """Samples whose values are texts already, and are printed as they are."""

    def _text(self, slots: list[tuple[str, Sequence[Any]]]) -> str:
        words: list[str] = []
        for _, values in slots:
            words.append(str(len(values)))
            words.extend(values)
        return " ".join(words) + "\n"
