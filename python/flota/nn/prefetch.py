"""Pulls the next batch's rows while this one computes.

    for batch in flota.prefetch(loader, model):
        loss = loss_of(model(batch.ids), batch.label)
        …

Which parts of a batch are keys is learnt from the batches themselves: a module's input that lies in the memory of one
of the batch's tensors (or numpy arrays) is found there again in the next batch. What is not found, such as keys that
the model computes, is pulled when it is needed.

What is pulled ahead is what the mode promises. Sync: exactly what a pull without prefetching would give. Async: as
stale as one more step; with a ``max_staleness`` rows are still pulled when they are needed. Geo: rows that this worker
has no copy of.
"""

from __future__ import annotations

import atexit
import functools
import threading
import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any, Generic, Protocol, TypeVar, cast

import torch

from flota import checks
from flota.nn.batches import Leaves, Unshared, leaves_of, moved, tensors_of
from flota.nn.lookup import make_ready
from flota.nn.store import KeyRules, Prepared
from flota.nn.table import TableParameter
from flota.nn.transfer import join
from flota.timeline import span

B = TypeVar("B")

_reading: weakref.WeakSet[_Prefetcher[Any]] = weakref.WeakSet()
_LAST_WAIT = 5.0  # seconds
_LOOK = 0.1  # seconds


@atexit.register
def _let_threads_end() -> None:
    """A daemon that is in native code when the interpreter ends takes the whole process down with it, so it is given
    time to come out of it; one that waits for data is not waited for any longer."""
    for prefetcher in list(_reading):
        prefetcher.end()
        prefetcher.thread.join(_LAST_WAIT)


def prefetch(
    loader: Iterable[B], model: torch.nn.Module, *, depth: int = 1, device: torch.device | str | None = None
) -> Iterator[B]:
    """The loader's batches, with the rows of the next ``depth`` on their way. The loader is read ahead in a thread.

    With ``device``, the batches' tensors and arrays are brought there on the way, and keys never have to come back.
    """
    tables = {id(p): p for p in model.parameters() if isinstance(p, TableParameter)}
    return prefetch_tables(loader, list(tables.values()), depth=depth, device=device)


def prefetch_tables(
    loader: Iterable[B],
    tables: Sequence[TableParameter],
    *,
    depth: int = 1,
    device: torch.device | str | None = None,
) -> Iterator[B]:
    """The same for these tables, whoever looks them up."""
    checks.whole("depth", depth, 1, 1024)
    place = None if device is None else torch.device(device)
    return _Prefetcher(loader, tables, place, depth).run()


@dataclass(frozen=True)
class _State:
    """What a leaf was when its batch was handed out."""

    version: int
    copy: torch.Tensor | None  # of memory that others than torch may write to

    @staticmethod
    def of(leaf: torch.Tensor, shared: bool) -> _State:
        # A numpy array's memory has no version: what it was is kept. Keys are small beside their rows.
        kept = shared and leaf.device.type == "cpu" and not leaf.is_pinned()
        return _State(leaf._version, leaf.clone() if kept else None)

    def holds(self, part: torch.Tensor, leaf: torch.Tensor) -> bool:
        return part._version == self.version and (self.copy is None or torch.equal(self.copy, leaf))


