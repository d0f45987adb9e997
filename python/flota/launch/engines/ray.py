"""``--on ray``: a Ray cluster."""

from __future__ import annotations

from flota.launch.engines.engine import JOB, Engine, Flag
from flota.launch.parser import above_zero, count, quantity

RAY = Engine(
    "flota.launch.ray",
    "Ray",
    JOB
    | {
        "certs", "dashboard", "durable", "durable_sync", "insecure", "keep_durable", "log_dir", "max_restarts",
        "no_durable", "resume", "snapshot_mb", "snapshot_seconds", "timeout", "view",
    },
    (
        Flag("--ray_address", "the cluster: auto (that of this node; the default), or host:port", "ADDRESS",
             default="auto"),
        Flag("--strategy", "how Ray spreads the processes: SPREAD (default), PACK, STRICT_SPREAD or STRICT_PACK",
             "NAME", default="SPREAD"),
        Flag("--server_cpus", "CPUs that Ray sets aside for each server (default: 1)", "N", quantity, 1.0),
        Flag("--worker_cpus", "CPUs for each worker, and its threads (default: 1)", "N", quantity, 1.0),
        Flag("--worker_gpus", "GPUs of each worker, which sees no others (default: none)", "N", count),
        Flag("--server_memory_mb", "MiB of memory that Ray sets aside for each server (default: none)", "M",
             above_zero),
        Flag("--worker_memory_mb", "MiB of memory for each worker (default: none)", "M", above_zero),
        Flag("--ray_wait", "seconds to wait for room, and for a place that does not answer (default: 120)",
             "SECONDS", above_zero, 120.0),
        Flag("--job_dispatch_package", "folder that is sent to every node (default: the script's)", "DIR",
             default=""),
        Flag("--job_workspace", "folder that every node has already, with the script in it: nothing is sent", "DIR",
             default=""),
    ),
    has_script=False,  # with --job_workspace it is a file of the nodes
)  # fmt: skip
