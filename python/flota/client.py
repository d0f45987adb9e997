"""Pull and push on torch tensors and numpy arrays: all servers of a job as one.

    client = Client(["10.0.0.1:7164", "10.0.0.2:7164"], secret=secret, tls=Tls("authority.pem"))
    users = client.create_sparse_table("users", dim=16, rule=Adagrad(lr=0.05), init=Uniform(-0.01, 0.01), seed=7)
    rows = users.pull(keys)                # torch.float32 [len(keys), 16]
    users.push(keys, gradients)            # duplicates in keys are summed; applied exactly once
    ahead = users.pull_async(next_keys)    # ahead.result()

Arrays are used where they lie, and the interpreter is free while a call waits. Clients are safe to share by threads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, TypeVar

from flota import _core, config
from flota.admission import Admission, checked, to_native
from flota.checks import flag, whole
from flota.errors import DeadlineExceeded, FlotaError, InvalidArgument
from flota.initializer import Constant, Initializer
from flota.log import say
from flota.pages import RowPage
from flota.rules import Rule
from flota.tables import DenseTable, Future, Session, SparseTable, choose, milliseconds
from flota.tls import Tls, protect_client

__all__ = ["Client", "DenseTable", "Future", "RowPage", "ServerStatistics", "SparseTable", "Tls"]

Storage = Literal["float32", "float16", "bfloat16"]
Transport = Literal["auto", "tcp", "unix", "shared_memory"]
SplitMethod = Literal["RoundRobin", "HashName"]

T = TypeVar("T")

_STORAGES = {kind.name: kind for kind in _core.Storage}
_TRANSPORTS = {kind.name: kind for kind in _core.Transport}
_SPLIT_METHODS = {kind.name: kind for kind in _core.SplitMethod}


# Workers as the core's errors name those who are missing: "worker 3", "workers 1, 2 and 91 more".
_NAMED_WORKERS = re.compile(r"\bworkers? (\d+(?:, \d+)*)")


@dataclass(frozen=True)
class ServerStatistics:
    """What one server counts: ``values`` about itself, ``tables`` by table name."""

    endpoint: str
    values: dict[str, int]
    tables: dict[str, dict[str, int]]


class Client:
    """A connection to all servers of a job.

    ``timeout`` is the deadline in seconds of each call that gets none of its own: within it, broken connections are
    mended and requests repeated. ``worker`` and ``epoch`` name this process in pushes, which are applied exactly once;
    a worker that was restarted under its old name counts its epoch up.

    TCP to another host needs ``tls``, or certificates that the environment names; ``insecure=True`` does without, on
    networks that nobody else can listen to. ``endpoints_file`` names a file with a line for each server: where it is by
    now, looked up whenever a connection is made.
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
        insecure: bool = False,
        max_payload_mb: int = 256,
        endpoints_file: str = "",
    ) -> None:
        if isinstance(endpoints, str):
            raise InvalidArgument(f"endpoints must be a list such as [{endpoints!r}], not a single string")
        options = _core.ClientOptions()
        options.endpoints = list(endpoints)
        options.endpoints_file = endpoints_file
        options.secret = config.job_secret() if secret is None else secret
        options.worker = 0 if worker is None else whole("worker", worker, 1, (1 << 64) - 1)
        options.epoch = whole("epoch", epoch, 0, (1 << 32) - 1)
        options.max_payload = whole("max_payload_mb", max_payload_mb, 1, 1 << 20) << 20
        options.transport = choose("transport", transport, _TRANSPORTS)
        if tls is not None and transport in ("unix", "shared_memory"):
            raise InvalidArgument(f"tls is for TCP; transport={transport!r} never leaves this host")
        protect_client(options, tls, insecure=flag("insecure", insecure))
        seconds = config.default_timeout() if timeout is None else timeout
        self._session = Session(_core.Client.connect(options, milliseconds(seconds)), seconds)
        self.workers: Sequence[str] = ()  # endpoints, where they are known: errors say where a missing worker is
        self._rank: int | None = None  # of a worker that has joined its job
        self._passed: dict[str, int] = {}

    @property
    def timeout(self) -> float:
        """The deadline, in seconds, of calls that get none of their own."""
        return self._session.timeout

    @property
    def native(self) -> _core.Client:
        """For communicators: the core's client."""
        return self._session.native

    def time(self, timeout: float | None) -> int:
        """A call's deadline as the core takes it, in milliseconds."""
        return self._session.time(timeout)

    @property
    def worker(self) -> int:
        """The name under which servers know this client's pushes."""
        return self._session.native.worker

    @property
    def epoch(self) -> int:
        return self._session.native.epoch

    @property
    def servers(self) -> int:
        """How many servers there are."""
        return self._session.native.servers

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
        admission: Admission | None = None,
        timeout: float | None = None,
    ) -> SparseTable:
        """Makes a table of rows with ``dim`` weights for any 64-bit keys, or opens it if it exists with just these
        settings (any other raises ``TableMismatch``).

        A row's first value depends on the seed and the key only; without a seed, one follows from the table's name.
        ``admission`` (``flota.admission``): which keys get rows, where not all do.
        """
        spec = self._spec(name, rule, init, seed, storage, allow_nonfinite)
        spec.dim = whole("dim", dim, 1, 65536)
        spec.admission = to_native(checked(admission))
        return SparseTable(self._session, self._session.native.create_sparse(spec, self._session.time(timeout)))

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
        wire_dtype: Storage = "float32",
        timeout: float | None = None,
    ) -> DenseTable:
        """Makes a parameter of this shape, cut into blocks of at least ``min_block_size`` elements that are spread over
        the servers (``slice_var_up=False``, and Lamb: whole on one server).

        ``wire_dtype``: what this client's pulls, gradients and deltas travel as. Assignments, export and import are
        exact; what the servers keep is ``storage``.
        """
        spec = self._spec(name, rule, init, seed, storage, allow_nonfinite)
        sides = (shape,) if isinstance(shape, int) else tuple(shape)
        dims = tuple(whole("each side of shape", side, 1, 1 << 40) for side in sides)
        spec.shape = list(dims)
        min_block_size = whole("min_block_size", min_block_size, 1, 1 << 40)
        method = choose("split_method", split_method, _SPLIT_METHODS)
        native = self._session.native.create_dense(
            spec, slice_var_up, min_block_size, method, self._session.time(timeout)
        )
        return DenseTable(self._session, native, choose("wire_dtype", wire_dtype, _STORAGES))

    def table(self, name: str, timeout: float | None = None) -> SparseTable | DenseTable:
        """Opens a table that somebody else made."""
        native, _, _ = self._session.native.describe(name, self._session.time(timeout))
        if native.spec.kind == _core.TableKind.sparse:
            return SparseTable(self._session, native)
        return DenseTable(self._session, native)

    def barrier(self, name: str, *, rank: int, world: int, timeout: float | None = None) -> None:
        """Waits until all of ``world`` workers, each with a rank of its own, wait at this barrier."""
        world = whole("world", world, 1, 1 << 20)
        rank = whole("rank", rank, 0, world - 1)
        self.gather(name, b"", rank=rank, world=world, timeout=timeout)

    def gather(self, name: str, brings: bytes, *, rank: int, world: int, timeout: float | None = None) -> list[bytes]:
        """The same; each is given what all have brought, in the order of their ranks. A ``world`` of 0 is the job's
        workers, of whom some may come and go: what is empty may be of a rank that nobody has."""
        return self.patiently(
            f"barrier {name!r}",
            lambda: self._session.native.gather(name, rank, world, brings, self._session.time(timeout)),
        )

    def rejoin(self, rank: int, world: int) -> _core.Rejoined:
        """Before anything else, as a worker of a job that may have been started before: where it was."""
        place = self._session.native.rejoin(rank, world, self._session.time(None))
        self._rank, self._passed = rank, place.passed
        return place

    def passed(self, name: str) -> bool:
        """Whether everybody was there, this worker too before it was started again, the next time that it comes to the
        barrier of this name."""
        return self._session.native.arrivals.get(name, 0) < self._passed.get(name, 0)

    def patiently(self, what: str, wait: Callable[[], T]) -> T:
        """A wait for other workers. It goes on beyond its deadline while one of them that was started again, or has
        joined late, is on its way and shows that it lives."""
        while True:
            try:
                with self.saying_where():
                    return wait()
            except DeadlineExceeded as error:
                late = self._on_their_way(error)
                say("waits_on", f"worker {self._rank} waits on at {what}: {', '.join(late)}", "warning")

    @contextmanager
    def saying_where(self) -> Iterator[None]:
        """Around a wait for other workers: its error says on which host those are that it names."""
        try:
            yield
        except DeadlineExceeded as error:
            hosts = [endpoint.rpartition(":")[0] for endpoint in self.workers]
            named = [int(rank) for ranks in _NAMED_WORKERS.findall(str(error)) for rank in ranks.split(", ")]
            others = [rank for rank in dict.fromkeys(named) if rank != self._rank and rank < len(hosts)]
            if len(set(hosts)) < 2 or not others:
                raise
            where = ", ".join(f"worker {rank} is on {hosts[rank]}" for rank in others)
            raise DeadlineExceeded(f"{error}; {where}") from None

    def _on_their_way(self, error: DeadlineExceeded) -> list[str]:
        if self._rank is None:
            raise error
        time = self._session.time(None)
        try:
            found = self._session.native.on_their_way(time, time)
        except FlotaError:
            raise error from None
        late = [
            f"worker {rank} is on its way, at {reached} of {target} of what was done before"
            if target
            else f"worker {rank} was started again or has joined"
            for rank, reached, target in found
            if rank != self._rank
        ]
        if not late:
            raise error
        return late

    def statistics(self, timeout: float | None = None) -> list[ServerStatistics]:
        """What each server counts, in the order of the servers."""
        servers = []
        for endpoint, entries in self._session.native.statistics(self._session.time(timeout)):
            values: dict[str, int] = {}
            tables: dict[str, dict[str, int]] = {}
            for table, name, value in entries:
                (tables.setdefault(table, {}) if table else values)[name] = value
            servers.append(ServerStatistics(endpoint, values, tables))
        return servers

    def shutdown(self, server: int | None = None, timeout: float | None = None) -> None:
        """Asks all servers, or one, to stop."""
        if server is not None and not 0 <= server < self.servers:
            raise InvalidArgument(f"there is no server {server}; there are {self.servers}, from 0 on")
        self._session.native.shutdown(-1 if server is None else server, self._session.time(timeout))

    def close(self) -> None:
        """Waits for calls in the background, then closes the connections."""
        self._session.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _spec(
        self, name: str, rule: Rule, init: Initializer | None, seed: int | None, storage: Storage, allow_nonfinite: bool
    ) -> _core.TableSpec:
        if not isinstance(rule, Rule):
            raise InvalidArgument(f"rule must be one of flota.rules, such as Adagrad(lr=0.05), not {rule!r}")
        if init is not None and not isinstance(init, Initializer):
            raise InvalidArgument(f"init must be one of flota.initializer, such as Uniform(-0.01, 0.01), not {init!r}")
        spec = _core.TableSpec()
        spec.name = name
        spec.storage = choose("storage", storage, _STORAGES)
        spec.allow_nonfinite = allow_nonfinite
        # Tables that are given no seed must not begin with the same rows.
        seed = _core.hash_name(name) if seed is None else whole("seed", seed, -(1 << 63), (1 << 64) - 1)
        spec.seed = seed & 0xFFFFFFFFFFFFFFFF
        spec.rule = rule.to_native()
        spec.init = (Constant(0.0) if init is None else init).to_native()
        return spec
