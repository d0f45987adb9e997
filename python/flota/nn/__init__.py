"""Modules whose rows live in tables: what modellers touch."""

from flota.nn.collection import EmbeddingCollection
from flota.nn.embedding import Embedding, EmbeddingBag
from flota.nn.shown import shown

__all__ = ["Embedding", "EmbeddingBag", "EmbeddingCollection", "shown"]
