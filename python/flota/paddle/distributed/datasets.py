"""Data sets of programs: flota's, whose batches feed a program's variables."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from flota import data
from flota.data.slots import Arrays, Slots
from flota.errors import InvalidArgument
from flota.nn.batches import Leaves, Unshared
from flota.paddle.jagged import Jagged

# The settings of ``init``, in the order in which they may be given without names.
_SETTINGS = (
    "batch_size",
    "thread_num",
    "use_var",
    "pipe_command",
    "input_type",
    "fs_name",
    "fs_ugi",
    "download_cmd",
)
_OWN = ("sharing", "on_error", "lease_seconds")  # flota's, by name only

# What the reference's data sets in memory can be told beside them: the value that asks for nothing, and why there is no
# other.
_NOT_HERE: dict[str, tuple[Any, str]] = {
    "candidate_size": (10000, "slots_shuffle moves values among all samples of this worker"),
    "data_feed_type": ("MultiSlotInMemoryDataFeed", "samples are slots"),
    "fleet_send_batch_size": (1024, "global_shuffle sends as fast as the others receive"),
    "fleet_send_sleep_seconds": (0, "global_shuffle sends as fast as the others receive"),
    "merge_size": (-1, "a line is a sample, and is not merged with others"),
    "parse_content": (False, "a line is slots only"),
    "parse_ins_id": (False, "a line is slots only: make the id a slot"),
    "queue_num": (None, "one queue holds what is read"),
}


class FeedSlots(Slots):
    """Slots whose batches are a program's feed."""

    def __init__(self, variables: Sequence[Any]) -> None:
        super().__init__(variables)
        self._ids = [
            place
            for place, slot in enumerate(self.slots_declared)
            if slot.dtype == "int64" and slot.shape in (None, (1,))
        ]
        # Sequences of numbers, declared without a last side of 1.
        self._of_numbers = {
            place
            for place, variable in enumerate(variables)
            if getattr(variable, "lod_level", 0) and len(variable.shape) == 1
        }

    def batch(self, arrays: Arrays) -> Unshared:
        found, ids = self._together(arrays)
        rows = dict(zip(found, ids.unsqueeze(2).unbind(0), strict=True))
        once = torch.arange(ids.shape[1] + 1, device="cpu")
        fed: dict[str, Any] = {}
        keys: Leaves = {"ids": ids}
        for place, (slot, array) in enumerate(zip(self.slots_declared, arrays, strict=True)):
            if place in rows and slot.shape is not None:
                fed[slot.name] = rows[place]
                continue
            if place in rows:
                fed[slot.name] = Jagged(self._values(place, rows[place]), once, True)
                continue
            if slot.shape is None:
                values = self._values(place, torch.from_numpy(array[0]))
                fed[slot.name] = Jagged(values, torch.from_numpy(array[1]))
            else:
                fed[slot.name] = values = torch.from_numpy(array).reshape(-1, *slot.shape)
            if not values.is_floating_point():
                keys[f"[{slot.name!r}]"] = values
        return Unshared(fed, keys, (tuple(self.slots_declared[place].name for place in found), ids))

    def _values(self, place: int, values: torch.Tensor) -> torch.Tensor:
        """A sequence's values as its variable was declared."""
        return values.reshape(-1) if place in self._of_numbers else values.reshape(-1, 1)

    def _together(self, arrays: Arrays) -> tuple[list[int], torch.Tensor]:
        """The places of the slots that have one id in each sample, and their ids as the rows of one tensor: most models
        look all of them up in one table, and what is one tensor costs one look and one copy."""
        samples = len(arrays[0][1]) - 1 if isinstance(arrays[0], tuple) else len(arrays[0])
        lists = [place for place in self._ids if self.slots_declared[place].shape is None]
        several = {place for place in lists if len(arrays[place][0]) != samples}
        lists = [place for place in lists if place not in several]
        if lists:
            offsets = np.concatenate([arrays[place][1] for place in lists]).reshape(len(lists), samples + 1)
            same = offsets == np.arange(samples + 1)
            if not same.all():
                several.update(place for place, one_each in zip(lists, same.all(1), strict=True) if not one_each)
        found = [place for place in self._ids if place not in several]
        flat = [arrays[place][0] if isinstance(arrays[place], tuple) else arrays[place].reshape(-1) for place in found]
        ids = np.concatenate(flat) if flat else np.empty(0, np.int64)
        return found, torch.from_numpy(ids).reshape(len(found), samples)


def refuse_settings(**settings: Any) -> None:
    """Refuses what has no effect here, unless it asks for nothing."""
    for name, value in settings.items():
        if name == "fea_eval":  # it allows slots_shuffle, which is always allowed
            continue
        if name not in _NOT_HERE:
            near = difflib.get_close_matches(name, [*_SETTINGS, *_OWN, *_NOT_HERE], n=1)
            raise InvalidArgument(
                f"data sets have no setting {name!r}" + (f": did you mean {near[0]!r}?" if near else "")
            )
        nothing, why = _NOT_HERE[name]
        if value != nothing:
            raise InvalidArgument(f"{name}={value!r} would have no effect: {why}; leave it out")


class _Feeds:
    """What ``use_var`` means to a data set of programs."""

    _given: dict[str, Any] | None = None

    def init(self, *args: Any, **kwargs: Any) -> None:
        if len(args) > len(_SETTINGS):
            raise InvalidArgument(f"init takes {', '.join(_SETTINGS)}, and more was given")
        self._set({**dict(zip(_SETTINGS, args, strict=False)), **kwargs})

    def update_settings(self, **settings: Any) -> None:
        """Changes some of the settings of ``init``; the others stay."""
        if self._given is None:
            raise InvalidArgument("call init() of the data set first: update_settings changes what it says")
        self._set({**self._given, **settings})

    def _set(self, settings: dict[str, Any]) -> None:
        refuse_settings(**{name: settings[name] for name in settings if name not in (*_SETTINGS, *_OWN)})
        known = {name: value for name, value in settings.items() if name in (*_SETTINGS, *_OWN)}
        variables = known.get("use_var")
        if not variables:
            raise InvalidArgument("a data set needs use_var: the variables that a line fills, in its order")
        self._given = known
        others = {name: value for name, value in known.items() if name != "use_var"}
        super().init(**others, schema=FeedSlots(variables))  # type: ignore[misc]


class QueueDataset(_Feeds, data.QueueDataset):
    """Streams batches from files."""


class InMemoryDataset(_Feeds, data.InMemoryDataset):
    """Loads all samples, and may shuffle them."""

    def load_into_memory(self, is_shuffle: bool = False) -> None:
        """Reads this worker's part of the files. ``is_shuffle``: shuffles it then."""
        super().load_into_memory()
        if is_shuffle:
            self.local_shuffle()

    def global_shuffle(self, fleet: Any = None, thread_num: int | None = 12, *, seed: int | None = None) -> None:
        """``thread_num`` is what the reference needs; here one thread sends and one receives."""
        super().global_shuffle(seed=seed)

    def _init_distributed_settings(self, **settings: Any) -> None:
        """Settings of the reference's that scripts may give before or after ``init``. ``fea_eval`` allows
        ``slots_shuffle``, which is allowed here in any case."""
        refuse_settings(**settings)
