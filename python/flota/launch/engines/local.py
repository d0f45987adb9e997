"""``--on local``: this host, or those on which the command is given."""

from __future__ import annotations

from flota.launch.engines.engine import JOB, Engine

LOCAL = Engine(
    "flota.launch.local",
    "this host",
    JOB
    | {
        "certs", "dashboard", "durable", "durable_sync", "gpus", "http_port", "insecure", "ips", "keep_durable",
        "log_dir", "max_restarts", "metrics_host", "metrics_port", "no_durable", "nproc_per_node", "resume",
        "servers", "snapshot_mb", "snapshot_seconds", "tensorboard", "timeout", "view", "workers",
    },
)  # fmt: skip
