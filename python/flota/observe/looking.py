"""Asks all servers of a job how they do, those that are there; server 0 tells of the workers, too.

    looker = Looker(["node1:6170", "node2:6170"])     # with the job's secret and certificates in the environment
    sight = looker.look()                             # and again: rates are those since the look before

A looker needs the job's secret, trains nothing, and may come and go as it likes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from flota import _core, config, tls
from flota.errors import FlotaError
from flota.observe.sight import Requests, Server, Sight, Table, Worker

_PARTS = _core.OBSERVE_HEAT | _core.OBSERVE_STATES
_MOST_AT_ONCE = 16  # servers that are asked at the same time
_BEGINS = _core.bucket_begins()
_MUCH = 4 << 20  # bytes of notes in one answer, beyond which there may be more

Buckets = dict[int, int]


def connect(endpoints: Sequence[str], *, secret: str | None = None) -> _core.Client:
    """A connection that looks on: made as it is used, to those servers that are there."""
    options = _core.ClientOptions()
    options.endpoints = list(endpoints)
    options.endpoints_file = config.endpoints_file()
    options.secret = config.job_secret() if secret is None else secret
    options.looks_on = True
    tls.protect_client(options)
    return _core.Client.connect(options, 1000)


class Looker:
    """Thread safety: one call at a time."""

    def __init__(self, endpoints: Sequence[str], *, secret: str | None = None, timeout: float = 2.0) -> None:
        """``timeout``: seconds that a server may take to answer."""
        self._client = connect(endpoints, secret=secret)
        self._time_ms = int(timeout * 1000)
        self._servers = [Server(i, endpoint) for i, endpoint in enumerate(endpoints)]
        self._histograms: list[dict[str, Buckets]] = [{} for _ in endpoints]
        self._notes: dict[int, tuple[float, dict[str, Any]]] = {}  # by worker: when it was heard, and what
        self._version = 0
        self._pool = ThreadPoolExecutor(min(len(endpoints), _MOST_AT_ONCE), "flota looking")

    def close(self) -> None:
        self._pool.shutdown(wait=True)

    def look(self) -> Sight:
        """At most twice the timeout later."""
        now = time.time()
        list(self._pool.map(self._ask, range(len(self._servers))))
        heard = time.monotonic()
        workers = [Worker(index, heard - when, note) for index, (when, note) in sorted(self._notes.items())]
        return Sight(now, list(self._servers), workers)

    def _ask(self, index: int) -> None:
        before = self._servers[index]
        try:
            reply = self._client.observe(index, _PARTS, self._version if index == 0 else 0, self._time_ms)
            self._servers[index] = self._server(before, reply)
            while index == 0 and self._take_notes(reply) > _MUCH:
                reply = self._client.observe(0, _core.OBSERVE_STATES, self._version, self._time_ms)
        except FlotaError as error:
            before.error = str(error)

    def _take_notes(self, reply: _core.ObserveReply) -> int:
        """Returns of how many bytes they are."""
        now, size = time.monotonic(), 0
        notes = reply.notes
        newest = max((note.version for note in notes), default=self._version)
        for note in notes:
            text = note.bytes
            size += len(text)
            try:
                said = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if isinstance(said, dict):
                self._notes[note.rank] = (now - note.age_ms / 1000, said)
        self._version = newest
        return size

    # --- one server ---

    def _server(self, before: Server, reply: _core.ObserveReply) -> Server:
        values: dict[str, int] = {}
        tables: dict[str, dict[str, int]] = {}
        for table, name, value in reply.statistics:
            (tables.setdefault(table, {}) if table else values)[name] = value
        server = Server(before.index, before.endpoint, seen=time.time())
        server.values = values
        server.uptime = values["uptime_ms"] / 1000
        server.memory_bytes = values["memory_bytes"]
        server.cpu_seconds = values["cpu_ms"] / 1000
        server.connections = values["connections_open"]
        # One that was started again counts from 0.
        same = before.seen is not None and server.uptime > before.uptime
        passed = server.uptime - before.uptime if same else None
        if passed:
            server.cpu_share = (server.cpu_seconds - before.cpu_seconds) / passed
        if server.index == 0 and before.seen is not None and not same:
            self._version = 0  # its notes are of a board that is no more
        self._take_requests(server, before if same else None, passed, reply)
        known = {table.name: table for table in before.tables} if same else {}
        heat = {one.table: one for one in reply.heat}
        for name, told in sorted(tables.items()):
            if "bytes" in told:
                server.tables.append(_table(name, told, known.get(name), passed, heat.get(name)))
        return server

    def _take_requests(
        self, server: Server, before: Server | None, passed: float | None, reply: _core.ObserveReply
    ) -> None:
        histograms = self._histograms[server.index] if before is not None else {}
        kept: dict[str, Buckets] = {}
        for one in reply.requests:
            found = Requests(one.count, one.bytes_in, one.bytes_out, one.nanoseconds * 1e-9)
            was = before.requests.get(one.kind, Requests()) if before is not None else Requests()
            if passed:
                found.per_second = (found.count - was.count) / passed
                found.bytes_in_per_second = (found.bytes_in - was.bytes_in) / passed
                found.bytes_out_per_second = (found.bytes_out - was.bytes_out) / passed
            buckets = kept[one.kind] = dict(one.buckets)
            old = histograms.get(one.kind, {})
            lately = {b: n - old.get(b, 0) for b, n in buckets.items() if n > old.get(b, 0)}
            found.p50, found.p99 = quantile(lately or buckets, 0.5), quantile(lately or buckets, 0.99)
            server.requests[one.kind] = found
        self._histograms[server.index] = kept


def quantile(buckets: Buckets, part: float) -> float | None:
    """Seconds below which this part of the requests took; at most a fifth too many. None: there were none."""
    total = sum(buckets.values())
    if not total:
        return None
    seen = 0
    bucket = 0
    for bucket in sorted(buckets):
        seen += buckets[bucket]
        if seen >= part * total:
            break
    return _BEGINS[min(bucket + 1, len(_BEGINS) - 1)]


def _table(
    name: str, told: dict[str, int], before: Table | None, passed: float | None, heat: _core.TableHeat | None
) -> Table:
    sparse = "rows" in told
    table = Table(
        name, sparse, told["rows" if sparse else "elements"], told["bytes"], told["pulls"], told["pushes"],
        told["rows_pulled" if sparse else "elements_pulled"], told["rows_pushed" if sparse else "blocks_pushed"],
        told.get("waiting", 0), staleness_max=told["staleness_max"],
    )  # fmt: skip
    table.staleness_count, table.staleness_sum = told["staleness_count"], told["staleness_sum"]
    count = table.staleness_count - (before.staleness_count if before is not None else 0)
    total = table.staleness_sum - (before.staleness_sum if before is not None else 0)
    if table.staleness_count:
        table.staleness = total / count if count else table.staleness_sum / table.staleness_count
    if before is not None and passed:
        table.rows_pulled_per_second = (table.rows_pulled - before.rows_pulled) / passed
        table.rows_pushed_per_second = (table.rows_pushed - before.rows_pushed) / passed
    if heat is not None and heat.sampled:
        table.sampled = heat.sampled
        table.shards = list(heat.shards)
        table.hot_keys = [(key, count / heat.sampled) for key, count in heat.keys]
    return table
