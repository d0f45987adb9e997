"""How long a script waits for torch's DataLoader, for people who watch."""

from __future__ import annotations

from typing import Any

from torch.utils.data import dataloader

from flota.timeline import span

_watching = False


def watch_loaders() -> None:
    """From here on the time in which a loop waits for a batch of a ``torch.utils.data.DataLoader`` is noted. Only done
    where somebody may look on."""
    global _watching
    # torch's own, and no promise: where there is no such class, what the loop waits for is not known.
    iterator = getattr(dataloader, "_BaseDataLoaderIter", None)
    if _watching or iterator is None:
        return
    _watching = True
    plain = iterator.__next__

    def timed_next(self: Any) -> Any:
        with span("read"):
            return plain(self)

    iterator.__next__ = timed_next
