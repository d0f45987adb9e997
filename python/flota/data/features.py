"""What the columns of a data set are: numbers, ids, labels.

    features = Features([
        Label("click"),
        Dense("price", log1p=True),
        Sparse("user"),                                  # ids by a stable hash of the text
        Sparse("country", vocabulary=["AT", "DE", "CH"]),
        Sparse("history", many="|", space="item"),       # any number a sample; shares its ids with …
        Sparse("item"),                                  # … this one
    ])
    model.embedding = flota.nn.EmbeddingCollection(features.sparse, dim=16)

Batches are ``Batch(dense, ids, label)`` of tensors, in the form that ``EmbeddingCollection`` takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from flota import _core, checks
from flota.data.slots import FLOATS, ID_LIST, IDS, Arrays, Jagged, SlotPlace, jagged
from flota.errors import InvalidArgument

_EXACT = 1 << 53  # up to here a double holds every whole number


class Batch(NamedTuple):
    """Some samples.

    ``dense``: float32 [B, number of dense columns]. ``ids``: int64 [B, number of sparse columns]; if one of those has
    many values a sample, a mapping from each sparse column's name to int64 [B] or to (values, offsets) as
    ``torch.nn.EmbeddingBag`` takes them. ``label``: float32 [B], or [B, labels] if there are several.
    """

    dense: torch.Tensor
    ids: torch.Tensor | dict[str, torch.Tensor | Jagged]
    label: torch.Tensor


@dataclass(frozen=True)
class Dense:
    """A number: ``(x - shift) / scale``, or ``log(1 + x)`` (0 for a negative one).

    ``missing`` is what an empty one becomes; with None it is an error.
    """

    name: str
    log1p: bool = False
    shift: float = 0.0
    scale: float = 1.0
    missing: float | None = 0.0

    def __post_init__(self) -> None:
        if self.log1p and (self.shift, self.scale) != (0.0, 1.0):
            raise InvalidArgument(f"Dense({self.name!r}): shift and scale would have no effect with log1p=True")
        if self.scale == 0.0:
            raise InvalidArgument(f"Dense({self.name!r}): scale must not be 0")


@dataclass(frozen=True)
class Sparse:
    """An id for each sample, or with ``many`` any number of them.

    Ids are, by one of three ways: a hash of the text (unless said otherwise), below ``buckets`` if given, else of 63
    bits; the whole number itself (``raw=True``); the place in ``vocabulary``, from 1 on, 0 for every other text.

    Hashes depend on the text and the ``space`` alone, and are the same in every process and for ever. Unless columns
    have the same space, which is a column's name unless given, the same text has different ids in them.

    ``many`` is what stands between the values in a text ("|"), or True for lists and slot text (in texts: a comma).
    ``missing`` is the id for an empty text: of hashes and vocabularies an empty text is one like others unless it is
    given, of raw ids it is an error.
    """

    name: str
    buckets: int | None = None
    raw: bool = False
    vocabulary: Sequence[str] | None = field(default=None, repr=False)
    many: bool | str = False
    space: str | None = None
    missing: int | None = None

    def __post_init__(self) -> None:
        if self.raw and self.vocabulary is not None:
            raise InvalidArgument(f"Sparse({self.name!r}): ids are raw or by a vocabulary, not both")
        if self.buckets is not None:
            checks.whole("buckets", self.buckets, 1, (1 << 63) - 1)
        if self.missing is not None:
            checks.whole(f"Sparse({self.name!r}): missing", self.missing, -_EXACT, _EXACT)
        if self.vocabulary is not None:
            _check_words(f"Sparse({self.name!r}): vocabulary", self.vocabulary)
        if (self.raw or self.vocabulary is not None) and (self.buckets is not None or self.space is not None):
            raise InvalidArgument(f"Sparse({self.name!r}): buckets and space are for hashed ids")
        if isinstance(self.many, str) and (len(self.many) != 1 or not self.many.isascii() or self.many in "\n\r"):
            raise InvalidArgument(f"Sparse({self.name!r}): many must be True or one ASCII character, not {self.many!r}")
        if self.many and self.missing is not None:
            raise InvalidArgument(f"Sparse({self.name!r}): a sample without any of many values is simply empty")

    @property
    def salt(self) -> int:
        return _core.hash_text(0, (self.space or self.name).encode())


def _check_words(name: str, words: Sequence[str]) -> None:
    if isinstance(words, str) or not all(isinstance(word, str) for word in words):
        raise InvalidArgument(f"{name} must be a list of texts, not {words!r:.80}")
    if len(set(words)) < len(words):
        doubled = next(word for place, word in enumerate(words) if word in words[:place])
        raise InvalidArgument(f"{name} has {doubled!r} twice, and an id is a place in it")


@dataclass(frozen=True)
class Label:
    """What is to be predicted: 0 or 1, or with ``binary=False`` any number."""

    name: str = "label"
    binary: bool = True


@dataclass(frozen=True)
class Ignored:
    """A column of a text that is not used. (Of CSV and Parquet files, columns that are not named are not read.)"""

    name: str


Feature = Dense | Sparse | Label | Ignored


class Features:
    """The columns of a data set, in the order of the file where columns have no names."""

    def __init__(self, columns: Sequence[Feature]) -> None:
        self.columns = tuple(columns)
        for column in self.columns:
            if not isinstance(column, (Dense, Sparse, Label, Ignored)):
                raise InvalidArgument(f"features are Dense, Sparse, Label and Ignored columns, not {column!r}")
        names = [column.name for column in self.columns]
        if doubled := {name for name in names if names.count(name) > 1}:
            raise InvalidArgument(f"features have the same name: {', '.join(sorted(doubled))}")
        self.dense = [column.name for column in self.columns if isinstance(column, Dense)]
        self.sparse = [column.name for column in self.columns if isinstance(column, Sparse)]
        self.labels = [column.name for column in self.columns if isinstance(column, Label)]
        self.binary = [column.name for column in self.columns if isinstance(column, Label) and column.binary]
        self._many = [column.name for column in self.columns if isinstance(column, Sparse) and column.many]
        self._single = [name for name in self.sparse if name not in self._many]
        if not (self.dense or self.sparse):
            raise InvalidArgument("features need at least one Dense or Sparse column")
        self.fields: list[tuple[int, int]] = []
        self._matrices = {
            "ids": self._add(IDS, self._single),
            "dense": self._add(FLOATS, self.dense),
            "label": self._add(FLOATS, self.labels),
        }
        self._lists = {name: self._add(ID_LIST, [name]) for name in self._many}
        self.layout = _core.Layout(self.fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return Features, (self.columns,)

    def _add(self, kind: int, names: list[str]) -> int | None:
        if not names:
            return None
        self.fields.append((kind, len(names)))
        return len(self.fields) - 1

    def place(self, column: Feature) -> tuple[int, int]:
        """(field, position) of a column in a sample."""
        if column.name in self._lists:
            return self._lists[column.name] or 0, 0
        kind, names = {
            Sparse: ("ids", self._single), Dense: ("dense", self.dense), Label: ("label", self.labels)
        }[type(column)]  # fmt: skip
        return self._matrices[kind] or 0, names.index(column.name)

    def places(self) -> list[SlotPlace]:
        """Where the columns' values are in a sample."""
        return [(column.name, *self.place(column), 1) for column in self.columns if not isinstance(column, Ignored)]

    def slots(self) -> list[SlotPlace]:
        """How slot text fills a sample: a slot for each column, in order."""
        for column in self.columns:
            if isinstance(column, Ignored):
                raise InvalidArgument(f"slot text cannot leave out slot {column.name!r}: each one must be declared")
            if isinstance(column, Sparse) and not column.raw:
                raise InvalidArgument(f"slot text holds ids: declare Sparse({column.name!r}, raw=True)")
            if isinstance(column, Sparse) and isinstance(column.many, str):
                raise InvalidArgument(f"slot text counts its values: declare Sparse({column.name!r}, many=True)")
            if isinstance(column, (Sparse, Dense)) and column.missing:
                raise InvalidArgument(f"slot text leaves no value out: missing of {column.name!r} would have no effect")
            if isinstance(column, Dense) and (column.log1p or (column.shift, column.scale) != (0.0, 1.0)):
                raise InvalidArgument(f"slot text holds final numbers: Dense({column.name!r}) cannot change them")
        return self.places()

    def batch(self, arrays: Arrays) -> Batch:
        """The tensors of a batch's arrays."""
        count = _samples(arrays)

        def matrix(kind: str, dtype: torch.dtype) -> torch.Tensor:
            place = self._matrices[kind]
            return torch.empty(count, 0, dtype=dtype) if place is None else torch.from_numpy(arrays[place])

        label = matrix("label", torch.float32)
        ids: Any = matrix("ids", torch.int64)
        if self._many:
            single = {name: ids[:, place] for place, name in enumerate(self._single)}
            lists = {name: jagged(arrays[place or 0]) for name, place in self._lists.items()}
            ids = {name: single[name] if name in single else lists[name] for name in self.sparse}
        return Batch(matrix("dense", torch.float32), ids, label[:, 0] if len(self.labels) == 1 else label)

    def __repr__(self) -> str:
        return f"Features({list(self.columns)})"


def _samples(arrays: Arrays) -> int:
    first = arrays[0]
    return len(first[1]) - 1 if isinstance(first, tuple) else len(first)
