"""``--on ssh``: hosts that are reached by SSH."""

from __future__ import annotations

from flota.launch.engines.engine import HOSTS, JOB, Engine, Flag
from flota.launch.parser import above_zero, one_of, port

SSH = Engine(
    "flota.launch.ssh",
    "several hosts, by SSH",
    JOB
    | {
        "certs", "dashboard", "durable", "durable_sync", "gpus", "http_port", "insecure", "keep_durable", "log_dir",
        "max_restarts", "metrics_host", "metrics_port", "no_durable", "nproc_per_node", "resume", "snapshot_mb",
        "snapshot_seconds", "tensorboard", "timeout", "view",
    },
    (
        HOSTS,
        Flag("--job_dispatch_package", "folder that is copied to every host, with the script in it; only what changed "
             "is sent", "DIR"),
        Flag("--job_workspace", "folder on every host that the job runs in (default: of a package ~/flota-jobs/NAME, "
             "else this one)", "DIR"),
        Flag("--first_port", "port of server 0; the others count up from it, workers after servers (default: 6170)",
             "PORT", port),
        Flag("--lost_after", "seconds without a word after which a host is lost, and ends by itself what it runs "
             "(default: 60)", "SECONDS", above_zero),
        Flag("--if_lost", "end: a lost host ends the job (default); move: its workers go on on another host, if no "
             "server was on it", "end|move", one_of("end", "move")),
        Flag("--accept_new_host_keys", "take the keys of hosts that known_hosts does not have", switch=True),
    ),
    has_script=False,
)  # fmt: skip
