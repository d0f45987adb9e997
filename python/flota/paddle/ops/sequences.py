"""Sequences of different lengths: what is one of each, and what is one of each of their values."""

from __future__ import annotations

from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.paddle.jagged import Jagged
from flota.paddle.ops.registry import operation

_REDUCED = {"sum": "sum", "average": "mean", "sqrt": "sum", "max": "max", "min": "min"}


def _sequences(value: Any, which: str) -> Jagged:
    if not isinstance(value, Jagged):
        raise InvalidArgument(f"{which} needs sequences: an input with lod_level=1")
    return value


def _beside(each: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """One number for each sequence, so that it stands beside rows of values."""
    return each.reshape(-1, *[1] * (values.dim() - 1))


@operation(sequences=True)
def sequence_pool(input: Any, pool_type: str, is_test: bool = False, pad_value: float = 0.0) -> Any:
    """One row for each sequence. Of an empty one it is ``pad_value``. ``is_test`` changes nothing."""
    return _pooled(_sequences(input, "sequence_pool"), pool_type.lower(), pad_value)


@operation(sequences=True)
def sequence_first_step(input: Any) -> Any:
    return _pooled(_sequences(input, "sequence_first_step"), "first")


@operation(sequences=True)
def sequence_last_step(input: Any) -> Any:
    return _pooled(_sequences(input, "sequence_last_step"), "last")


def _pooled(input: Jagged, kind: str, pad_value: float = 0.0) -> torch.Tensor:
    if kind not in _REDUCED and kind not in ("first", "last"):
        raise InvalidArgument(f"pool_type is sum, average, sqrt, max, min, first or last, not {kind!r}")
    values = input.values
    if values.is_meta:
        return values.new_empty(input.count, *values.shape[1:])
    if input.one_each():
        return values
    pooled = _ends(input, kind) if kind in ("first", "last") else _reduced(input, kind)
    empty = input.lengths() == 0
    return pooled.masked_fill(_beside(empty, values), pad_value) if bool(empty.any()) else pooled


def _ends(input: Jagged, kind: str) -> torch.Tensor:
    """The first or last value of each sequence; of an empty one, any."""
    if not len(input.values):
        return input.values.new_zeros(input.count, *input.values.shape[1:])
    places = input.offsets[:-1] if kind == "first" else input.offsets[1:] - 1
    return input.values[places.clamp(0, len(input.values) - 1)]


def _reduced(input: Jagged, kind: str) -> torch.Tensor:
    values = input.values
    if not len(values):
        return values.new_zeros(input.count, *values.shape[1:])
    first = 0.0 if _REDUCED[kind] == "sum" else None
    flat = values.reshape(len(values), -1)
    pooled = torch.segment_reduce(flat, _REDUCED[kind], offsets=input.offsets, initial=first)
    pooled = pooled.reshape(input.count, *values.shape[1:])
    if kind != "sqrt":
        return pooled
    return pooled / _beside(input.lengths().clamp(min=1).to(values.dtype).sqrt(), values)


@operation(sequences=True)
def sequence_softmax(input: Any, use_cudnn: bool = False) -> Any:
    """The softmax of each sequence's numbers. ``use_cudnn``: what computes it is torch's choice."""
    input = _sequences(input, "sequence_softmax")
    values = input.values
    if values.is_meta or not len(values):
        return input.with_values(values.clone())
    flat = values.reshape(-1)
    members = input.members()
    greatest = torch.segment_reduce(flat.detach(), "max", offsets=input.offsets)
    powers = torch.exp(flat - greatest[members])
    sums = flat.new_zeros(input.count).index_add(0, members, powers)
    return input.with_values((powers / sums[members]).reshape(values.shape))


@operation(sequences=True)
def sequence_expand_as(x: Any, y: Any) -> Any:
    """Row i of ``x``, as often as sequence i of ``y`` is long."""
    y = _sequences(y, "sequence_expand_as")
    rows = x.values if isinstance(x, Jagged) else x
    if rows.is_meta:
        return y.with_values(rows.new_empty(y.values.shape[0], *rows.shape[1:]))
    return y.with_values(rows[y.members()])


@operation(sequences=True)
def sequence_reverse(x: Any) -> Any:
    x = _sequences(x, "sequence_reverse")
    if x.values.is_meta:
        return x.with_values(x.values.clone())
    members = x.members()
    places = x.offsets[:-1][members] + x.offsets[1:][members] - 1 - torch.arange(len(members), device=members.device)
    return x.with_values(x.values[places])


@operation(sequences=True)
def sequence_pad(x: Any, pad_value: Any, maxlen: int | None = None) -> Any:
    """[sequences, longest, …] and the sequences' lengths. ``maxlen``: the length of all, instead of the longest's."""
    x = _sequences(x, "sequence_pad")
    lengths = x.lengths()
    if x.values.is_meta:
        # The longest is not known: a number that depends on the batch.
        width = x.values.shape[0] if maxlen is None else maxlen
        return x.values.new_empty(x.count, width, *x.values.shape[1:]), lengths
    longest = int(lengths.max()) if x.count else 0
    if maxlen is not None and maxlen < longest:
        raise InvalidArgument(f"sequence_pad: there is a sequence of {longest}, and maxlen is {maxlen}")
    width = longest if maxlen is None else maxlen
    members = x.members()
    within = torch.arange(len(members), device=members.device) - x.offsets[:-1][members]
    value = torch.as_tensor(pad_value, dtype=x.values.dtype, device=x.values.device)
    padded = value.expand(x.count, width, *x.values.shape[1:]).clone()
    return padded.index_put((members, within), x.values), lengths


@operation(sequences=True)
def sequence_unpad(x: Any, length: Any) -> Any:
    """The first so many of each row, as sequences."""
    counts = length.reshape(-1).long()
    offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    if x.is_meta:
        return Jagged(x.new_empty(x.shape[0] * x.shape[1], *x.shape[2:]), offsets)
    kept = torch.arange(x.shape[1], device=x.device) < counts.unsqueeze(1)
    return Jagged(x[kept], offsets)


@operation(sequences=True)
def sequence_concat(input: Any) -> Any:
    """Sequence i of each, one after the other."""
    parts = [_sequences(each, "sequence_concat") for each in input]
    values = torch.cat([part.values for part in parts])
    lengths = torch.stack([part.lengths() for part in parts]).sum(0)
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    if values.is_meta:
        return Jagged(values, offsets)
    order = torch.argsort(torch.cat([part.members() for part in parts]), stable=True)
    return Jagged(values[order], offsets)


# --- windows and parts ---


def _window(x: Jagged, place: int) -> tuple[torch.Tensor, torch.Tensor]:
    """For each value, where the one is that stands so many places after it, and whether its sequence goes so far."""
    members = x.members()
    places = torch.arange(len(members), device=members.device) + place
    inside = (places >= x.offsets[:-1][members]) & (places < x.offsets[1:][members])
    return places.clamp(0, max(len(members) - 1, 0)), inside


@operation(sequences=True)
def sequence_conv(x: Any, weight: Any, context_start: int, context_length: int) -> Any:
    """For each value, the product of the weight and a window of so many values of its sequence, the first of which
    stands ``context_start`` places after it; beyond the sequence's ends there are zeros. ``weight``: [window's values
    times their width, filters]."""
    x = _sequences(x, "sequence_conv")
    if x.values.is_meta:
        return x.with_values(x.values.new_empty(x.values.shape[0], weight.shape[1]))
    columns = []
    for place in range(context_start, context_start + context_length):
        where, inside = _window(x, place)
        columns.append(x.values[where].masked_fill(~inside.unsqueeze(1), 0.0))
    return x.with_values(torch.cat(columns, 1) @ weight)


@operation(sequences=True)
def sequence_enumerate(input: Any, win_size: int, pad_value: int = 0) -> Any:
    """For each number, itself and those after it, ``win_size`` in all; beyond the sequence's end, ``pad_value``."""
    input = _sequences(input, "sequence_enumerate")
    flat = input.values.reshape(-1)
    if flat.is_meta:
        return input.with_values(flat.new_empty(len(flat), win_size))
    columns = []
    for place in range(win_size):
        where, inside = _window(input, place)
        columns.append(flat[where].where(inside, pad_value))
    return input.with_values(torch.stack(columns, 1))


@operation(sequences=True)
def sequence_slice(input: Any, offset: Any, length: Any) -> Any:
    """Of each sequence, ``length`` values from place ``offset`` on; both have one number for each sequence."""
    input = _sequences(input, "sequence_slice")
    if input.values.is_meta:
        return input.with_values(input.values.clone())
    begin, count = offset.reshape(-1).long(), length.reshape(-1).long()
    if bool((begin < 0).any()) or bool((count < 0).any()) or bool((begin + count > input.lengths()).any()):
        raise InvalidArgument("sequence_slice: there is a sequence that ends before offset + length")
    offsets = torch.cat([count.new_zeros(1), count.cumsum(0)])
    places = torch.arange(int(offsets[-1]), device=offsets.device)
    shift = input.offsets[:-1] + begin - offsets[:-1]
    return Jagged(input.values[places + torch.repeat_interleave(shift, count)], offsets)


@operation(sequences=True)
def sequence_reshape(input: Any, new_dim: int) -> Any:
    """The same numbers in rows of ``new_dim``: sequences become longer or shorter."""
    input = _sequences(input, "sequence_reshape")
    width = input.values.shape[1]
    if not input.values.is_meta and bool((input.offsets * width % new_dim != 0).any()):
        raise InvalidArgument(f"sequence_reshape: there is a sequence whose rows of {width} are no rows of {new_dim}")
    if input.values.is_meta:
        return input.with_values(input.values.new_empty(input.values.shape[0] * width // new_dim, new_dim))
    return Jagged(input.values.reshape(-1, new_dim), input.offsets * width // new_dim)


@operation(sequences=True)
def lod_reset(x: Any, y: Any = None, target_lod: Any = None) -> Any:
    """The same values in other sequences: those of ``y``, or that begin and end where ``y``'s numbers or
    ``target_lod`` say."""
    values = x.values if isinstance(x, Jagged) else x
    if y is None and target_lod is None:
        raise InvalidArgument("lod_reset: give y or target_lod")
    if isinstance(y, Jagged):
        offsets = y.offsets
    else:
        offsets = torch.as_tensor(target_lod if y is None else y, device=values.device).reshape(-1).long()
    if not values.is_meta and (int(offsets[0]) != 0 or int(offsets[-1]) != len(values)):
        raise InvalidArgument(
            f"lod_reset: sequences from {int(offsets[0])} to {int(offsets[-1])} of {len(values)} rows"
        )
    return Jagged(values, offsets)
