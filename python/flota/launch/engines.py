"""Where a job's processes can run: ``flota launch --on ENGINE``.

Each engine is a package or module of its own, and says here, in ``ENGINES``, which flags it has and which of the common
ones act there: what would not act is refused. Nothing of an engine is imported before a launch asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flota.launch.parser import above_zero, count, quantity

LOCAL = "local"

_JOB = frozenset({"server_num", "worker_num", "paddle"})


@dataclass(frozen=True)
class Flag:
    """A flag that only some engines have; what it is given is in ``Arguments.own``, by its name without dashes."""

    name: str  # as the user writes it, with underscores: --job_workspace
    help: str
    metavar: str = "…"
    type: Callable[[str], Any] = str
    default: Any = None  # of one that is not given
    switch: bool = False  # takes no value: False, or True where it is given
    many: bool = False  # may be given several times: a list of what it was given

    @property
    def key(self) -> str:
        return self.name[2:]


@dataclass(frozen=True)
class Engine:
    module: str  # its ``launch(arguments)`` starts the job, and returns the command's exit status
    title: str  # as a heading in --help
    takes: frozenset[str]  # of the flags that engines share, those that act here
    flags: tuple[Flag, ...] = ()
    has_script: bool = True  # the script is a file of this host


ENGINES: dict[str, Engine] = {
    LOCAL: Engine(
        "flota.launch.local",
        "this host",
        _JOB
        | {
            "certs", "durable", "durable_sync", "gpus", "http_port", "insecure", "ips", "keep_durable", "log_dir",
            "max_restarts", "no_durable", "nproc_per_node", "resume", "servers", "snapshot_mb", "snapshot_seconds",
            "timeout", "view", "workers",
        },
    ),
    "kubernetes": Engine(
        "flota.launch.kubernetes",
        "Kubernetes, by kubectl",
        _JOB
        | {
            "certs", "durable_sync", "insecure", "keep_durable", "max_restarts", "no_durable", "resume", "snapshot_mb",
            "snapshot_seconds", "timeout",
        },
        (
            Flag("--image", "image of all pods; it has flota, and the script unless --send_script", "IMAGE"),
            Flag("--name", "the job's name (default: the script's)", "NAME"),
            Flag("--namespace", "(default: that of kubectl's context)", "NAME"),
            Flag("--context", "of kubectl's configuration (default: the current one)", "NAME"),
            Flag("--form", "statefulset (default), or jobset, where JobSet is installed", "FORM"),
            Flag("--server_cpu", "cores that a server asks for (default: 1)", "CORES"),
            Flag("--server_memory", "memory that a server asks for (default: 2Gi), and its limit if given", "BYTES"),
            Flag("--worker_cpu", "cores that a worker asks for, and computes with (default: 1)", "CORES"),
            Flag("--worker_memory", "memory that a worker asks for (default: 2Gi), and its limit if given", "BYTES"),
            Flag("--worker_gpus", "GPUs of each worker (nvidia.com/gpu)", "N", count),
            Flag("--storage_class", "of the servers' volumes (default: the cluster's)", "NAME"),
            Flag("--volume_size", "of each server's volume (default: 10Gi)", "BYTES"),
            Flag("--mount", "a volume claim that is there, in all pods (again: another)", "CLAIM:/DIR[:ro]", many=True),
            Flag("--env", "a variable of all pods (again: another)", "NAME=VALUE", many=True),
            Flag("--node_selector", "a label that nodes must have (again: another)", "LABEL=VALUE", many=True),
            Flag("--image_pull_policy", "Always, IfNotPresent or Never (default: the cluster's)", "POLICY"),
            Flag("--image_pull_secret", "a Secret that is there, for the image's registry", "NAME"),
            Flag("--run_as", "number of the user that pods run as (default: 1000)", "UID", count),
            Flag("--secret", "a Secret that is there, with the job's secret and certificates", "NAME"),
            Flag("--send_script", "the script is this host's, and is sent along (one file)", switch=True),
            Flag("--detach", "do not wait for the job's end; it then needs flota stop", switch=True),
            Flag("--dry_run", "print the objects as YAML, and start nothing", switch=True),
            Flag("--with_secret", "with --dry_run: print the Secret, too", switch=True),
        ),
        has_script=False,
    ),
    "ray": Engine(
        "flota.launch.ray",
        "Ray (--on ray)",
        _JOB
        | {
            "certs", "durable", "durable_sync", "insecure", "keep_durable", "log_dir", "max_restarts", "no_durable",
            "resume", "snapshot_mb", "snapshot_seconds", "timeout", "view",
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
    ),
}  # fmt: skip

__all__ = ["ENGINES", "LOCAL", "Engine", "Flag", "above_zero", "count", "quantity"]
