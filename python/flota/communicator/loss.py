"""The loss of the last backward pass, for people who watch: a training loop tells it to nobody."""

from __future__ import annotations

from typing import Any

import torch

from flota.timeline import span

_last: torch.Tensor | None = None
_watching = False


def watch_losses() -> None:
    """From here on every ``loss.backward()`` is noted, and how long it takes. Only done where somebody may look on."""
    global _watching
    if _watching:
        return
    _watching = True
    plain = torch.Tensor.backward

    def backward(self: torch.Tensor, *arguments: Any, **settings: Any) -> None:
        global _last
        if self.numel() == 1:
            _last = self.detach()
        with span("backward"):
            plain(self, *arguments, **settings)  # type: ignore[no-untyped-call]

    torch.Tensor.backward = backward  # type: ignore[method-assign]


def last_loss() -> torch.Tensor | None:
    return _last
