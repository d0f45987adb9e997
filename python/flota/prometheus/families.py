"""All metrics that flota exports, by name: kind, help and labels. A name that is not here cannot be exported.

Every sample has the labels ``role`` (server, worker, launch) and ``index`` before its own. Labels are low in number:
tables, kinds of requests, parts of a step; never keys, hosts or files. Units are seconds, bytes and ratios from 0 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass

COUNTER, GAUGE, HISTOGRAM, SUMMARY = "counter", "gauge", "histogram", "summary"


@dataclass(frozen=True)
class Family:
    kind: str
    help: str
    labels: tuple[str, ...] = ()


OF_ALL: dict[str, Family] = {
    "flota_info": Family(GAUGE, "1; the version of flota", ("version",)),
    "flota_process_cpu_seconds_total": Family(COUNTER, "Time on processors, of users and of the system"),
    "flota_process_max_fds": Family(GAUGE, "File descriptors that it may have open"),
    "flota_process_open_fds": Family(GAUGE, "File descriptors that it has open"),
    "flota_process_resident_memory_bytes": Family(GAUGE, "Memory that it has"),
    "flota_process_start_time_seconds": Family(GAUGE, "When it was started, in seconds since the epoch"),
    "flota_process_virtual_memory_bytes": Family(GAUGE, "Addresses that it has"),
}

OF_SERVERS: dict[str, Family] = {
    "flota_requests_total": Family(COUNTER, "Requests that were answered", ("kind",)),
    "flota_received_bytes_total": Family(COUNTER, "Bytes of these requests", ("kind",)),
    "flota_sent_bytes_total": Family(COUNTER, "Bytes of the answers to them", ("kind",)),
    "flota_request_duration_seconds": Family(
        HISTOGRAM, "From the whole request until its answer was written; of pulls and pushes", ("kind",)
    ),
    "flota_request_errors_total": Family(COUNTER, "Requests that were answered with an error"),
    "flota_open_connections": Family(GAUGE, "Peers that are connected"),
    "flota_accepted_connections_total": Family(COUNTER, "Connections that were accepted"),
    "flota_refused_connections_total": Family(COUNTER, "Connections that were refused: there were too many"),
    "flota_refused_handshakes_total": Family(COUNTER, "Peers that did not prove the job's secret"),
    "flota_malformed_frames_total": Family(COUNTER, "Messages that were none"),
    "flota_duplicate_pushes_total": Family(COUNTER, "Pushes that came again, and were not applied again"),
    "flota_leases_granted_total": Family(COUNTER, "Pieces of data that were given to workers"),
    "flota_leases_expired_total": Family(COUNTER, "Pieces of data that were taken from workers that had gone"),
    "flota_mailbox_bytes": Family(GAUGE, "Bytes that workers have sent each other, and not fetched"),
    "flota_table_rows": Family(GAUGE, "Rows", ("table",)),
    "flota_table_bytes": Family(GAUGE, "Memory of rows, their state and their index", ("table",)),
    "flota_table_waiting_keys": Family(GAUGE, "Keys that are counted and have no row yet", ("table",)),
    "flota_table_pulls_total": Family(COUNTER, "Requests for rows", ("table",)),
    "flota_table_pushes_total": Family(COUNTER, "Requests with gradients of rows", ("table",)),
    "flota_table_rows_pulled_total": Family(COUNTER, "Rows that were asked for", ("table",)),
    "flota_table_rows_pushed_total": Family(COUNTER, "Rows whose gradients were applied", ("table",)),
    "flota_table_staleness_pushes": Family(
        SUMMARY, "Pushes of others between a worker's pull and its push", ("table",)
    ),
    "flota_table_staleness_max_pushes": Family(GAUGE, "The most that any push has seen so far", ("table",)),
    "flota_dense_tables": Family(GAUGE, "Dense parameters, or parts of them"),
    "flota_dense_elements": Family(GAUGE, "Numbers in them"),
    "flota_dense_bytes": Family(GAUGE, "Memory of dense parameters and their state"),
    "flota_dense_pulls_total": Family(COUNTER, "Requests for dense parameters"),
    "flota_dense_pushes_total": Family(COUNTER, "Requests with gradients of dense parameters"),
    "flota_dense_staleness_pushes": Family(SUMMARY, "As flota_table_staleness_pushes, of dense parameters"),
    "flota_checkpoint_step": Family(GAUGE, "The step of the checkpoint that the tables came from; 0: none"),
    "flota_redo_log_bytes_total": Family(COUNTER, "Bytes that were written to the redo log"),
    "flota_redo_log_records_total": Family(COUNTER, "Changes that were written to the redo log"),
    "flota_snapshots_total": Family(COUNTER, "Snapshots that were written"),
    "flota_snapshot_failures_total": Family(COUNTER, "Snapshots that could not be written"),
    "flota_snapshot_duration_seconds": Family(GAUGE, "What the last snapshot took"),
    "flota_snapshot_stall_seconds": Family(GAUGE, "For how long requests waited for the last snapshot to begin"),
}

OF_WORKERS: dict[str, Family] = {
    "flota_steps_total": Family(COUNTER, "Steps, from the beginning of the job"),
    "flota_samples_total": Family(COUNTER, "Samples that this process has trained"),
    "flota_loss": Family(GAUGE, "The loss of the last batch"),
    "flota_metric": Family(GAUGE, "A metric when it was last computed: auc, or what the script logs", ("metric",)),
    "flota_learning_rate": Family(GAUGE, "Of the optimizer's first group"),
    "flota_step_seconds_total": Family(COUNTER, "Where the time of threads that make steps went", ("part",)),
    "flota_steps_in_flight": Family(GAUGE, "Steps whose gradients the tables do not have yet; async"),
    "flota_phase": Family(GAUGE, "1: what the worker does", ("phase", "mode")),
    "flota_pass_epoch": Family(GAUGE, "The number of the pass over the data"),
    "flota_pass_done_ratio": Family(GAUGE, "How much of the pass is trained, from 0 to 1"),
    "flota_pass_remaining_seconds": Family(GAUGE, "Until the pass is over, at the pace so far"),
}

OF_LAUNCHES: dict[str, Family] = {
    "flota_launch_process_up": Family(GAUGE, "1: the process runs; 0: it does not", ("process",)),
    "flota_launch_process_restarts_total": Family(COUNTER, "How often it was started again", ("process",)),
}

FAMILIES: dict[str, Family] = {**OF_ALL, **OF_SERVERS, **OF_WORKERS, **OF_LAUNCHES}
