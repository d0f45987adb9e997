"""What is in a batch: the tensors that may be keys, wherever they stand in it, and the same batch on a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
import torch

from flota.nn.transfer import to_device

B = TypeVar("B")

# Integer tensors by where they stand in the batch, such as ".ids" or "[1]['user']".
Leaves = dict[str, torch.Tensor]

_KEY_TYPES = (torch.int64, torch.int32)
_DEEPEST = 8


class Unshared(dict[str, Any]):
    """A batch whose memory nobody else has: what torch does not write to stays as it is. ``keys_of``: what may be keys
    in it, for it knows without looking at everything. ``together``: parts that are the rows of one tensor, by name."""

    def __init__(
        self, parts: Mapping[str, Any], keys_of: Leaves, together: tuple[tuple[str, ...], torch.Tensor] | None = None
    ) -> None:
        super().__init__(parts)
        self.keys_of = keys_of
        self._together = together

    def rows(self, names: tuple[str, ...]) -> torch.Tensor | None:
        """The parts of these names, a row each, if they follow each other in one tensor."""
        if self._together is None or names[0] not in self._together[0]:
            return None
        known, rows = self._together
        begin = known.index(names[0])
        end = begin + len(names)
        return rows[begin:end] if known[begin:end] == names else None


def leaves_of(batch: object) -> Leaves:
    if isinstance(batch, Unshared):
        return dict(batch.keys_of)
    return dict(_walk(batch, "", _DEEPEST))


def tensors_of(batch: object) -> Iterator[torch.Tensor]:
    """All tensors of the batch."""
    if isinstance(batch, torch.Tensor):
        yield batch
        return
    for _, part in _parts(batch) if not isinstance(batch, (str, bytes, int, float)) else ():
        yield from tensors_of(part)


def _walk(value: Any, path: str, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, np.ndarray) and value.dtype in (np.int64, np.int32) and value.flags.writeable:
        value = torch.from_numpy(value)
    if isinstance(value, torch.Tensor):
        if value.is_nested:
            path, value = f"{path}.values()", value.values()
        # Without a version there is no telling whether it was written to.
        if value.dtype in _KEY_TYPES and not value.is_inference():
            yield path, value
        return
    if depth == 0:
        return
    for name, part in _parts(value):
        yield from _walk(part, f"{path}{name}", depth - 1)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{place}]", part) for place, part in enumerate(value))
    elif is_dataclass(value):
        yield from ((f".{each.name}", getattr(value, each.name)) for each in fields(value))
    elif hasattr(value, "__dict__"):
        yield from ((f".{name}", part) for name, part in vars(value).items())


def moved(batch: B, device: torch.device) -> B:
    """The batch with its tensors and numpy arrays on ``device``; mappings, sequences and dataclasses are made anew."""
    return cast(B, _moved(batch, device))


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    if isinstance(value, torch.Tensor):
        return to_device(value, device)
    if isinstance(value, Mapping):
        return {key: _moved(part, device) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_moved(part, device) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(part, device) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _moved(getattr(value, each.name), device) for each in fields(value)})
    return value