@dataclass(frozen=True)
class _View:
    """A module's input as a part of a batch: one of its leaves, whole, or a column of it, or rows that follow each
    other (the first, and the one after the last)."""

    leaf: str
    column: int | None = None
    rows: tuple[int, int] | None = None

    def of(self, leaves: Leaves) -> torch.Tensor | None:
        leaf = leaves.get(self.leaf)
        if leaf is not None and self.rows is not None:
            return leaf[self.rows[0] : self.rows[1]] if leaf.dim() == 2 and self.rows[1] <= leaf.shape[0] else None
        if leaf is not None and self.column is not None:
            return leaf[:, self.column] if leaf.dim() == 2 and self.column < leaf.shape[1] else None
        return leaf

    @staticmethod
    def find(part: torch.Tensor, batch: _Batch[Any]) -> _View | None:
        """Where ``part`` is in the batch; None: nowhere, or it has been written to since."""
        if part.is_inference():
            return None
        leaves = batch.leaves
        # Most are a whole leaf: a batch may have dozens of them, each of which is looked for.
        first = batch.begins.get(part.data_ptr())
        if first is not None and _is_whole(part, leaves[first]) and batch.holds(first, part):
            return _View(first)
        for name, leaf in leaves.items():
            offset = part.data_ptr() - leaf.data_ptr()
            if part.dtype != leaf.dtype or part.device != leaf.device or not leaf.is_contiguous():
                continue
            if not 0 <= offset < leaf.numel() * leaf.element_size() or not batch.holds(name, part):
                continue
            if offset == 0 and part.numel() == leaf.numel() and part.is_contiguous():
                return _View(name)
            within = _View._within(part, name, leaf, offset // leaf.element_size()) if leaf.dim() == 2 else None
            if within is not None:
                return within
        return None

    @staticmethod
    def _within(part: torch.Tensor, name: str, leaf: torch.Tensor, place: int) -> _View | None:
        """A part that begins at this place of a matrix."""
        if part.shape == leaf.shape[:1] and part.stride(0) == leaf.stride(0):
            return _View(name, column=place) if place < leaf.shape[1] else None
        row, rest = divmod(place, leaf.shape[1])
        count, more = divmod(part.numel(), leaf.shape[1])
        return _View(name, rows=(row, row + count)) if rest == more == 0 and part.is_contiguous() else None


def _is_whole(part: torch.Tensor, leaf: torch.Tensor) -> bool:
    """Of two that begin at the same number. A leaf may be a column of a matrix that the batch does not have: those of
    features with one id a sample are, in data sets where others have many."""
    if part.dtype != leaf.dtype or part.numel() != leaf.numel():
        return False
    same = part.shape == leaf.shape and part.stride() == leaf.stride()
    return same or (part.is_contiguous() and leaf.is_contiguous())


@dataclass(frozen=True)
class _Lookup:
    """A lookup of a model's step, as the next batch can repeat it."""

    table: int
    views: tuple[_View, ...]
    rules: KeyRules
    create: bool


@dataclass
class _Batch(Generic[B]):
    """A batch as the model is given it, and the lookups that were begun for it."""

    value: B
    leaves: Leaves
    begins: dict[int, str]  # leaves by the address of their first number
    states: dict[str, _State]  # of the leaves that lookups were begun for
    prepared: dict[_Lookup, Prepared]

    def holds(self, leaf: str, part: torch.Tensor) -> bool:
        """Whether a part of this leaf is what it was when lookups were begun for it."""
        state = self.states.get(leaf)
        return state is None or state.holds(part, self.leaves[leaf])


@dataclass
class _End:
    """There are no more batches; perhaps because of an error."""

    error: BaseException | None


class Source(Protocol):
    """Who has to know which batches were trained, as ``flota.data.reading.Pass``."""

    def trained(self) -> None: ...

    def idle(self) -> None: ...

    def close(self) -> None: ...


class _Indifferent:
    def trained(self) -> None:
        """It does not matter to it."""

    idle = close = trained


def source_of(iterator: object) -> Source:
    hold = getattr(iterator, "hold", None)
    if hold is None:
        return _Indifferent()
    hold()
    return cast(Source, iterator)


class _Prefetcher(Generic[B]):
    def __init__(
        self, loader: Iterable[B], tables: Sequence[TableParameter], device: torch.device | None, depth: int
    ) -> None:
        self._loader = loader
        self._source: Source = _Indifferent()
        self._tables = tables
        self._device = device
        self._known: dict[_Lookup, None] = {}  # in the order of a step
        self._current: _Batch[B] | None = None
        self._warned = False
        self._room = threading.Semaphore(depth)
        self._ended = threading.Event()
        # A daemon: a loader that waits for data must not keep the process from ending.
        self.thread = threading.Thread(target=self._read, name="flota prefetch", daemon=True)
        self._coming: Queue[_Batch[B] | _End] = Queue()

    def run(self) -> Iterator[B]:
        # Here and not earlier: a loop that is never begun must not hold what others could have.
        self._iterator = iter(self._loader)
        if self._gains_nothing():
            with closing(cast(Source, self._iterator)):
                yield from self._iterator
            return
        self._source = source_of(self._iterator)
        _reading.add(self)
        self.thread.start()
        try:
            while isinstance(batch := self._read_one(), _Batch):
                self._room.release()
                self._begin(batch)
                yield batch.value
                self._source.trained()
            if batch.error is not None:
                raise batch.error
        finally:
            self.end()
            for table in self._tables:
                table.watcher = None
            self._source.close()

    def _gains_nothing(self) -> bool:
        """Whether the batches are read ahead without this thread, and there are no rows to wait for. Then it would only
        be in the way of the training: it costs 3 to 5% of a step where all cores are busy."""
        reads_ahead = hasattr(self._iterator, "hold")
        return reads_ahead and self._device is None and all(table.bound().near for table in self._tables)

    def _read_one(self) -> _Batch[B] | _End:
        with span("read"):
            return self._next()

    def _next(self) -> _Batch[B] | _End:
        while True:
            try:
                return self._coming.get(timeout=_LOOK)
            except Empty:
                self._source.idle()

    def end(self) -> None:
        """Nothing more is read."""
        self._ended.set()
        self._room.release()

    def _begin(self, batch: _Batch[B]) -> None:
        self._current = batch
        if self._device is not None:
            join(self._device, tensors_of(batch.value))
        for number, table in enumerate(self._tables):
            table.watcher = functools.partial(self._looked_up, number)

    # --- in the thread ---

    def _read(self) -> None:
        try:
            while self._room.acquire() and not self._ended.is_set():
                with span("read"):
                    value = next(self._iterator)
                if not self._ended.is_set():
                    with span("pull"):
                        batch = self._produce(value)
                    self._coming.put(batch)
        except StopIteration:
            self._coming.put(_End(None))
        except BaseException as error:  # raised in the loop that takes the batches
            self._coming.put(_End(error))

    def _produce(self, value: B) -> _Batch[B]:
        """The batch, its known lookups begun."""
        host = leaves_of(value)
        known = list(self._known)
        prepared = {}
        for lookup in known:
            parts = [part for view in lookup.views if (part := view.of(host)) is not None]
            if len(parts) == len(lookup.views):
                prepared[lookup] = self._prepare(lookup, parts)
        given = value if self._device is None else moved(value, self._device)
        leaves = host if self._device is None else leaves_of(given)
        used = {view.leaf for lookup in prepared for view in lookup.views}
        shared = not isinstance(value, Unshared)
        states = {name: _State.of(leaf, shared) for name, leaf in leaves.items() if name in used}
        begins = {leaf.data_ptr(): name for name, leaf in leaves.items() if leaf.numel()}
        return _Batch(given, leaves, begins, states, prepared)

    def _prepare(self, lookup: _Lookup, parts: list[torch.Tensor]) -> Prepared:
        table = self._tables[lookup.table]
        wanted = make_ready(table, parts, lookup.rules)
        return Prepared(wanted, table.bound().pull_ahead(wanted.keys, lookup.create, table.device))

    # --- in the model's lookups ---

    def _looked_up(self, table: int, parts: Sequence[torch.Tensor], rules: KeyRules, create: bool) -> Prepared | None:
        batch = self._current
        if batch is None or not any(part.numel() for part in parts):
            return None
        views = [_View.find(part, batch) for part in parts]
        found = tuple(view for view in views if view is not None)
        if len(found) < len(views):
            self._warn(self._tables[table])
            return None
        lookup = _Lookup(table, found, rules, create)
        self._known[lookup] = None
        return batch.prepared.pop(lookup, None)

    def _warn(self, table: TableParameter) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"prefetch: keys of table {table.options.name!r} are not part of the batch (the model computes, moves "
                "or changes them), so their rows are pulled when they are needed; give such keys in the batch, and let "
                "prefetch(device=…) move it",
                stacklevel=2,
            )
