"""What was shown and clicked: told around a forward pass, counted by tables that admit keys by it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass

import torch

from flota.errors import InvalidArgument


@dataclass(frozen=True)
class Shown:
    """Of each sample of a batch: how often it was shown (None: once) and clicked (None: never)."""

    shows: torch.Tensor | None
    clicks: torch.Tensor | None


_current: ContextVar[Shown | None] = ContextVar("flota_shown", default=None)


def _per_sample(name: str, values: torch.Tensor | None) -> torch.Tensor | None:
    if values is None:
        return None
    flat = values.detach().reshape(-1).to(device="cpu", dtype=torch.float32).contiguous()
    if flat.numel() and not bool(((flat >= 0) & torch.isfinite(flat)).all()):
        raise InvalidArgument(f"{name} must be finite and not negative")
    return flat


@contextlib.contextmanager
def telling(shows: torch.Tensor | None, clicks: torch.Tensor | None) -> Iterator[None]:
    told = Shown(_per_sample("shows", shows), _per_sample("clicks", clicks))
    if told.shows is not None and told.clicks is not None and len(told.shows) != len(told.clicks):
        raise InvalidArgument(f"shows are of {len(told.shows)} samples, clicks of {len(told.clicks)}")
    before = _current.set(told)
    try:
        yield
    finally:
        _current.reset(before)


def shown(clicks: torch.Tensor, shows: torch.Tensor | None = None) -> AbstractContextManager[None]:
    """In it, lookups know how often each sample of the batch was clicked, and shown (once, unless said)::

    with flota.nn.shown(clicks=labels):
        logits = model(batch)
    """
    return telling(shows, clicks)


def of_keys(table: str, owners: torch.Tensor, samples: int) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Shows and clicks of keys, each of which is of the sample that ``owners`` says, of so many."""
    told = _current.get()
    if told is None:
        raise InvalidArgument(
            f"table {table!r} admits keys by shows and clicks: say which samples were clicked, "
            "with flota.nn.shown(clicks=labels): around the forward pass"
        )
    for column in (told.shows, told.clicks):
        if column is not None and len(column) != samples:
            raise InvalidArgument(
                f"table {table!r}: the batch has {samples} samples, flota.nn.shown was told of {len(column)}"
            )
    return (
        None if told.shows is None else told.shows[owners].contiguous(),
        None if told.clicks is None else told.clicks[owners].contiguous(),
    )
