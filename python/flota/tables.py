"""A job's tables as a client sees them: rows by key, and dense parameters."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from typing import Generic, Literal, TypeVar

import numpy as np
import torch

from flota import _core
from flota.arrays import Array, Keys, Values, address, as_keys, as_values, output_like
from flota.checks import whole
from flota.eras import RowsOf, Shrinking, Standing, check_scores
from flota.errors import InvalidArgument
from flota.pages import NativePage, Place, RowPage, ShardPage, export_shards

PushKind = Literal["gradient", "delta", "assign"]

# A dense parameter in a call for several: its table, its values' address and number, its learning rate, what they
# travel as, the address of versions.
DensePart = tuple[_core.RemoteTable, int, int, float, _core.Storage, int]

T = TypeVar("T")

_FOR_EVER_MS = 1 << 52
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_PUSH_KINDS = {kind.name: kind for kind in _core.PushKind}


def milliseconds(seconds: float) -> int:
    """A timeout as the core takes it."""
    if not seconds > 0:
        raise InvalidArgument(f"a timeout must be a number of seconds above 0, not {seconds}")
    return min(math.ceil(seconds * 1000), _FOR_EVER_MS) if seconds < _FOR_EVER_MS else _FOR_EVER_MS


def choose(name: str, value: str, choices: dict[str, T]) -> T:
    """The choice of this name, or an error that names them all."""
    if value not in choices:
        raise InvalidArgument(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return choices[value]


def number(name: str, value: object, low: float = -math.inf) -> float:
    """A number that float32 can hold, from ``low`` on."""
    bounds = "" if low == -math.inf else f" from {low:g} on"
    if not isinstance(value, (int, float, np.number)) or not low <= value <= _FLOAT32_MAX or value < -_FLOAT32_MAX:
        raise InvalidArgument(f"{name} must be a finite number{bounds}, not {value!r}")
    return float(value)


class Session:
    """A connection to all servers, shared by a client and its tables: it lives as long as any of them."""

    def __init__(self, native: _core.Client, timeout: float) -> None:
        self.native = native
        self.timeout = timeout
        # Background threads hold Python objects: they must end while the interpreter can still take them back.
        self.close = weakref.finalize(self, native.close)

    def time(self, timeout: float | None) -> int:
        return milliseconds(self.timeout if timeout is None else timeout)


class Future(Generic[T]):
    """The answer to a call that goes on in the background."""

    def __init__(self, pending: _core.Pending, value: T) -> None:
        self._pending = pending
        self._value = value

    def result(self, timeout: float | None = None) -> T:
        """Waits for the answer. ``timeout`` (seconds) bounds this wait only; the call has a deadline of its own."""
        self._pending.wait(_FOR_EVER_MS if timeout is None else milliseconds(timeout))
        return self._value

    def done(self) -> bool:
        """Whether the answer is there, so that ``result`` would not wait."""
        return self._pending.done()


class _Table:
    """What sparse and dense tables share."""

    def __init__(self, session: Session, native: _core.RemoteTable) -> None:
        self._session = session
        self._table = native
        self._pushed = 0

    @property
    def native(self) -> _core.RemoteTable:
        """For communicators: what the core calls the table."""
        return self._table

    @property
    def id(self) -> int:
        """What servers know the table by."""
        return _core.hash_name(self.name)

    @property
    def name(self) -> str:
        """What the table was made under."""
        return self._table.spec.name

    @property
    def spec(self) -> _core.TableSpec:
        """All that makes the table what it is."""
        return self._table.spec

    @property
    def lr(self) -> float:
        """The learning rate of pushes that bring none of their own."""
        return self._table.spec.rule.lr

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _push_settings(self, kind: PushKind, lr: float | None, scale: float, step: int | None) -> _core.PushOptions:
        # A worker that counts no steps of its own gets its pushes counted.
        self._pushed += 1
        return _core.PushOptions(
            choose("kind", kind, _PUSH_KINDS),
            self.lr if lr is None else number("the learning rate", lr, low=0.0),
            number("scale", scale),
            self._pushed if step is None else whole("step", step, 0, 1 << 62),
        )

    def _import(
        self, page: RowPage, dim: int, state_floats: int, timeout: float | None, part: RowsOf = RowsOf.table
    ) -> None:
        columns = page.columns(f"table {self.name!r}", dim, state_floats)
        self._session.native.import_rows(
            self._table, len(columns.keys), dim, state_floats, *columns.addresses(), self._session.time(timeout), part
        )

    def _export(
        self,
        places: list[Place],
        max_rows: int,
        timeout: float | None,
        part: RowsOf = RowsOf.table,
        since: int = 0,
    ) -> list[NativePage]:
        return self._session.native.export_pages(
            self._table, places, max_rows, self._session.time(timeout), part, since
        )


class SparseTable(_Table):
    """Rows of ``dim`` weights for any 64-bit keys, made on first use."""

    @property
    def dim(self) -> int:
        """How many weights a row has."""
        return self._table.spec.dim

    def pull(self, keys: Keys, *, create: bool = True, out: Array | None = None, timeout: float | None = None) -> Array:
        """The keys' rows, ``float32 [len(keys), dim]``, as a torch tensor (a numpy array for numpy keys).

        A key without a row gets one; with ``create=False`` it shows the values it would begin with, and none is made.
        """
        keys_array = as_keys(keys)
        rows = output_like(keys_array, (len(keys_array), self.dim), out)
        self._session.native.pull(
            self._table, address(keys_array), len(keys_array), address(rows), create, self._session.time(timeout)
        )
        return rows

    def pull_async(
        self, keys: Keys, *, create: bool = True, out: Array | None = None, timeout: float | None = None
    ) -> Future[Array]:
        """``pull`` in the background. Leave ``keys`` and ``out`` alone until the result is there."""
        keys_array = as_keys(keys)
        rows = output_like(keys_array, (len(keys_array), self.dim), out)
        pending = self._session.native.pull_async(
            self._table,
            address(keys_array),
            len(keys_array),
            address(rows),
            create,
            self._session.time(timeout),
            (keys_array, rows),
        )
        return Future(pending, rows)

    def push(
        self,
        keys: Keys,
        values: Values,
        *,
        kind: PushKind = "gradient",
        lr: float | None = None,
        scale: float = 1.0,
        step: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Applies one row of values to each key's row; values of equal keys are summed first.

        ``kind``: ``"gradient"`` goes through the table's rule with this learning rate, ``"delta"`` is added to the
        weights, ``"assign"`` replaces them (the last of equal keys counts). ``scale`` multiplies gradients and deltas.
        NaN and infinity are refused, and then nothing is applied, unless the table allows them.
        """
        keys_array = as_keys(keys)
        rows = as_values(values, (len(keys_array), self.dim), "values")
        self._session.native.push(
            self._table,
            address(keys_array),
            len(keys_array),
            address(rows),
            self._push_settings(kind, lr, scale, step),
            self._session.time(timeout),
        )

    def push_async(
        self,
        keys: Keys,
        values: Values,
        *,
        kind: PushKind = "gradient",
        lr: float | None = None,
        scale: float = 1.0,
        step: int | None = None,
        timeout: float | None = None,
    ) -> Future[None]:
        """``push`` in the background, after all pushes before it. Leave the arrays alone until the result is there."""
        keys_array = as_keys(keys)
        rows = as_values(values, (len(keys_array), self.dim), "values")
        pending = self._session.native.push_async(
            self._table,
            address(keys_array),
            len(keys_array),
            address(rows),
            self._push_settings(kind, lr, scale, step),
            self._session.time(timeout),
            (keys_array, rows),
        )
        return Future(pending, None)

    def make_batch(self) -> _core.Batch:
        """An empty batch: ``route`` gives it its keys."""
        return self._session.native.make_batch()

    def pull_batch(self, batch: _core.Batch, out: Array, *, create: bool = True, timeout: float | None = None) -> None:
        """The rows of the batch's distinct keys, in its order."""
        rows = output_like(out, (len(batch), self.dim), out)
        self._session.native.pull_batch(self._table, batch, address(rows), create, self._session.time(timeout))

    def pull_batch_async(
        self, batch: _core.Batch, out: Array, *, create: bool = True, timeout: float | None = None
    ) -> Future[Array]:
        """``pull_batch`` in the background. Leave ``batch`` and ``out`` alone until the result is there."""
        rows = output_like(out, (len(batch), self.dim), out)
        pending = self._session.native.pull_batch_async(
            self._table, batch, address(rows), create, self._session.time(timeout), (self._table, rows)
        )
        return Future(pending, rows)

    def push_batch(
        self, batch: _core.Batch, values: Values, options: _core.PushOptions, *, timeout: float | None = None
    ) -> None:
        """Applies one row of values to each row of the batch."""
        rows = as_values(values, (len(batch), self.dim), "values")
        self._session.native.push_batch(self._table, batch, address(rows), options, self._session.time(timeout))

    def rows(self, timeout: float | None = None) -> int:
        """How many rows there are, on all servers."""
        _, rows, _ = self._session.native.describe(self.name, self._session.time(timeout))
        return rows

    def export(
        self, shards: Sequence[int] | None = None, *, page_rows: int = 4096, timeout: float | None = None
    ) -> Iterator[RowPage]:
        """All rows (or those of some of the 1,024 virtual shards), whole, a bounded page at a time.

        Every row that is there from beginning to end comes exactly once; training may go on meanwhile.
        """
        for part in self.export_shards(shards, page_rows=page_rows, timeout=timeout):
            yield part.page

    def export_shards(
        self,
        shards: Sequence[int] | None = None,
        *,
        page_rows: int = 4096,
        timeout: float | None = None,
        part: RowsOf = RowsOf.table,
        since: int = 0,
    ) -> Iterator[ShardPage]:
        """``export``, with the shards that each page is of. ``since``: what was not touched since an era is left out;
        ``part``: of keys that wait for their rows, or whose rows were removed."""
        return export_shards(
            lambda places, rows: self._export(places, rows, timeout, part, since),
            range(_core.SHARDS) if shards is None else shards,
            page_rows,
        )

    def import_rows(self, page: RowPage, timeout: float | None = None, *, part: RowsOf = RowsOf.table) -> None:
        """Makes or overwrites whole rows: weights, state and counters."""
        dim, state_floats = page.weights.shape[-1], page.state.shape[-1]
        self._import(page, dim, state_floats, timeout, part)

    def stand(self, *, begin: int = 0, mark: int = 0, keep_since: int = 0) -> Standing:
        """Where the table stands on its servers; see ``flota.eras``."""
        return self._era(begin, mark, keep_since, None)

    def restore(self, era: int, mark: int, shrinks: Sequence[int]) -> None:
        """It stands as it did when it was saved."""
        self._era(era, mark, era, list(shrinks))

    def _era(self, begin: int, mark: int, keep_since: int, shrinks: list[int] | None) -> Standing:
        told = self._session.native.era(
            self._table, begin, mark, keep_since, shrinks is not None, shrinks or [], self._session.time(None)
        )
        # Of the marks those that all servers have: one of them may have begun anew.
        common = set.intersection(*(set(marks) for _, _, marks, _ in told))
        return Standing(
            max(newest for newest, _, _, _ in told),
            tuple(mark for mark in told[0][2] if mark in common),
            max(since for _, since, _, _ in told),
            tuple(told[0][3]),
        )

    def shrink(self, which: Shrinking, era: int) -> int:
        """Removes rows on all servers, exactly once; returns how many."""
        check_scores(self.spec, which)
        return self._session.native.shrink(
            self._table,
            era,
            which.max_age or 0,
            which.decay,
            which.min_score,
            which.min_norm,
            which.everything,
            self._session.time(None),
        )


