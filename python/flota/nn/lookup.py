"""From keys to rows that take part in autograd."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable

from flota import _core
from flota.admission import ShowClick
from flota.errors import InvalidArgument
from flota.nn.shown import of_keys
from flota.nn.store import KeyRules, Keys, Wanted
from flota.nn.table import Gradient, TableParameter
from flota.nn.transfer import to_device
from flota.timeline import span


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
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (places,) = ctx.saved_tensors
        values = gradients[0].contiguous()
        sums = torch.empty(ctx.count, values.shape[-1], device="cpu")
        _core.sum_rows(places.data_ptr(), len(places), values.data_ptr(), values.shape[-1], sums.data_ptr(), ctx.count)
        return sums, None


def joined(parts: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Parts that follow each other in one tensor's memory as one: each part costs a look and a copy of its own."""
    first, last = parts[0], parts[-1]
    place, count = first.data_ptr(), 0
    for part in parts:
        if part.data_ptr() != place or part.dtype != first.dtype or not part.is_contiguous():
            return parts
        count += part.numel()
        place += part.numel() * part.element_size()
    # Memory that happens to follow another tensor's is not its.
    if count == 0 or first.untyped_storage().data_ptr() != last.untyped_storage().data_ptr():
        return parts
    return [first.as_strided((count,), (1,))]


def make_ready(table: TableParameter, parts: Sequence[torch.Tensor], rules: KeyRules) -> Wanted:
    """The keys of ``parts``, one after another, checked, on the CPU, and each distinct one once."""
    flat = [part.detach().reshape(-1).to(device="cpu", dtype=torch.int64) for part in parts]
    keys = (flat[0] if len(flat) == 1 else torch.cat(flat)).contiguous()
    if rules.limit is not None and keys.numel() > 0:
        low, high = (int(end) for end in keys.aminmax())
        if low < 0 or high >= rules.limit:
            wrong = low if low < 0 else high
            raise IndexError(f"key {wrong} is out of range: there are {rules.limit} rows, from 0 on")
    pads = None if rules.padding is None else keys == rules.padding
    store = table.bound()
    if pads is None or not bool(pads.any()):
        ready = store.route(keys)
        return Wanted(ready, ready.places, False)
    ready = store.route(keys[~pads])
    places = torch.full_like(keys, len(ready.batch), dtype=torch.int32)
    places[~pads] = ready.places
    return Wanted(ready, places, True)


def look_up(
    table: TableParameter,
    parts: Sequence[torch.Tensor],
    rules: KeyRules,
    training: bool,
    samples: int = 0,
    owners: Callable[[], torch.Tensor] | None = None,
) -> Looked:
    """Pulls the rows of the keys in ``parts``, one after another. In training, missing rows are made, and their
    gradients are noted in the table, as those of so many samples. ``owners`` tells which sample each key is of, where
    the samples do not have as many each."""
    create = training and torch.is_grad_enabled()
    if len(parts) > 1:
        parts = joined(parts)
    prepared = table.watcher(parts, rules, create) if table.watcher is not None else None
    with span("pull"):
        if prepared is not None:
            wanted = prepared.wanted
            rows = to_device(prepared.ahead.rows(), table.device)
        else:
            wanted = make_ready(table, parts, rules)
            rows = to_device(table.bound().pull(wanted.keys, create, table.device), table.device)
    if create and table.requires_grad:
        if table.options.admission is not None:
            _count(table, wanted, samples, owners)
        rows.requires_grad_()
        _note_gradient(table, wanted.keys, rows, samples)
    places = to_device(wanted.places, table.device)
    if not wanted.padded:
        return Looked(rows, places, None)
    return Looked(torch.cat([rows, rows.new_zeros(1, rows.shape[1])]), places, rows.shape[0])


def _count(table: TableParameter, wanted: Wanted, samples: int, owners: Callable[[], torch.Tensor] | None) -> None:
    """Notes how often each key is in the batch, and in clicked samples, for the push of its gradient to tell."""
    shows = clicks = None
    places = wanted.places
    if isinstance(table.options.admission, ShowClick):
        if owners is None:
            each = places.numel() // max(samples, 1)
            of = torch.arange(samples, device="cpu").repeat_interleave(each)
        else:
            of = owners()
        shows, clicks = of_keys(table.options.name, of, samples)
    wanted.keys.batch.count(
        places.data_ptr(),
        places.numel(),
        0 if shows is None else shows.data_ptr(),
        0 if clicks is None else clicks.data_ptr(),
    )


def _note_gradient(table: TableParameter, keys: Keys, rows: torch.Tensor, samples: int) -> None:
    """Only what backward() reaches has a gradient to note, so it is noted there."""
    # The table keeps the rows until the step is over: if the rows kept the table, neither would ever go.
    handle = weakref.ref(table)

    def note(leaf: torch.Tensor) -> None:
        # Taken from the leaf: a second backward pass over it notes another one.
        values, leaf.grad = leaf.grad, None
        table = handle()
        if table is not None and values is not None:
            table.add_gradient(Gradient(keys, values, samples))

    rows.register_post_accumulate_grad_hook(note)  # type: ignore[no-untyped-call]
