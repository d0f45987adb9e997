"""What modules over one table share."""

from __future__ import annotations

import torch

from flota.admission import Admission, checked
from flota.errors import InvalidArgument
from flota.initializer import Initializer, Normal
from flota.nn.lookup import as_keys, look_up
from flota.nn.naming import table_parameter
from flota.nn.store import KeyRules
from flota.nn.table import TableParameter
from flota.rules import Rule


class TableModule(torch.nn.Module):
    """A module with one table. Use a subclass."""

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
        admission: Admission | None = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and num_embeddings is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise InvalidArgument(f"padding_idx must be within num_embeddings, {num_embeddings}, not {padding_idx}")
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        first = Normal() if init is None else init
        self.weight = table_parameter(name, embedding_dim, first, optimizer, seed, checked(admission))

    def pull(self, keys: torch.Tensor) -> torch.Tensor:
        """The keys' rows as they are now; keys without a row show what they would begin with, or zeros where keys have
        to be admitted."""
        looked = look_up(self.weight, [as_keys(keys, "keys")], self._key_rules(), training=False)
        return looked.gathered().reshape(*keys.shape, self.embedding_dim)

    def _key_rules(self) -> KeyRules:
        return KeyRules(self.padding_idx, self.num_embeddings)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}, table={self.weight.options.name!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"
