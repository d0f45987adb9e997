"""From keys to rows that take part in autograd."""

from __future__ import annotations

import weakref
from typing import Any, cast

import torch
import torch.nn.functional as F

from flota import _core
from flota.errors import InvalidArgument
from flota.nn.table import Gradient, Keys, TableParameter


def as_keys(keys: torch.Tensor, what: str) -> torch.Tensor:
    if keys.dtype not in (torch.int64, torch.int32):
        raise InvalidArgument(f"{what} must be int64 or int32, not {keys.dtype}")
    return keys


class Looked:
    """Rows of a batch's distinct keys, and for each of the caller's keys the place of its row.

    ``rows[places]`` are the caller's rows, in order. Padding has the place ``padding``, a row of zeros that no gradient
    reaches.
    """

    def __init__(self, rows: torch.Tensor, places: torch.Tensor, padding: int | None) -> None:
        self.rows = rows
        self.places = places
        self.padding = padding

    def gathered(self) -> torch.Tensor:
        """A row for each of the caller's keys."""
        if self.padding is None and self.rows.device.type == "cpu":
            return cast(torch.Tensor, _Gather.apply(self.rows, self.places))  # type: ignore[no-untyped-call]
        return F.embedding(self.places, self.rows, padding_idx=self.padding)


class _Gather(torch.autograd.Function):
    """``rows[places]``. Its backward adds up rows in the keys' order, several times as fast as torch's."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(places)
        ctx.count = rows.shape[0]
        return F.embedding(places, rows)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (places,) = ctx.saved_tensors
        values = gradients[0].contiguous()
        sums = torch.empty(ctx.count, values.shape[-1])
        _core.sum_rows(places.data_ptr(), len(places), values.data_ptr(), values.shape[-1], sums.data_ptr(), ctx.count)
        return sums, None


def look_up(table: TableParameter, keys: torch.Tensor, padding: int | None, training: bool, samples: int = 0) -> Looked:
    """Pulls the keys' rows. In training, missing rows are made, and their gradients are noted in the table, as those of
    so many samples."""
    store = table.bound()
    flat = keys.detach().reshape(-1).to(device="cpu", dtype=torch.int64).contiguous()
    device = table.device
    pads = None if padding is None else flat == padding
    if pads is not None and not bool(pads.any()):
        pads = None
    wanted = flat if pads is None else flat[~pads]
    ready = store.route(wanted)
    learns = training and torch.is_grad_enabled() and table.requires_grad
    rows = store.pull(ready, create=training and torch.is_grad_enabled()).to(device)
    if learns:
        rows.requires_grad_()
        _note_gradient(table, ready, rows, samples)
    places = ready.places
    if pads is None:
        return Looked(rows, places.to(device), None)
    count = rows.shape[0]
    all_places = torch.full_like(flat, count, dtype=torch.int32)
    all_places[~pads] = places
    padded = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])
    return Looked(padded, all_places.to(device), count)


def _note_gradient(table: TableParameter, keys: Keys, rows: torch.Tensor, samples: int) -> None:
    """Only what backward() reaches has a gradient to note, so it is noted there."""
    # The table keeps the rows until the step is over: if the rows kept the table, neither would ever go.
    handle = weakref.ref(table)

    def note(leaf: torch.Tensor) -> None:
        table = handle()
        if table is not None:
            table.add_gradient(Gradient(keys, leaf, samples))

    rows.register_post_accumulate_grad_hook(note)  # type: ignore[no-untyped-call]
