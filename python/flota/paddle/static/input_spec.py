"""``paddle.static.InputSpec``: what an input looks like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from flota.errors import InvalidArgument
from flota.paddle.dtypes import as_dtype, name_of


class InputSpec:
    """An input's shape, -1 where the batch decides, its type and its name."""

    def __init__(
        self, shape: Sequence[int | None], dtype: Any = "float32", name: str | None = None, stop_gradient: bool = False
    ) -> None:
        self.shape: tuple[int, ...] = tuple(-1 if side is None else int(side) for side in shape)
        self.dtype: torch.dtype = as_dtype(dtype)
        self.name = name
        self.stop_gradient = stop_gradient

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> InputSpec:
        return cls(tensor.shape, tensor.dtype, name or tensor.name)

    @classmethod
    def from_numpy(cls, ndarray: np.ndarray, name: str | None = None) -> InputSpec:
        return cls(ndarray.shape, ndarray.dtype, name)

    def batch(self, batch_size: int | Sequence[int]) -> InputSpec:
        """It becomes that of a batch of such inputs."""
        size = batch_size[0] if isinstance(batch_size, (list, tuple)) and len(batch_size) == 1 else batch_size
        if not isinstance(size, int):
            raise InvalidArgument(f"InputSpec.batch: a batch's size is one number, not {batch_size!r}")
        self.shape = (size, *self.shape)
        return self

    def unbatch(self) -> InputSpec:
        if not self.shape:
            raise InvalidArgument("InputSpec.unbatch: it has no side to take away")
        self.shape = self.shape[1:]
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputSpec) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.name, self.stop_gradient))

    def __repr__(self) -> str:
        kind = f"paddle.{name_of(self.dtype)}"
        return f"InputSpec(shape={self.shape}, dtype={kind}, name={self.name}, stop_gradient={self.stop_gradient})"
