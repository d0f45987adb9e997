"""Pull and push on torch tensors and numpy arrays: all servers of a job as one.

    client = Client(["10.0.0.1:7164", "10.0.0.2:7164"], secret=secret)
    users = client.create_sparse_table("users", dim=16, rule=Adagrad(lr=0.05), init=Uniform(-0.01, 0.01), seed=7)
    rows = users.pull(keys)                # torch.float32 [len(keys), 16]
    users.push(keys, gradients)            # duplicates in keys are summed; applied exactly once
    ahead = users.pull_async(next_keys)    # ahead.result()

Arrays are used where they lie, and the interpreter is free while a call waits. Clients are safe to share by threads.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from flota import _core, config
from flota.arrays import Array, Keys, Values, address, as_keys, as_values, output_like
from flota.errors import InvalidArgument
from flota.initializer import Constant, Initializer
from flota.rules import Rule

__all__ = ["Client", "DenseTable", "Future", "RowPage", "ServerStatistics", "SparseTable", "Tls"]

PushKind = Literal["gradient", "delta", "assign"]
Storage = Literal["float32", "float16", "bfloat16"]
Transport = Literal["auto", "tcp", "unix", "shared_memory"]
SplitMethod = Literal["RoundRobin", "HashName"]

T = TypeVar("T")


def _milliseconds(seconds: float | None, otherwise: float) -> int:
    chosen = otherwise if seconds is None else seconds
    if not chosen > 0:
        raise InvalidArgument(f"a timeout must be a number of seconds above 0, not {chosen}")
    return min(math.ceil(chosen * 1000), 1 << 52)


def _choose(name: str, value: str, choices: dict[str, T]) -> T:
    if value not in choices:
        raise InvalidArgument(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return choices[value]


_STORAGES = {kind.name: kind for kind in _core.Storage}
_TRANSPORTS = {kind.name: kind for kind in _core.Transport}
_SPLIT_METHODS = {kind.name: kind for kind in _core.SplitMethod}
_PUSH_KINDS = {kind.name: kind for kind in _core.PushKind}


@dataclass(frozen=True)
class Tls:
    """PEM files for TLS: the authority that signed the servers' certificates, and a certificate of one's own if they
    ask for one. ``check_host=False`` takes any certificate of that authority."""

    authority: str
    certificate: str = ""
    key: str = ""
    check_host: bool = True


@dataclass(frozen=True)
class ServerStatistics:
    """What one server counts: ``values`` about itself, ``tables`` by table name."""

    endpoint: str
    values: dict[str, int]
    tables: dict[str, dict[str, int]]


@dataclass(frozen=True)
class RowPage:
    """Some whole rows, column by column. For a dense table a row is a block, and its key the block's id."""

    keys: npt.NDArray[np.int64]
    updates: npt.NDArray[np.uint64]
    last_seen: npt.NDArray[np.uint64]
    weights: npt.NDArray[np.float32]
    state: npt.NDArray[np.float32]


class Future(Generic[T]):
    """The answer to a call that goes on in the background."""

    def __init__(self, pending: _core.Pending, value: T) -> None:
        self._pending = pending
        self._value = value

    def result(self, timeout: float | None = None) -> T:
        """Waits for the answer. ``timeout`` (seconds) bounds this wait only; the call has a deadline of its own."""
        self._pending.wait(_milliseconds(timeout, math.inf) if timeout is not None else 1 << 52)
        return self._value

    def done(self) -> bool:
        return self._pending.done()


