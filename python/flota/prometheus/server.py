"""What a server tells: its own counts, read in its process as it answers those who look on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flota import _core

if TYPE_CHECKING:
    from flota.prometheus.sheet import Sheet

# By what the core calls them; the factor makes seconds of what it tells in other units.
_OWN: dict[str, tuple[str, float]] = {
    "errors": ("flota_request_errors_total", 1),
    "connections_open": ("flota_open_connections", 1),
    "connections_total": ("flota_accepted_connections_total", 1),
    "refused_connections": ("flota_refused_connections_total", 1),
    "refused_handshakes": ("flota_refused_handshakes_total", 1),
    "malformed_frames": ("flota_malformed_frames_total", 1),
    "duplicate_pushes": ("flota_duplicate_pushes_total", 1),
    "leases_granted": ("flota_leases_granted_total", 1),
    "leases_expired": ("flota_leases_expired_total", 1),
    "mail_bytes": ("flota_mailbox_bytes", 1),
    "checkpoint_step": ("flota_checkpoint_step", 1),
    "log_bytes": ("flota_redo_log_bytes_total", 1),
    "log_records": ("flota_redo_log_records_total", 1),
    "snapshots": ("flota_snapshots_total", 1),
    "snapshots_failed": ("flota_snapshot_failures_total", 1),
    "snapshot_ms": ("flota_snapshot_duration_seconds", 1e-3),
    "snapshot_stall_us": ("flota_snapshot_stall_seconds", 1e-6),
}
_SPARSE = {
    "rows": "flota_table_rows",
    "bytes": "flota_table_bytes",
    "waiting": "flota_table_waiting_keys",
    "pulls": "flota_table_pulls_total",
    "pushes": "flota_table_pushes_total",
    "rows_pulled": "flota_table_rows_pulled_total",
    "rows_pushed": "flota_table_rows_pushed_total",
    "staleness_max": "flota_table_staleness_max_pushes",
}
# A model has dozens of dense parameters, and they do not grow: they are told together.
_DENSE = {
    "elements": "flota_dense_elements",
    "bytes": "flota_dense_bytes",
    "pulls": "flota_dense_pulls_total",
    "pushes": "flota_dense_pushes_total",
}

_BEGINS = _core.bucket_begins()  # seconds; the core has four a doubling, from 256 ns to a minute
_BOUNDS = range(4, len(_BEGINS), 2)  # of those from a microsecond on, every other


def server_counts(server: _core.Server) -> Callable[[Sheet], None]:
    """For ``page.open_metrics_port``. Thread safety: any thread, also while it serves."""

    def fill(sheet: Sheet) -> None:
        reply = server.observe(_core.OBSERVE_STATES)
        own: dict[str, int] = {}
        tables: dict[str, dict[str, int]] = {}
        for table, name, value in reply.statistics:
            (tables.setdefault(table, {}) if table else own)[name] = value
        for name, (family, factor) in _OWN.items():
            if name in own:
                sheet.add(family, own[name] * factor)
        _fill_requests(sheet, reply)
        _fill_tables(sheet, tables)

    return fill


def _fill_requests(sheet: Sheet, reply: _core.ObserveReply) -> None:
    for one in reply.requests:
        sheet.add("flota_requests_total", one.count, one.kind)
        sheet.add("flota_received_bytes_total", one.bytes_in, one.kind)
        sheet.add("flota_sent_bytes_total", one.bytes_out, one.kind)
        if one.buckets:
            bounds = cumulative(dict(one.buckets))
            sheet.add_histogram("flota_request_duration_seconds", bounds, one.nanoseconds * 1e-9, one.kind)


def cumulative(buckets: dict[int, int]) -> list[tuple[float, int]]:
    """How many took at most so many seconds, for Prometheus's bounds. Exact: each of these bounds is one of the
    core's."""
    found, count, before = [], 0, 0
    for bound in _BOUNDS:
        count += sum(buckets.get(bucket, 0) for bucket in range(before, bound))
        before = bound
        found.append((round(_BEGINS[bound], 9), count))
    return [*found, (float("inf"), sum(buckets.values()))]


def _fill_tables(sheet: Sheet, tables: dict[str, dict[str, int]]) -> None:
    dense = [told for told in tables.values() if "elements" in told]
    for name, told in sorted(tables.items()):
        if "rows" not in told:
            continue
        for what, family in _SPARSE.items():
            sheet.add(family, told.get(what), name)
        sheet.add_sum("flota_table_staleness_pushes", told["staleness_count"], told["staleness_sum"], name)
    sheet.add("flota_dense_tables", len(dense))
    for what, family in _DENSE.items():
        sheet.add(family, sum(told[what] for told in dense))
    count, total = (sum(told[what] for told in dense) for what in ("staleness_count", "staleness_sum"))
    sheet.add_sum("flota_dense_staleness_pushes", count, total)
