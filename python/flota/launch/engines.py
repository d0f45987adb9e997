"""Where a job's processes can run: ``flota launch --on ENGINE``.

Each engine is a package or module of its own, and says here, in ``ENGINES``, which flags it has and which of the common
ones act there: what would not act is refused. Nothing of an engine is imported before a launch asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flota.launch.parser import above_zero, count

LOCAL = "local"

_JOB = frozenset({"server_num", "worker_num", "paddle"})
# Of an engine that runs a launch on each host (flota.launch.nodes).
ON_EACH_HOST = frozenset(
    {
        "certs", "durable", "durable_sync", "gpus", "insecure", "keep_durable", "log_dir", "max_restarts", "no_durable",
        "paddle", "resume", "snapshot_mb", "snapshot_seconds", "timeout", "view",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Flag:
    """A flag that only some engines have; what it is given is in ``Arguments.own``, by its name without dashes."""

    name: str  # as the user writes it, with underscores: --job_workspace
    help: str
    metavar: str = "…"
    type: Callable[[str], Any] = str
    default: Any = None  # of one that is not given
    switch: bool = False  # takes no value: False, or True where it is given

    @property
    def key(self) -> str:
        return self.name[2:]


HOSTS = Flag("--hosts", "hosts.yaml, or h1,h2,…: where the job runs", "LIST")


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
    "mpi": Engine(
        "flota.launch.mpi",
        "Open MPI",
        _JOB | ON_EACH_HOST | {"nproc_per_node"},
        (
            HOSTS,
            Flag("--hostfile", "mpirun's file of hosts; slots=N: that many workers", "FILE"),
            Flag("--mpirun_flags", "more flags for mpirun", "FLAGS"),
        ),
    ),
    "slurm": Engine(
        "flota.launch.slurm",
        "Slurm",
        _JOB | ON_EACH_HOST | {"nproc_per_node"},
        (Flag("--slurm_flags", "flags for srun in an allocation, else for salloc: --nodes=3 …", "FLAGS"),),
    ),
}  # fmt: skip

__all__ = ["ENGINES", "LOCAL", "Engine", "Flag", "above_zero", "count"]
