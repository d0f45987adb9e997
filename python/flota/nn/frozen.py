"""Modules over tables with their rows frozen into them: what ``torch.export`` can trace and serve without servers.

They give what the modules they stand for give. A key that has no row gives the table's default row, since there is no
table to make one in; padding gives zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import torch
import torch.nn.functional as F

from flota.errors import InvalidArgument
from flota.nn.collection import EmbeddingCollection, Feature
from flota.nn.embedding import Embedding, EmbeddingBag
from flota.nn.table_module import TableModule


class FrozenTable(torch.nn.Module):
    """Sorted keys and their rows; after the rows one for keys that have none, and one of zeros for padding."""

    keys: torch.Tensor
    rows: torch.Tensor

    def __init__(self, keys: torch.Tensor, weights: torch.Tensor, default: float) -> None:
        super().__init__()
        self.register_buffer("keys", keys)
        self.register_buffer("rows", frozen_rows(weights, default))
        self.missing = len(weights)
        self.padding = len(weights) + 1

    def places(self, ids: torch.Tensor, padding_idx: int | None) -> torch.Tensor:
        ids = ids.to(torch.int64)
        if self.missing == 0:
            places = torch.zeros_like(ids)
        else:
            at = torch.searchsorted(self.keys, ids).clamp(max=self.missing - 1)
            places = torch.where(self.keys[at] == ids, at, self.missing)
        return places if padding_idx is None else torch.where(ids == padding_idx, self.padding, places)


def frozen_rows(weights: torch.Tensor, default: float) -> torch.Tensor:
    """The rows as a ``FrozenTable`` has them."""
    last = torch.zeros(2, weights.shape[1])
    last[0] = default
    return torch.cat([weights, last])


class FrozenEmbedding(torch.nn.Module):
    """For ``Embedding``."""

    def __init__(self, module: Embedding, table: FrozenTable) -> None:
        super().__init__()
        self.table = table
        self.padding_idx = module.padding_idx

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.embedding(self.table.places(input, self.padding_idx), self.table.rows)


class FrozenEmbeddingBag(torch.nn.Module):
    """For ``EmbeddingBag``."""

    def __init__(self, module: EmbeddingBag, table: FrozenTable) -> None:
        super().__init__()
        self.table = table
        self.padding_idx = module.padding_idx
        self.mode = module.mode
        self.include_last_offset = module.include_last_offset

    def forward(
        self,
        input: torch.Tensor,
        offsets: torch.Tensor | None = None,
        per_sample_weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        return F.embedding_bag(
            self.table.places(input, self.padding_idx),
            self.table.rows,
            None if offsets is None else offsets.to(torch.int64),
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.table.padding if self.padding_idx is not None else None,
        )


class FrozenCollection(torch.nn.Module):
    """For ``EmbeddingCollection``."""

    def __init__(self, module: EmbeddingCollection, table: FrozenTable) -> None:
        super().__init__()
        self.table = table
        self.padding_idx = module.padding_idx
        self.features = list(module.features)
        self.mode = module.mode

    def forward(self, input: torch.Tensor | Mapping[str, Feature]) -> torch.Tensor:
        if isinstance(input, torch.Tensor):
            return F.embedding(self.table.places(input, self.padding_idx), self.table.rows)
        return torch.stack([self._pooled(input[name]) for name in self.features], dim=1)

    def _pooled(self, feature: Feature) -> torch.Tensor:
        ids, offsets = feature if isinstance(feature, tuple) else (feature, None)
        places = self.table.places(ids, self.padding_idx)
        if offsets is None and ids.dim() == 1:
            return F.embedding(places, self.table.rows)
        return F.embedding_bag(
            places,
            self.table.rows,
            None if offsets is None else offsets.to(torch.int64),
            mode=self.mode,
            padding_idx=self.table.padding if self.padding_idx is not None else None,
        )


# Exact types: a subclass may compute something else.
_FROZEN: dict[type[TableModule], Callable[[TableModule, FrozenTable], torch.nn.Module]] = {
    Embedding: lambda module, table: FrozenEmbedding(cast(Embedding, module), table),
    EmbeddingBag: lambda module, table: FrozenEmbeddingBag(cast(EmbeddingBag, module), table),
    EmbeddingCollection: lambda module, table: FrozenCollection(cast(EmbeddingCollection, module), table),
}


def frozen(module: TableModule, table: FrozenTable) -> torch.nn.Module:
    """What stands for the module where there are no servers."""
    make = _FROZEN.get(type(module))
    if make is None:
        names = ", ".join(kind.__name__ for kind in _FROZEN)
        raise InvalidArgument(f"{type(module).__name__} cannot be served; use one of {names}")
    return make(module, table)
