"""Between the host and a GPU: through pinned memory, on a stream beside the one that computes.

On the CPU all of this gives back what it was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

_streams: dict[torch.device, torch.cuda.Stream] = {}


def _side_stream(device: torch.device) -> torch.cuda.Stream:
    if device not in _streams:
        _streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return _streams[device]


def host_empty(shape: Sequence[int], device: torch.device, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Memory on the host for what goes to ``device``, or comes from it."""
    return torch.empty(tuple(shape), dtype=dtype, device="cpu", pin_memory=device.type == "cuda")


def to_device(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy on ``device`` that the current stream may use; the host does not wait for it."""
    if device.type != "cuda" or values.device == device:
        return values.to(device)
    side = _side_stream(device)
    with torch.cuda.stream(side):
        copy = values.to(device, non_blocking=True)
    current = torch.cuda.current_stream(device)
    current.wait_stream(side)
    # The copy is the side stream's memory: it must not be given out again while the current one uses it.
    copy.record_stream(current)
    return copy


def join(device: torch.device, values: Iterable[torch.Tensor]) -> None:
    """The current stream may use these values, which another thread has brought to ``device``."""
    if device.type == "cuda":
        current = torch.cuda.current_stream(device)
        current.wait_stream(_side_stream(device))
        for value in values:
            if value.device.type == "cuda":
                value.record_stream(current)


def to_host(values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The values on the host, contiguous; returns when all are there. What is there already is not copied."""
    copies = [value if value.device.type == "cpu" else host_empty(value.shape, value.device) for value in values]
    streams: list[torch.cuda.Stream] = []
    for value, copy in zip(values, copies, strict=True):
        if value.device.type != "cuda":
            continue
        side = _side_stream(value.device)
        if side not in streams:
            streams.append(side)
            side.wait_stream(torch.cuda.current_stream(value.device))
        with torch.cuda.stream(side):
            copy.copy_(value, non_blocking=True)
        value.record_stream(side)
    for side in streams:
        side.synchronize()
    return [copy.contiguous() for copy in copies]
