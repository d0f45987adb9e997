"""EmbeddingCollection: many features, one pull."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
import torch.nn.functional as F

from flota.admission import Admission
from flota.errors import InvalidArgument
from flota.initializer import Initializer
from flota.nn.lookup import as_keys, look_up
from flota.nn.table_module import TableModule
from flota.rules import Rule

Jagged = tuple[torch.Tensor, torch.Tensor]
Feature = torch.Tensor | Jagged


class EmbeddingCollection(TableModule):
    """Rows of many features in one table, pulled together: ``[batch, features, dim]``.

    ``features`` is their number, or their names. Features share the table's keys: give ids that differ between features
    where they should not share rows. The input is a matrix ``[batch, features]`` of ids, or a mapping from feature to

    - ids ``[batch]``, one a sample;
    - a matrix ``[batch, most]``, padded with ``padding_idx``;
    - ``(values, offsets)`` as ``torch.nn.EmbeddingBag`` takes them;
    - a nested tensor of ids (jagged layout).

    Several ids of a sample are pooled by ``mode``; a sample without any gives zeros.
    """

    def __init__(
        self,
        features: int | Sequence[str],
        dim: int,
        mode: Literal["sum", "mean", "max"] = "sum",
        padding_idx: int | None = None,
        *,
        init: Initializer | None = None,
        name: str | None = None,
        optimizer: Rule | None = None,
        seed: int | None = None,
        admission: Admission | None = None,
    ) -> None:
        super().__init__(None, dim, padding_idx, init, name, optimizer, seed, admission)
        names = [str(i) for i in range(features)] if isinstance(features, int) else list(features)
        if not names or len(set(names)) != len(names):
            raise InvalidArgument("an EmbeddingCollection needs at least one feature, and a name for each")
        if mode not in ("sum", "mean", "max"):
            raise InvalidArgument(f"mode must be one of sum, mean, max, not {mode!r}")
        self.features = names
        self.mode = mode

    def forward(self, input: torch.Tensor | Mapping[str, Feature]) -> torch.Tensor:
        if isinstance(input, torch.Tensor):
            return self._forward_matrix(input)
        unknown = set(input) ^ set(self.features)
        if unknown:
            raise InvalidArgument(f"the input's features are not the collection's: {', '.join(sorted(unknown))}")
        parts = [_as_jagged(name, input[name], self.padding_idx) for name in self.features]
        samples = {len(offsets) for _, offsets in parts}
        if len(samples) != 1:
            raise InvalidArgument(f"features of one batch have different numbers of samples: {sorted(samples)}")
        values = [values for values, _ in parts]
        starts = torch.tensor([0] + [len(values) for values, _ in parts[:-1]]).cumsum(0)
        offsets = torch.cat([offsets + start for (_, offsets), start in zip(parts, starts, strict=True)])
        count = samples.pop()

        def owners() -> torch.Tensor:
            bags = torch.searchsorted(offsets, torch.arange(sum(map(len, values)), device="cpu"), right=True) - 1
            return bags % count

        looked = look_up(self.weight, values, self._key_rules(), self.training, count, owners)
        bags = F.embedding_bag(
            looked.places, looked.rows, offsets.to(looked.places), mode=self.mode, padding_idx=looked.padding
        )
        return bags.reshape(len(self.features), count, self.embedding_dim).transpose(0, 1)

    def _forward_matrix(self, ids: torch.Tensor) -> torch.Tensor:
        if ids.dim() != 2 or ids.shape[1] != len(self.features):
            raise InvalidArgument(
                f"a matrix of ids must be [batch, {len(self.features)}], one column a feature, not {list(ids.shape)}"
            )
        looked = look_up(self.weight, [as_keys(ids, "ids")], self._key_rules(), self.training, ids.shape[0])
        return looked.gathered().reshape(*ids.shape, self.embedding_dim)

    def extra_repr(self) -> str:
        return f"{len(self.features)} features, {self.embedding_dim}, table={self.weight.options.name!r}"


def _as_jagged(name: str, feature: Feature, padding: int | None) -> Jagged:
    """(values, where each sample begins)"""
    if isinstance(feature, tuple):
        values, offsets = feature
        return as_keys(values, f"feature {name!r}"), offsets.to(device="cpu", dtype=torch.int64)
    if feature.is_nested:
        starts = feature.offsets()[:-1]  # type: ignore[attr-defined]
        return as_keys(feature.values(), f"feature {name!r}"), starts.to("cpu", torch.int64)
    as_keys(feature, f"feature {name!r}")
    if feature.dim() == 1:
        return feature, torch.arange(len(feature))
    if feature.dim() != 2:
        raise InvalidArgument(f"feature {name!r} must be [batch] or [batch, most], not {list(feature.shape)}")
    if feature.shape[1] > 1 and padding is None:
        raise InvalidArgument(
            f"feature {name!r} is a matrix: give the collection a padding_idx to tell ids from padding"
        )
    return feature.reshape(-1), torch.arange(feature.shape[0]) * feature.shape[1]
