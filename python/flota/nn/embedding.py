"""Embedding and EmbeddingBag: torch's modules with their rows in a table."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F

from flota.admission import Admission
from flota.errors import InvalidArgument
from flota.initializer import Initializer
from flota.nn.lookup import as_keys, look_up
from flota.nn.table_module import TableModule
from flota.rules import Rule

Mode = Literal["sum", "mean", "max"]


class Embedding(TableModule):
    """``torch.nn.Embedding`` with its rows in a table: ``num_embeddings`` None means any 64-bit key.

    ``init`` is what rows begin with (``flota.initializer``), ``name`` the table's name (modules that give the same one
    share it), ``optimizer`` a rule of its own (``flota.rules``) in place of the optimizer's, ``admission`` which keys
    get rows (``flota.admission``; all of them, unless said).
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
        admission: Admission | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, init, name, optimizer, seed, admission)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        samples = input.shape[0] if input.dim() > 0 else 1
        looked = look_up(self.weight, [as_keys(input, "keys")], self._key_rules(), self.training, samples)
        return looked.gathered().reshape(*input.shape, self.embedding_dim)


class EmbeddingBag(TableModule):
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
        admission: Admission | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, init, name, optimizer, seed, admission)
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
        owners = None if offsets is None else lambda: _owners(input, offsets, samples)
        looked = look_up(self.weight, [as_keys(input, "keys")], self._key_rules(), self.training, samples, owners)
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


def _owners(keys: torch.Tensor, offsets: torch.Tensor, samples: int) -> torch.Tensor:
    """Which bag each key is in."""
    starts = offsets[:samples].detach().to(device="cpu", dtype=torch.int64)
    return torch.searchsorted(starts, torch.arange(keys.numel(), device="cpu"), right=True) - 1
