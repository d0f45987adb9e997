"""Embedding and EmbeddingBag: torch's modules with their rows in a table."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F

from flota.errors import InvalidArgument
from flota.initializer import Initializer, Normal
from flota.nn.lookup import as_keys, look_up
from flota.nn.naming import table_parameter
from flota.nn.table import TableParameter
from flota.rules import Rule

Mode = Literal["sum", "mean", "max"]


class _Rows(torch.nn.Module):
    """What modules over one table share."""

    weight: TableParameter

    def __init__(
        self,
        num_embeddings: int | None,
        embedding_dim: int,
        padding_idx: int | None,
        init: Initializer | None,
        name: str | None,
        optimizer: Rule | None,
        seed: int | None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and num_embeddings is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise InvalidArgument(f"padding_idx must be within num_embeddings, {num_embeddings}, not {padding_idx}")
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.weight = table_parameter(name, embedding_dim, Normal() if init is None else init, optimizer, seed)

    def pull(self, keys: torch.Tensor) -> torch.Tensor:
        """The keys' rows as they are now; keys without a row show what they would begin with."""
        looked = look_up(self.weight, self._checked(keys), self.padding_idx, training=False)
        return looked.gathered().reshape(*keys.shape, self.embedding_dim)

    def _checked(self, keys: torch.Tensor) -> torch.Tensor:
        as_keys(keys, "keys")
        if self.num_embeddings is not None and keys.numel() > 0:
            low, high = (int(end) for end in keys.aminmax())
            if low < 0 or high >= self.num_embeddings:
                wrong = low if low < 0 else high
                raise IndexError(f"key {wrong} is out of range: there are {self.num_embeddings} rows, from 0 on")
        return keys

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}, table={self.weight.options.name!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"


class Embedding(_Rows):
    """``torch.nn.Embedding`` with its rows in a table: ``num_embeddings`` None means any 64-bit key.

    ``init`` is what rows begin with (``flota.initializer``), ``name`` the table's name (modules that give the same one
    share it), ``optimizer`` a rule of its own (``flota.rules``) in place of the optimizer's.
    """

    def __init__(
        self,
        num_embeddings: int | None,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        init: Initializer | None = None,
        name: str | None = None,
        optimizer: Rule | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, init, name, optimizer, seed)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        samples = input.shape[0] if input.dim() > 0 else 1
        looked = look_up(self.weight, self._checked(input), self.padding_idx, self.training, samples)
        return looked.gathered().reshape(*input.shape, self.embedding_dim)


class EmbeddingBag(_Rows):
    """``torch.nn.EmbeddingBag`` with its rows in a table; see ``Embedding`` for the arguments that torch has not."""

    def __init__(
        self,
        num_embeddings: int | None,
        embedding_dim: int,
        mode: Mode = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        *,
        init: Initializer | None = None,
        name: str | None = None,
        optimizer: Rule | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, init, name, optimizer, seed)
        if mode not in ("sum", "mean", "max"):
            raise InvalidArgument(f"mode must be one of sum, mean, max, not {mode!r}")
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(
        self,
        input: torch.Tensor,
        offsets: torch.Tensor | None = None,
        per_sample_weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        samples = input.shape[0] if offsets is None else len(offsets) - int(self.include_last_offset)
        looked = look_up(self.weight, self._checked(input), self.padding_idx, self.training, samples)
        return F.embedding_bag(
            looked.places.reshape(input.shape),
            looked.rows,
            None if offsets is None else offsets.to(looked.places),
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=looked.padding,
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode!r}"
