"""Sequences of different lengths in one tensor: what Paddle calls a LoD tensor of level 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Jagged:
    """``values[offsets[i]:offsets[i + 1]]`` is sequence i. ``offsets``: int64, one more than there are sequences.
    ``single``: whether each sequence is one value, where somebody knows already."""

    values: torch.Tensor
    offsets: torch.Tensor
    single: bool | None = field(default=None, compare=False, repr=False)

    def one_each(self) -> bool:
        """Whether each sequence is one value: most of those of click-through models are."""
        if self.single is None:
            same = self.values.shape[0] == self.count and bool((self.offsets.diff() == 1).all())
            object.__setattr__(self, "single", same)
        return bool(self.single)

    @property
    def shape(self) -> torch.Size:
        """Of all values together, as scripts know it."""
        return self.values.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.values.dtype

    @property
    def count(self) -> int:
        return self.offsets.shape[0] - 1

    def __len__(self) -> int:
        return self.count

    def with_values(self, values: torch.Tensor) -> Jagged:
        return Jagged(values, self.offsets, self.single)

    def to(self, device: torch.device) -> Jagged:
        return Jagged(self.values.to(device), self.offsets.to(device), self.single)

    def lengths(self) -> torch.Tensor:
        return self.offsets.diff()

    def members(self) -> torch.Tensor:
        """For each value, the number of its sequence."""
        return torch.repeat_interleave(torch.arange(self.count, device=self.values.device), self.lengths())


def by_values(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of tensors as one of sequences: it is given the values, and what it returns for each of them belongs to
    the same sequences."""

    def lifted(*args: Any, **kwargs: Any) -> Any:
        found: list[Jagged] = []

        def values_of(value: Any) -> Any:
            if isinstance(value, Jagged):
                found.append(value)
                return value.values
            if isinstance(value, (list, tuple)):
                return type(value)(map(values_of, value))
            return value

        result = kernel(*map(values_of, args), **{name: values_of(value) for name, value in kwargs.items()})
        first = found[0]

        def belonging(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.dim() > 0 and value.shape[0] == first.values.shape[0]:
                return first.with_values(value)
            if isinstance(value, (list, tuple)):
                return type(value)(map(belonging, value))
            return value

        return belonging(result)

    return lifted