class DenseTable(_Table):
    """One dense parameter, in blocks spread over the servers."""

    def __init__(
        self, session: Session, native: _core.RemoteTable, wire_dtype: _core.Storage = _core.Storage.float32
    ) -> None:
        super().__init__(session, native)
        self.shape = tuple(native.spec.shape)
        self._wire_dtype = wire_dtype

    @property
    def blocks(self) -> int:
        """Into how many blocks the parameter is cut."""
        return len(self._table.spec.blocks)

    def pull(self, *, out: Array | None = None, timeout: float | None = None) -> Array:
        """The parameter, ``float32`` of its shape."""
        values = torch.empty(self.shape) if out is None else output_like(out, self.shape, out)
        self._session.native.pull_dense([self.part(values)], self._session.time(timeout))
        return values

    def pull_async(self, *, out: Array | None = None, timeout: float | None = None) -> Future[Array]:
        """``pull`` in the background."""
        values = torch.empty(self.shape) if out is None else output_like(out, self.shape, out)
        pending = self._session.native.pull_dense_async(
            [self.part(values)], self._session.time(timeout), (self._table, values)
        )
        return Future(pending, values)

    def push(
        self,
        values: Values,
        *,
        kind: PushKind = "gradient",
        lr: float | None = None,
        scale: float = 1.0,
        step: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Applies values of the parameter's shape; see ``SparseTable.push``."""
        array = as_values(values, self.shape, "values")
        options = self._push_settings(kind, lr, scale, step)
        self._session.native.push_dense([self.part(array, options.lr)], options, self._session.time(timeout))

    def push_async(
        self,
        values: Values,
        *,
        kind: PushKind = "gradient",
        lr: float | None = None,
        scale: float = 1.0,
        step: int | None = None,
        timeout: float | None = None,
    ) -> Future[None]:
        """``push`` in the background, after all pushes before it."""
        array = as_values(values, self.shape, "values")
        options = self._push_settings(kind, lr, scale, step)
        pending = self._session.native.push_dense_async(
            [self.part(array, options.lr)], options, self._session.time(timeout), (self._table, array)
        )
        return Future(pending, None)

    def part(self, values: Array, lr: float = 0.0, *, exact: bool = False, versions: int = 0) -> DensePart:
        """These values' part in a call for several parameters. Requires: float32, contiguous, on the CPU, and kept.

        ``exact``: they travel as float32, whatever the table's own way is. ``versions``: the address of a 64-bit
        version for each server, or 0. A pull brings only what is newer than these, and sets them; a push tells by them
        what its values were computed from.
        """
        dtype = _core.Storage.float32 if exact else self._wire_dtype
        return self._table, address(values), math.prod(self.shape), lr, dtype, versions

    def export(self, timeout: float | None = None) -> Iterator[RowPage]:
        """The blocks, whole, one a page: weights, state and counters."""
        for block in range(self.blocks):
            yield RowPage.of(self._export([(block, 0)], 1, timeout)[0])

    def import_rows(self, page: RowPage, timeout: float | None = None) -> None:
        """Overwrites one whole block."""
        self._import(page, page.weights.shape[-1], page.state.shape[-1], timeout)
