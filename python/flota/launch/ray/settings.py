"""What the flags of this engine come to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flota.errors import InvalidArgument
from flota.launch.arguments import Arguments

STRATEGIES = ("SPREAD", "PACK", "STRICT_SPREAD", "STRICT_PACK")


@dataclass(frozen=True)
class Settings:
    address: str  # "auto", or host:port
    strategy: str
    server: dict[str, float]  # what Ray is asked for each server, by its names for resources
    worker: dict[str, float]
    wait: float  # seconds
    package: Path | None  # the folder that is sent to every node; None: one is there
    workspace: str  # the folder that is there already
    script: str  # its path in either of them


def read_settings(arguments: Arguments) -> Settings:
    own = arguments.own
    strategy = str(own["strategy"]).upper()
    if strategy not in STRATEGIES:
        raise InvalidArgument(f"--strategy={own['strategy']}: it must be one of {', '.join(STRATEGIES)}")
    package, workspace, script = _folders(arguments)
    return Settings(
        address=_address(str(own["ray_address"])),
        strategy=strategy,
        server=_resources(own["server_cpus"], own["server_memory_mb"]),
        worker=_resources(own["worker_cpus"], own["worker_memory_mb"], own["worker_gpus"]),
        wait=own["ray_wait"],
        package=package,
        workspace=workspace,
        script=script,
    )


def _address(address: str) -> str:
    if address.startswith("ray://"):
        raise InvalidArgument(
            f"--ray_address={address}: Ray's client (ray://) is not supported: give the command on a node of the "
            "cluster, with --ray_address=auto or the host:port that `ray start --head` names"
        )
    host, _, port = address.rpartition(":")
    if address != "auto" and not (host and port.isdecimal() and 1 <= int(port) <= 65535):
        raise InvalidArgument(
            f"--ray_address={address}: it must be auto (the cluster of this node), or the host:port that "
            "`ray start --head` names, such as 10.0.0.1:6379"
        )
    return address


def _resources(cpus: float, memory_mb: float | None, gpus: int | None = None) -> dict[str, float]:
    asked = {"CPU": cpus, "GPU": gpus or 0.0, "memory": (memory_mb or 0.0) * (1 << 20)}
    return {name: number for name, number in asked.items() if number}


def _folders(arguments: Arguments) -> tuple[Path | None, str, str]:
    """The folder to send, or the one that is there, and the script in it."""
    own = arguments.own
    script = Path(arguments.training_script)
    if own["job_workspace"]:
        if own["job_dispatch_package"]:
            raise InvalidArgument(
                "--job_workspace and --job_dispatch_package contradict each other: the folder is on every node "
                "already, or it is sent there"
            )
        workspace = Path(own["job_workspace"])
        if not workspace.is_absolute():
            raise InvalidArgument(f"--job_workspace={workspace}: name it from the root (/…), as every node has it")
        inside = script.is_absolute() and script.is_relative_to(workspace)
        if script.is_absolute() and not inside:
            raise InvalidArgument(f"the script {script} is not in --job_workspace={workspace}")
        return None, str(workspace), str(script.relative_to(workspace) if inside else script)
    if not script.is_file():
        raise InvalidArgument(f"there is no script {script} (in {Path.cwd()})")
    package = Path(own["job_dispatch_package"] or script.parent).resolve()
    if not package.is_dir():
        raise InvalidArgument(f"--job_dispatch_package={package}: there is no such folder")
    if not script.resolve().is_relative_to(package):
        raise InvalidArgument(f"the script {script} is not in --job_dispatch_package={package}, which is what is sent")
    return package, "", str(script.resolve().relative_to(package))
