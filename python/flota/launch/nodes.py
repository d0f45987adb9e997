"""A launch on each of a job's hosts, all started by one command of an engine that knows how to reach them.

The engine (mpirun, srun) runs the same words on every host: ``python -m flota.launch.node`` with the lists of all
servers and workers, and what else was asked for. What runs, is restarted, kept and logged there is that launch's, as on
one host. The job's secret and certificates go in the environment, which the engine carries.
"""

from __future__ import annotations

import itertools
import random
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from flota import certificates, config
from flota.errors import InvalidArgument
from flota.launch.arguments import Arguments
from flota.launch.engines.engine import ON_EACH_HOST
from flota.launch.environment import asking_environment
from flota.launch.hosts import FIRST_PORT, parse_endpoints, split
from flota.launch.restarts import DEFAULT_RESTARTS

# Below the range from which the kernel takes the ports of outgoing connections; each job has some of its own.
_PORTS = range(10_000, 32_768)

_DEFAULTS: Mapping[str, object] = {
    "log_dir": "log", "max_restarts": DEFAULT_RESTARTS, "timeout": 10.0, "view": "auto"
}  # fmt: skip
_SAID_BY_LISTS = frozenset({"nproc_per_node", "server_num", "worker_num"})


def flags(arguments: Arguments, *, lists: bool) -> list[str]:
    """What was asked for as flags again. ``lists``: without what the lists of servers and workers say."""
    words = []
    for name in sorted(ON_EACH_HOST if lists else ON_EACH_HOST | _SAID_BY_LISTS):
        value = getattr(arguments, name)
        if value is True:
            words.append(f"--{name}")
        elif value is not None and value is not False and value not in ("", _DEFAULTS.get(name)):
            words.append(f"--{name}={value:.10g}" if isinstance(value, float) else f"--{name}={value}")
    return words


def script(arguments: Arguments) -> list[str]:
    return [arguments.training_script, *arguments.training_script_args] if arguments.training_script else []


def node_command(arguments: Arguments, slots: Mapping[str, int]) -> list[str]:
    """The words that every host runs. ``slots``: the hosts, and how many workers each has unless something else was
    said."""
    servers, workers = _lists(arguments, slots)
    turn = [f"--ips={','.join(slots)}"] if len(slots) > 1 else []
    lists = [f"--servers={servers}", f"--workers={workers}", *turn]
    return [sys.executable, "-m", "flota.launch.node", *lists, *flags(arguments, lists=True), *script(arguments)]


def asking(arguments: Arguments, command: Sequence[str], settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of one who asks the servers of such a job from here. ``settings``: of ``job_settings``."""
    words = next(word for word in command if word.startswith("--servers="))
    servers = parse_endpoints("--servers", words.partition("=")[2], FIRST_PORT)
    protected = dict(settings)
    if arguments.insecure:
        protected |= {**dict.fromkeys(config.PROTECTION, ""), config.INSECURE: "1"}
    elif arguments.certs:
        protected |= {**dict.fromkeys(config.PROTECTION, ""), config.CERTS: str(Path(arguments.certs).resolve())}
    return {**protected, **asking_environment(servers)}


def _lists(arguments: Arguments, slots: Mapping[str, int]) -> tuple[str, str]:
    hosts = list(slots)
    per_host = arguments.nproc_per_node or (len(split(arguments.gpus)) if arguments.gpus else None)
    servers = arguments.server_num if arguments.server_num is not None else len(hosts)
    if arguments.nproc_per_node == 0 or servers == 0 or arguments.worker_num == 0:
        raise InvalidArgument("a job needs at least one server and one worker: --server_num, --worker_num from 1")
    if arguments.worker_num is not None:
        if arguments.nproc_per_node is not None and arguments.worker_num != arguments.nproc_per_node * len(hosts):
            raise InvalidArgument(
                f"--worker_num={arguments.worker_num}, but --nproc_per_node={arguments.nproc_per_node} makes "
                f"{arguments.nproc_per_node * len(hosts)} on {len(hosts)} hosts"
            )
        of_workers = [hosts[i % len(hosts)] for i in range(arguments.worker_num)]
    else:
        counts = slots if per_host is None else dict.fromkeys(hosts, per_host)
        # In turn here as well, so that worker i is on the same host however the number was said.
        turns = ([host for host in hosts if counts[host] > turn] for turn in range(max(counts.values())))
        of_workers = list(itertools.chain.from_iterable(turns))
    of_servers = [hosts[i % len(hosts)] for i in range(servers)]
    if idle := [host for host in hosts if host not in of_servers and host not in of_workers]:
        raise InvalidArgument(
            f"{len(hosts)} hosts for {servers} servers and {len(of_workers)} workers: {', '.join(idle)} would run "
            "nothing"
        )
    first = random.randrange(_PORTS.start, _PORTS.stop - servers - len(of_workers))
    endpoints = [f"{host}:{first + i}" for i, host in enumerate([*of_servers, *of_workers])]
    return ",".join(endpoints[:servers]), ",".join(endpoints[servers:])


def job_settings(arguments: Arguments, hosts: Sequence[str]) -> dict[str, str]:
    """The secret and the certificates of a job for which nobody has set any."""
    settings = {} if config.has_secret() else {config.SECRET: secrets.token_hex(32)}
    if config.has_secret():
        config.job_secret()  # or it says now what is wrong with it
    said = arguments.certs or arguments.insecure or config.insecure() or config.has_certificates()
    if arguments.certs and arguments.insecure:
        raise InvalidArgument("--certs and --insecure contradict each other: with certificates there is TLS")
    if not said:  # also of one host, whose servers this one asks where somebody wants another number of workers
        settings[config.CERTS_TEXT] = certificates.job_set_as_text(hosts)
    return settings
