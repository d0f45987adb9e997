"""1.x's LoD tensors: arrays that a script cuts into sequences and feeds. What is fetched is a ``Tensor``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch

from flota.errors import InvalidArgument
from flota.paddle.jagged import Jagged

__all__ = ["LoDTensor", "create_lod_tensor", "create_random_int_lodtensor"]

Levels = Sequence[Sequence[int]]


class LoDTensor:
    """Numbers, and where their sequences begin and end. Sequences have one level: theirs are numbers or rows of them,
    not sequences again."""

    def __init__(self) -> None:
        self._array: np.ndarray | None = None
        self._offsets: list[int] = []

    def set(self, array: Any, place: Any = None) -> None:
        """Its numbers from here on, as a copy. ``place``: where programs compute is said to their executor."""
        self._array = np.array(array)

    def set_lod(self, lod: Levels) -> None:
        """``[[0, 2, 5]]``: two sequences, of two and of three; ``[]``: none."""
        offsets = _one_level(lod)
        rises = all(later >= earlier for earlier, later in pairwise(offsets))
        if offsets and (offsets[0] != 0 or len(offsets) < 2 or not rises):
            raise InvalidArgument(f"set_lod: sequences begin at 0, and end where the next one begins: not {offsets}")
        self._offsets = offsets

    def set_recursive_sequence_lengths(self, recursive_sequence_lengths: Levels) -> None:
        """``[[2, 3]]``: the same by lengths."""
        lengths = _one_level(recursive_sequence_lengths)
        if any(length < 0 for length in lengths):
            raise InvalidArgument(f"a sequence's length is 0 or more: {lengths}")
        self._offsets = [0, *accumulate(lengths)] if lengths else []

    def lod(self) -> list[list[int]]:
        return [list(self._offsets)] if self._offsets else []

    def recursive_sequence_lengths(self) -> list[list[int]]:
        return [np.diff(self._offsets).tolist()] if self._offsets else []

    def has_valid_recursive_sequence_lengths(self) -> bool:
        """Whether the sequences are all of its numbers."""
        return not self._offsets or (self._array is not None and self._offsets[-1] == len(self._array))

    def shape(self) -> list[int]:
        """Of all sequences together."""
        return [0] if self._array is None else list(self._array.shape)

    def jagged(self) -> Jagged | torch.Tensor:
        """As a program is fed it; without sequences, the numbers alone."""
        numbers = torch.from_numpy(np.ascontiguousarray(self._numbers()))
        if not self._offsets:
            return numbers
        if not self.has_valid_recursive_sequence_lengths():
            raise InvalidArgument(
                f"a LoDTensor has {len(numbers)} rows, and its sequences end at {self._offsets[-1]}: {self.lod()}"
            )
        return Jagged(numbers, torch.tensor(self._offsets))

    def _numbers(self) -> np.ndarray:
        if self._array is None:
            raise InvalidArgument("a LoDTensor has no numbers yet: call set(array, place) first")
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._numbers(), dtype)

    def __str__(self) -> str:
        return f"LoDTensor(lod={self.lod()},\n{self._array})"


def _one_level(levels: Levels) -> list[int]:
    if len(levels) > 1:
        raise InvalidArgument(f"sequences have one level here, not {len(levels)}: give that of the numbers alone")
    return [int(each) for each in levels[0]] if len(levels) else []


def create_lod_tensor(data: Any, recursive_seq_lens: Levels, place: Any = None) -> LoDTensor:
    """Of an array whose rows are cut into sequences of these lengths, or of a list of sequences of whole numbers, which
    have them."""
    made = LoDTensor()
    if isinstance(data, list):
        lengths = [len(sequence) for sequence in data]
        if [lengths] != [list(level) for level in recursive_seq_lens]:
            raise InvalidArgument(f"create_lod_tensor: the sequences have the lengths {lengths}: {recursive_seq_lens}")
        made.set(np.array([number for sequence in data for number in sequence], np.int64).reshape(-1, 1))
    else:
        made.set(data)
    made.set_recursive_sequence_lengths(recursive_seq_lens)
    if not made.has_valid_recursive_sequence_lengths():
        raise InvalidArgument(
            f"create_lod_tensor: sequences of {recursive_seq_lens[0]} are not the {made.shape()[0]} rows of the data"
        )
    return made


def create_random_int_lodtensor(
    recursive_seq_lens: Levels, base_shape: Sequence[int], place: Any, low: int, high: int
) -> LoDTensor:
    """Whole numbers from ``low`` to ``high``, both among them."""
    rows = sum(_one_level(recursive_seq_lens))
    return create_lod_tensor(np.random.randint(low, high + 1, [rows, *base_shape]), recursive_seq_lens, place)
