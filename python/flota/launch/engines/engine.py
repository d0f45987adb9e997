"""What an engine says of itself: see ``flota.launch.engines``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Every engine starts servers and workers of a script.
JOB = frozenset({"server_num", "worker_num", "paddle", "log_format"})
# Of an engine that runs a launch on each host (flota.launch.nodes): what means there what it means here.
ON_EACH_HOST = frozenset(
    {
        "certs", "durable", "durable_sync", "gpus", "insecure", "keep_durable", "log_dir", "max_restarts", "no_durable",
        "metrics_host", "metrics_port", "paddle", "resume", "snapshot_mb", "snapshot_seconds", "tensorboard", "timeout",
        "view",
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
    many: bool = False  # may be given several times: a list of what it was given

    @property
    def key(self) -> str:
        return self.name[2:]


HOSTS = Flag(
    "--hosts",
    "user@name:port,… or a file (.yaml): the hosts; the command is given on one that reaches them all; implies --on "
    "ssh, unless --on mpi is given",
    "LIST",
)


@dataclass(frozen=True)
class Engine:
    module: str  # its ``launch(arguments)`` starts the job, and returns the command's exit status
    title: str  # as a heading in --help
    takes: frozenset[str]  # of the flags that engines share, those that act here
    flags: tuple[Flag, ...] = ()
    has_script: bool = True  # the script is a file of this host
