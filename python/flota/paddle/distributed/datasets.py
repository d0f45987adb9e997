"""Data sets of programs: flota's, whose batches feed a program's variables."""

from __future__ import annotations

from typing import Any

import torch

from flota import data
from flota.data.slots import Arrays, Slots
from flota.errors import InvalidArgument
from flota.paddle.jagged import Jagged


class FeedSlots(Slots):
    """Slots whose batches are a program's feed."""

    def batch(self, arrays: Arrays) -> dict[str, Any]:
        fed: dict[str, Any] = {}
        for slot, array in zip(self.slots_declared, arrays, strict=True):
            if slot.shape is None:
                values, offsets = array
                fed[slot.name] = Jagged(torch.from_numpy(values).unsqueeze(1), torch.from_numpy(offsets))
            else:
                fed[slot.name] = torch.from_numpy(array).reshape(-1, *slot.shape)
        return fed


class _Feeds:
    """What ``use_var`` means to a data set of programs."""

    def init(self, *args: Any, **kwargs: Any) -> None:
        names = ("batch_size", "thread_num", "use_var")
        given = {**dict(zip(names, args[:3], strict=False)), **kwargs}
        variables = given.pop("use_var", None)
        if not variables:
            raise InvalidArgument("a data set needs use_var: the variables that a line fills, in its order")
        rest = args[3:]
        if rest:
            more = ("pipe_command", "input_type", "fs_name", "fs_ugi", "download_cmd")
            given.update(zip(more, rest, strict=False))
        super().init(**given, schema=FeedSlots(variables))  # type: ignore[misc]


class QueueDataset(_Feeds, data.QueueDataset):
    """Streams batches from files."""


class InMemoryDataset(_Feeds, data.InMemoryDataset):
    """Loads all samples, and may shuffle them."""

    def global_shuffle(self, fleet: Any = None, thread_num: int | None = 12, *, seed: int | None = None) -> None:
        """``thread_num`` is what the reference needs; here one thread sends and one receives."""
        super().global_shuffle(seed=seed)
