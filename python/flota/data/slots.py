"""Slots: the variables that a data generator's text fills, in order.

A slot with a shape has so many values in every sample and becomes a matrix; one without may have any number, and
becomes (values, offsets).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from flota import _core, checks
from flota.errors import InvalidArgument

# The core's kinds of fields.
FLOATS, IDS, FLOAT_LIST, ID_LIST = range(4)

# (name, field, position in it, width) of a slot.
SlotPlace = tuple[str, int, int, int]

# A batch's fields as the core gives them: a matrix, or a list's values and the places where samples begin and end.
Arrays = Sequence[Any]
Jagged = tuple[torch.Tensor, torch.Tensor]


def jagged(array: tuple[npt.NDArray[Any], npt.NDArray[np.int64]]) -> Jagged:
    """(values, where each sample's begin), as ``torch.nn.EmbeddingBag`` takes them."""
    values, ends = array
    return torch.from_numpy(values), torch.from_numpy(ends)[:-1]


@dataclass(frozen=True)
class Slot:
    """A variable: ``shape`` of a sample's values, or None for any number of them; whole numbers or floats."""

    name: str
    shape: tuple[int, ...] | None = None
    dtype: str = "int64"

    def __post_init__(self) -> None:
        if self.dtype not in ("int64", "float32"):
            raise InvalidArgument(f"Slot({self.name!r}): dtype must be 'int64' or 'float32', not {self.dtype!r}")
        if self.shape is not None and not isinstance(self.shape, (tuple, list)):
            raise InvalidArgument(
                f"Slot({self.name!r}): shape must be lengths such as (1,) or None, not {self.shape!r}"
            )
        for length in self.shape or ():
            checks.whole(f"each length in the shape of slot {self.name!r}", length, 1, 1 << 20)

    @staticmethod
    def of(variable: Any) -> Slot:
        """The slot for a variable that has a ``name``, a ``shape`` (of a batch or of a sample), a ``dtype`` and
        perhaps a ``lod_level``."""
        if isinstance(variable, Slot):
            return variable
        if isinstance(variable, str):
            return Slot(variable)
        try:
            name, shape, dtype = variable.name, tuple(variable.shape), str(variable.dtype).lower()
        except (AttributeError, TypeError):
            raise InvalidArgument(
                f"use_var takes slots, names, and variables with name, shape and dtype, not {variable!r}"
            ) from None
        kind = "float32" if "float" in dtype or "fp" in dtype else "int64"
        if kind == "int64" and "int" not in dtype:
            raise InvalidArgument(f"variable {name!r}: slot text holds whole numbers and floats, not {dtype}")
        if getattr(variable, "lod_level", 0):
            return Slot(name, None, kind)
        # Paddle's shapes begin with the batch, unless the variable was declared without it.
        own = [length for length in shape if length is not None and length > 0]
        return Slot(name, tuple(own) or (1,), kind)


class Slots:
    """Variables as the schema of a data set: batches are mappings from names to tensors.

    A slot with a shape becomes [B, *shape]; one without becomes (values, offsets).
    """

    def __init__(self, variables: Sequence[Any]) -> None:
        if isinstance(variables, str):
            raise InvalidArgument(f"use_var takes a list of variables, not {variables!r}")
        self.slots_declared = [Slot.of(variable) for variable in variables]
        names = [slot.name for slot in self.slots_declared]
        if not names:
            raise InvalidArgument("use_var is empty: name the variables that a line of slot text fills, in its order")
        if doubled := {name for name in names if names.count(name) > 1}:
            raise InvalidArgument(f"use_var has the same name twice: {', '.join(sorted(doubled))}")
        self.binary: list[str] = []  # a variable does not say what its numbers mean
        self.layout = _core.Layout([_field(slot) for slot in self.slots_declared])

    def places(self) -> list[SlotPlace]:
        """Where the slots' values are in a sample."""
        return self.slots()

    def slots(self) -> list[SlotPlace]:
        return [(slot.name, place, 0, _width(slot)) for place, slot in enumerate(self.slots_declared)]

    def batch(self, arrays: Arrays) -> dict[str, torch.Tensor | Jagged]:
        return {slot.name: _tensor(slot, array) for slot, array in zip(self.slots_declared, arrays, strict=True)}

    def __repr__(self) -> str:
        return f"Slots({self.slots_declared})"


def _width(slot: Slot) -> int:
    return 0 if slot.shape is None else math.prod(slot.shape)


def _field(slot: Slot) -> tuple[int, int]:
    floats = slot.dtype == "float32"
    if slot.shape is None:
        return FLOAT_LIST if floats else ID_LIST, 1
    return FLOATS if floats else IDS, _width(slot)


def _tensor(slot: Slot, array: Any) -> torch.Tensor | Jagged:
    if slot.shape is None:
        return jagged(array)
    return torch.from_numpy(array).reshape(len(array), *slot.shape)
