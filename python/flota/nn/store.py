"""What lookups and stores of rows agree on: keys made ready, and pulls that are begun ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from flota import _core


@dataclass
class Keys:
    """Keys made ready for pull and push: ``places[i]`` is the row of the caller's key i among the batch's rows."""

    batch: _core.Batch
    places: torch.Tensor

    def distinct(self) -> torch.Tensor:
        keys = torch.empty(len(self.batch), dtype=torch.int64, device="cpu")
        self.batch.copy_keys(keys.data_ptr())
        return keys


class Ahead(Protocol):
    """A pull that was begun before its rows are needed."""

    def rows(self) -> torch.Tensor:
        """The rows, as the mode promises them to a pull that is made now. Called once."""


class Store(Protocol):
    """Where a table's rows are: on servers, or in this process."""

    # All rows are in this process: a pull that is begun early gains nothing.
    near: bool

    def route(self, keys: torch.Tensor) -> Keys:
        """``keys``: int64, one-dimensional, contiguous, on the CPU."""

    def pull(self, keys: Keys, create: bool, device: torch.device) -> torch.Tensor:
        """The distinct keys' rows, on the host, ready to go to ``device``."""

    def pull_ahead(self, keys: Keys, create: bool, device: torch.device) -> Ahead:
        """Begins to pull them. Any thread may call it, but one at a time."""


@dataclass(frozen=True)
class KeyRules:
    """What a module says about its keys: which one is padding, and below which number they must be."""

    padding: int | None = None
    limit: int | None = None


@dataclass
class Wanted:
    """The keys of one lookup, made ready.

    ``places`` has for each of the caller's keys the place of its row; padding has the place after the last row.
    """

    keys: Keys
    places: torch.Tensor
    padded: bool


@dataclass
class Prepared:
    """A lookup that was begun ahead of its batch."""

    wanted: Wanted
    ahead: Ahead


# Told of a lookup before it is made: the parts of its keys, what the module says about them, and whether missing rows
# are made. Gives the lookup if it was prepared.
Watcher = Callable[[Sequence[torch.Tensor], KeyRules, bool], Prepared | None]
