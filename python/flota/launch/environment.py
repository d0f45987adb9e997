"""What a launch tells each process by its environment, and what it prints: names and shape are those of Fleet."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

from flota import config
from flota.launch.arguments import Arguments
from flota.launch.engines import LOCAL
from flota.launch.hosts import Endpoint
from flota.launch.plan import Member, Plan
from flota.launch.restarts import DEFAULT_RESTARTS

# Widths of Fleet's box: names, values, the gap between them.
_NAMES, _VALUES, _GAP = 40, 45, 2

# Fleet's configuration table, in its order.
_CONFIGURATION = (
    "gpus", "heter_worker_num", "heter_workers", "http_port", "ips", "log_dir", "nproc_per_node", "server_num",
    "servers", "training_script", "training_script_args", "worker_num", "workers",
)  # fmt: skip
_REFUSED = {"heter_worker_num": None, "heter_workers": ""}  # never anything else


def member_environment(plan: Plan, member: Member, folder: str) -> dict[str, str]:
    """Who this process is and where the others are; ``folder`` is one that all processes of this host can write to."""
    build = {"server": _server_environment, "worker": _worker_environment}[member.role]
    return {name: value for name, value in build(plan, member, folder).items() if value is not None}


def _server_environment(plan: Plan, member: Member, folder: str) -> dict[str, str | None]:
    return {
        "PADDLE_TRAINERS_NUM": str(len(plan.workers)),
        "TRAINING_ROLE": "PSERVER",
        # A server finds itself among the servers by POD_IP:PADDLE_PORT, so this is the host as it is written there.
        "POD_IP": member.endpoint.host,
        "PADDLE_GLOO_RENDEZVOUS": "3",
        "PADDLE_PSERVERS_IP_PORT_LIST": _list(plan.servers),
        "PADDLE_PORT": str(member.endpoint.port),
        "PADDLE_WITH_GLOO": "0",
        "PADDLE_HETER_TRAINER_IP_PORT_LIST": "",
        "PADDLE_TRAINER_ENDPOINTS": _list(plan.workers),
        "PADDLE_GLOO_HTTP_ENDPOINT": str(plan.rendezvous),
        "PADDLE_GLOO_FS_PATH": folder,
    }


def _worker_environment(plan: Plan, member: Member, folder: str) -> dict[str, str | None]:
    # A worker that sees one device knows it as its first, whatever its number on the host.
    selected = None if member.device is None else "0"
    return {
        "PADDLE_GLOO_HTTP_ENDPOINT": str(plan.rendezvous),
        "PADDLE_GLOO_RENDEZVOUS": "3",
        "PADDLE_PSERVERS_IP_PORT_LIST": _list(plan.servers),
        "PADDLE_WITH_GLOO": "0",
        "PADDLE_TRAINER_ENDPOINTS": _list(plan.workers),
        "FLAGS_selected_gpus": selected,
        "PADDLE_GLOO_FS_PATH": folder,
        "PADDLE_TRAINERS_NUM": str(len(plan.workers)),
        "TRAINING_ROLE": "TRAINER",
        "XPU_VISIBLE_DEVICES": member.device,
        "PADDLE_HETER_TRAINER_IP_PORT_LIST": "",
        "PADDLE_TRAINER_ID": str(member.index),
        "CUDA_VISIBLE_DEVICES": member.device,
        "FLAGS_selected_xpus": selected,
        config.THREADS: _threads(plan),
    }


def asking_environment(servers: Iterable[Endpoint]) -> dict[str, str]:
    """Of a process that asks the servers, as worker 0 would, and does nothing else. The secret and what protects the
    traffic come beside it."""
    return {
        "TRAINING_ROLE": "TRAINER",
        "PADDLE_TRAINER_ID": "0",
        "PADDLE_TRAINERS_NUM": "1",
        "PADDLE_TRAINER_ENDPOINTS": "",
        "PADDLE_HETER_TRAINER_IP_PORT_LIST": "",
        "PADDLE_PSERVERS_IP_PORT_LIST": _list(servers),
    }


def durable_environment(arguments: Arguments, member: Member, folder: Path | None) -> dict[str, str]:
    """Where and how a server keeps what it has. Other processes are told neither, also where the launcher was: a server
    that a worker starts for itself is none of the job's."""
    if member.role != "server" or folder is None:
        told = [config.DURABLE_DIR] if config.durable_folder() else []
        return dict.fromkeys([*told, *config.how_durable()], "")
    settings = {config.DURABLE_DIR: str(folder.resolve())}
    if arguments.durable_sync:
        settings[config.DURABLE_SYNC] = "1"
    if arguments.snapshot_seconds is not None:
        settings[config.SNAPSHOT_SECONDS] = f"{arguments.snapshot_seconds:.10g}"
    if arguments.snapshot_mb is not None:
        settings[config.SNAPSHOT_MB] = f"{arguments.snapshot_mb:.10g}"
    return settings


def _threads(plan: Plan) -> str | None:
    """This host's cores, shared out among its workers. torch would give each of them all cores, and they would spend
    their time in each other's way. None where somebody has said another number: that one stays."""
    if config.threads() is not None:
        return None
    workers = sum(member.role == "worker" for member in plan.members)
    return str(max(1, len(os.sched_getaffinity(0)) // max(1, workers)))


def _list(endpoints: Iterable[Endpoint]) -> str:
    return ",".join(map(str, endpoints))


def configuration(arguments: Arguments) -> dict[str, str]:
    """What is in effect, by Fleet's names in Fleet's order, and flota's own flags after them where they were used."""
    values = {**vars(arguments), **_REFUSED}
    own = {
        "certs": "", "dashboard": None, "durable": "", "durable_sync": False, "insecure": False, "keep_durable": False,
        "log_format": "", "max_restarts": DEFAULT_RESTARTS, "metrics_host": "", "metrics_port": None,
        "no_durable": False, "on": LOCAL, "paddle": False, "resume": False, "snapshot_mb": None,
        "snapshot_seconds": None, "tensorboard": "", "timeout": 10.0, "view": "auto",
    }  # fmt: skip
    names = [*_CONFIGURATION, *(name for name, default in own.items() if values[name] != default)]
    used = {name: value for name, value in arguments.own.items() if value not in (None, False, "", [])}
    return {name: str(value) for name, value in {**{name: values[name] for name in names}, **used}.items()}


def configuration_table(arguments: Arguments) -> str:
    """The same as Fleet shows it."""
    lines = [f"{name}: {value}".rstrip() for name, value in configuration(arguments).items()]
    return "\n".join(["-----------  Configuration Arguments -----------", *lines, "-" * 48])


def environment_table(environment: Mapping[str, str]) -> str:
    """Fleet's box. A list too long for it goes on below, cut after a comma: Fleet shows its end only."""

    def row(name: str, value: str) -> str:
        return f"    |{name:>{_NAMES}}{' ' * _GAP}{value:^{_VALUES}}|"

    width = _NAMES + _GAP + _VALUES
    rows = [f"    +{'=' * width}+", row("Distributed Envs", "Value"), f"    +{'-' * width}+"]
    for name, value in environment.items():
        pieces = textwrap.wrap(value.replace(",", ", "), _VALUES) or [""]
        rows += [row(name if i == 0 else "", piece.replace(", ", ",")) for i, piece in enumerate(pieces)]
    return "\n".join([*rows, f"    +{'=' * width}+"])
