"""``--on kubernetes``: Kubernetes."""

from __future__ import annotations

from flota.launch.engines.engine import JOB, Engine, Flag
from flota.launch.parser import count

KUBERNETES = Engine(
    "flota.launch.kubernetes",
    "Kubernetes, by kubectl",
    JOB
    | {
        "certs", "durable_sync", "insecure", "keep_durable", "max_restarts", "metrics_port", "no_durable", "resume",
        "snapshot_mb", "snapshot_seconds", "timeout",
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
)  # fmt: skip