class Client:
    """A connection to all servers of a job.

    ``timeout`` is the deadline in seconds of each call that gets none of its own: within it, broken connections are
    mended and requests repeated. ``worker`` and ``epoch`` name this process in pushes, which are applied exactly once;
    a worker that was restarted under its old name counts its epoch up.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        secret: str | None = None,
        worker: int | None = None,
        epoch: int = 0,
        timeout: float | None = None,
        transport: Transport = "auto",
        tls: Tls | None = None,
    ) -> None:
        if isinstance(endpoints, str):
            raise InvalidArgument(f"endpoints must be a list such as [{endpoints!r}], not a single string")
        if worker is not None and not 0 < worker < 1 << 64:
            raise InvalidArgument(f"worker must be a whole number from 1 to 2**64 - 1, not {worker}")
        options = _core.ClientOptions()
        options.endpoints = list(endpoints)
        options.secret = config.job_secret() if secret is None else secret
        options.worker = worker or 0
        options.epoch = epoch
        options.transport = _choose("transport", transport, _TRANSPORTS)
        if tls is not None:
            options.tls.authority = tls.authority
            options.tls.certificate = tls.certificate
            options.tls.key = tls.key
            options.tls.check_host = tls.check_host
        self.timeout = config.default_timeout() if timeout is None else timeout
        self._native = _core.Client.connect(options, _milliseconds(None, self.timeout))
        self._rounds: dict[str, int] = {}
        # Background threads hold Python objects: they must end while the interpreter can still take them back.
        self._finalizer = weakref.finalize(self, self._native.close)

    @property
    def worker(self) -> int:
        return self._native.worker

    @property
    def epoch(self) -> int:
        return self._native.epoch

    @property
    def servers(self) -> int:
        return self._native.servers

    def create_sparse_table(
        self,
        name: str,
        *,
        dim: int,
        rule: Rule,
        init: Initializer | None = None,
        seed: int | None = None,
        storage: Storage = "float32",
        allow_nonfinite: bool = False,
        timeout: float | None = None,
    ) -> SparseTable:
        """Makes a table of rows with ``dim`` weights for any 64-bit keys, or opens it if it exists with just these
        settings (any other raises ``TableMismatch``).

        A row's first value depends on the seed and the key only; without a seed, one follows from the table's name.
        """
        spec = self._spec(name, rule, init, seed, storage, allow_nonfinite)
        if not 0 < dim <= 65536:
            raise InvalidArgument(f"dim must be a whole number from 1 to 65536, not {dim!r}")
        spec.dim = int(dim)
        return SparseTable(self, self._native.create_sparse(spec, self._time(timeout)))

    def create_dense_table(
        self,
        name: str,
        *,
        shape: int | Sequence[int],
        rule: Rule,
        init: Initializer | None = None,
        seed: int | None = None,
        storage: Storage = "float32",
        allow_nonfinite: bool = False,
        slice_var_up: bool = True,
        min_block_size: int = 8192,
        split_method: SplitMethod = "RoundRobin",
        timeout: float | None = None,
    ) -> DenseTable:
        """Makes a parameter of this shape, cut into blocks of at least ``min_block_size`` elements that are spread over
        the servers (``slice_var_up=False``, and Lamb: whole on one server)."""
        spec = self._spec(name, rule, init, seed, storage, allow_nonfinite)
        dims = (shape,) if isinstance(shape, int) else tuple(shape)
        spec.size = math.prod(dims)
        if min_block_size < 1:
            raise InvalidArgument(f"min_block_size must be at least 1, not {min_block_size}")
        method = _choose("split_method", split_method, _SPLIT_METHODS)
        native = self._native.create_dense(spec, slice_var_up, min_block_size, method, self._time(timeout))
        return DenseTable(self, native, dims)

    def table(self, name: str, timeout: float | None = None) -> SparseTable | DenseTable:
        """Opens a table that somebody else made. A dense one comes as a flat parameter."""
        native, _, _ = self._native.describe(name, self._time(timeout))
        if native.spec.kind == _core.TableKind.sparse:
            return SparseTable(self, native)
        return DenseTable(self, native, (native.spec.size,))

    def barrier(self, name: str, *, rank: int, world: int, timeout: float | None = None) -> None:
        """Waits until all of ``world`` workers came to this barrier as often as this one."""
        round_ = self._rounds.get(name, 0)
        self._native.barrier(name, round_, rank, world, self._time(timeout))
        self._rounds[name] = round_ + 1

    def statistics(self, timeout: float | None = None) -> list[ServerStatistics]:
        servers = []
        for endpoint, entries in self._native.statistics(self._time(timeout)):
            values: dict[str, int] = {}
            tables: dict[str, dict[str, int]] = {}
            for table, name, value in entries:
                (tables.setdefault(table, {}) if table else values)[name] = value
            servers.append(ServerStatistics(endpoint, values, tables))
        return servers

    def shutdown(self, server: int | None = None, timeout: float | None = None) -> None:
        """Asks all servers, or one, to stop."""
        self._native.shutdown(-1 if server is None else server, self._time(timeout))

    def close(self) -> None:
        """Waits for calls in the background, then closes the connections."""
        self._finalizer()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _time(self, timeout: float | None) -> int:
        return _milliseconds(timeout, self.timeout)

    def _spec(
        self, name: str, rule: Rule, init: Initializer | None, seed: int | None, storage: Storage, allow_nonfinite: bool
    ) -> _core.TableSpec:
        if not isinstance(rule, Rule):
            raise InvalidArgument(f"rule must be one of flota.rules, such as Adagrad(lr=0.05), not {rule!r}")
        spec = _core.TableSpec()
        spec.name = name
        spec.storage = _choose("storage", storage, _STORAGES)
        spec.allow_nonfinite = allow_nonfinite
        # Tables that are given no seed must not begin with the same rows.
        spec.seed = (_core.hash_name(name) if seed is None else seed) & 0xFFFFFFFFFFFFFFFF
        spec.rule = rule.to_native()
        spec.init = (Constant(0.0) if init is None else init).to_native()
        return spec


class _Table:
    """What sparse and dense tables share."""

    def __init__(self, client: Client, native: _core.RemoteTable) -> None:
        self._client = client
        self._table = native
        self._pushed = 0

    @property
    def name(self) -> str:
        return self._table.spec.name

    @property
    def lr(self) -> float:
        """The learning rate of pushes that bring none of their own."""
        return self._table.spec.rule.lr

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _push_settings(
        self, kind: PushKind, lr: float | None, scale: float, step: int | None
    ) -> tuple[_core.PushKind, float, float, int]:
        # A worker that counts no steps of its own gets its pushes counted.
        self._pushed += 1
        if step is not None and step < 0:
            raise InvalidArgument(f"step must be at least 0, not {step}")
        return (
            _choose("kind", kind, _PUSH_KINDS),
            self.lr if lr is None else lr,
            scale,
            self._pushed if step is None else step,
        )

    def _import(self, page: RowPage, dim: int, state_floats: int, timeout: float | None) -> None:
        keys = np.ascontiguousarray(page.keys, dtype=np.int64)
        updates = np.ascontiguousarray(page.updates, dtype=np.uint64)
        last_seen = np.ascontiguousarray(page.last_seen, dtype=np.uint64)
        weights = np.ascontiguousarray(page.weights, dtype=np.float32)
        state = np.ascontiguousarray(page.state, dtype=np.float32)
        count = len(keys)
        sizes = (updates.size, last_seen.size, weights.size, state.size)
        if sizes != (count, count, count * dim, count * state_floats):
            raise InvalidArgument(f"table {self.name!r}: the columns of the rows have different lengths")
        self._client._native.import_rows(
            self._table,
            count,
            dim,
            state_floats,
            address(keys),
            address(updates),
            address(last_seen),
            address(weights),
            address(state),
            self._client._time(timeout),
        )

    def _export(self, shard: int, cursor: int, max_rows: int, timeout: float | None) -> tuple[RowPage, int | None]:
        keys, updates, last_seen, weights, state, dim, state_floats, following, done = self._client._native.export_rows(
            self._table, shard, cursor, max_rows, self._client._time(timeout)
        )
        count = len(keys) // 8
        page = RowPage(
            np.frombuffer(keys, dtype=np.int64),
            np.frombuffer(updates, dtype=np.uint64),
            np.frombuffer(last_seen, dtype=np.uint64),
            np.frombuffer(weights, dtype=np.float32).reshape(count, dim),
            np.frombuffer(state, dtype=np.float32).reshape(count, state_floats),
        )
        return page, None if done else following


class SparseTable(_Table):
    """Rows of ``dim`` weights for any 64-bit keys, made on first use."""

    @property
    def dim(self) -> int:
        return self._table.spec.dim

    def pull(self, keys: Keys, *, create: bool = True, out: Array | None = None, timeout: float | None = None) -> Array:
        """The keys' rows, ``float32 [len(keys), dim]``, as a torch tensor (a numpy array for numpy keys).

        A key without a row gets one; with ``create=False`` it shows the values it would begin with, and none is made.
        """
        keys_array = as_keys(keys)
        rows = output_like(keys_array, (len(keys_array), self.dim), out)
        self._client._native.pull(
            self._table, address(keys_array), len(keys_array), address(rows), create, self._client._time(timeout)
        )
        return rows

    def pull_async(
        self, keys: Keys, *, create: bool = True, out: Array | None = None, timeout: float | None = None
    ) -> Future[Array]:
        """``pull`` in the background. Leave ``keys`` and ``out`` alone until the result is there."""
        keys_array = as_keys(keys)
        rows = output_like(keys_array, (len(keys_array), self.dim), out)
        pending = self._client._native.pull_async(
            self._table,
            address(keys_array),
            len(keys_array),
            address(rows),
            create,
            self._client._time(timeout),
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
        self._client._native.push(
            self._table,
            address(keys_array),
            len(keys_array),
            address(rows),
            *self._push_settings(kind, lr, scale, step),
            self._client._time(timeout),
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
        pending = self._client._native.push_async(
            self._table,
            address(keys_array),
            len(keys_array),
            address(rows),
            *self._push_settings(kind, lr, scale, step),
            self._client._time(timeout),
            (keys_array, rows),
        )
        return Future(pending, None)

    def rows(self, timeout: float | None = None) -> int:
        """How many rows there are, on all servers."""
        _, rows, _ = self._client._native.describe(self.name, self._client._time(timeout))
        return rows

    def export(
        self, shards: Sequence[int] | None = None, *, page_rows: int = 4096, timeout: float | None = None
    ) -> Iterator[RowPage]:
        """All rows (or those of some of the 1,024 virtual shards), whole, a bounded page at a time.

        Every row that is there from beginning to end comes exactly once; training may go on meanwhile.
        """
        for shard in range(_core.SHARDS) if shards is None else shards:
            cursor: int | None = 0
            while cursor is not None:
                page, cursor = self._export(shard, cursor, page_rows, timeout)
                if len(page.keys):
                    yield page

    def import_rows(self, page: RowPage, timeout: float | None = None) -> None:
        """Makes or overwrites whole rows: weights, state and counters."""
        dim, state_floats = page.weights.shape[-1], page.state.shape[-1]
        self._import(page, dim, state_floats, timeout)


class DenseTable(_Table):
    """One dense parameter, in blocks spread over the servers."""

    def __init__(self, client: Client, native: _core.RemoteTable, shape: tuple[int, ...]) -> None:
        super().__init__(client, native)
        self.shape = shape

    @property
    def blocks(self) -> int:
        return len(self._table.spec.blocks)

    def pull(self, *, out: Array | None = None, timeout: float | None = None) -> Array:
        """The parameter, ``float32`` of its shape."""
        values = torch.empty(self.shape) if out is None else output_like(out, self.shape, out)
        self._client._native.pull_dense(
            self._table, address(values), math.prod(self.shape), self._client._time(timeout)
        )
        return values

    def pull_async(self, *, out: Array | None = None, timeout: float | None = None) -> Future[Array]:
        """``pull`` in the background."""
        values = torch.empty(self.shape) if out is None else output_like(out, self.shape, out)
        pending = self._client._native.pull_dense_async(
            self._table, address(values), math.prod(self.shape), self._client._time(timeout), values
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
        self._client._native.push_dense(
            self._table,
            address(array),
            math.prod(self.shape),
            *self._push_settings(kind, lr, scale, step),
            self._client._time(timeout),
        )

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
        pending = self._client._native.push_dense_async(
            self._table,
            address(array),
            math.prod(self.shape),
            *self._push_settings(kind, lr, scale, step),
            self._client._time(timeout),
            array,
        )
        return Future(pending, None)

    def export(self, timeout: float | None = None) -> Iterator[RowPage]:
        """The blocks, whole, one a page: weights, state and counters."""
        for block in range(self.blocks):
            page, _ = self._export(block, 0, 1, timeout)
            yield page

    def import_rows(self, page: RowPage, timeout: float | None = None) -> None:
        """Overwrites one whole block."""
        self._import(page, page.weights.shape[-1], page.state.shape[-1], timeout)
