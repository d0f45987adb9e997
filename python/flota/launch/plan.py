"""What a launch will start: every process of the job, and which of them are on this host.

Three ways to say it, which do not mix:

- numbers (``--server_num``, ``--worker_num``): all on this host, at free ports;
- numbers and ``--ips`` with several hosts: server i and worker i on the i-th host, starting over after the last; server
  i at port 6170 + i, worker i at 6170 + servers + i, so that every host comes to the same result by itself;
- lists (``--servers``, ``--workers``). One list alone is enough when all that it names is on this host.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flota import config
from flota.errors import InvalidArgument
from flota.launch.arguments import Arguments
from flota.launch.hosts import (
    FIRST_PORT,
    Endpoint,
    check_free,
    free_ports,
    local_hosts,
    parse_endpoints,
    split,
    this_host,
)

LOOPBACK = "127.0.0.1"

# There when the driver is loaded; in containers too that were given a GPU.
_GPUS = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True)
class Member:
    """One process of this host."""

    role: str  # "server" or "worker"
    index: int  # among all of its role, on whatever host
    endpoint: Endpoint
    device: str | None = None  # the GPU of a worker, with --gpus

    @property
    def name(self) -> str:
        return f"{self.role} {self.index}"


@dataclass(frozen=True)
class Plan:
    servers: list[Endpoint]  # of the whole job
    workers: list[Endpoint]
    members: list[Member]  # of this host, servers first
    rendezvous: Endpoint  # PADDLE_GLOO_HTTP_ENDPOINT
    alone: bool  # no other host has a part in the job
    arguments: Arguments  # with the numbers and hosts that are in effect
    notes: list[str]
    here: frozenset[str] = frozenset()  # what this host is called in the endpoints
    first_workers: tuple[Endpoint, ...] = ()  # those that the job began with; see ``turns``
    turn: tuple[str, ...] = ()  # the hosts that take further workers; none: those of the first


def make_plan(arguments: Arguments) -> Plan:
    """Decides, or refuses what contradicts itself, cannot run or leaves open what was meant."""
    _check_counts(arguments)
    servers, workers, named = _endpoints(arguments)
    _check_distinct(servers, workers)
    hosts = list(dict.fromkeys(endpoint.host for endpoint in [*servers, *workers]))
    here = local_hosts(hosts, named)
    members = [Member("server", i, e) for i, e in enumerate(servers) if e.host in here]
    members += [Member("worker", i, e) for i, e in enumerate(workers) if e.host in here]
    if not members:
        raise InvalidArgument(
            f"no process is for this host, {named or this_host()}: servers {_text(servers)}; workers {_text(workers)}; "
            f"name this host there by an address that it has, or set {config.POD_IP} to the one they use"
        )
    _check_workers_per_host(members, arguments)
    for member in members:
        check_free(member.name, member.endpoint)
    alone = here == set(hosts)
    members, notes = with_devices(members, arguments)
    return Plan(
        servers=servers,
        workers=workers,
        members=members,
        rendezvous=_rendezvous(servers, workers, arguments, alone=alone),
        alone=alone,
        arguments=replace(arguments, server_num=len(servers), worker_num=len(workers), ips=",".join(hosts)),
        notes=notes,
        here=frozenset(here),
        first_workers=tuple(workers),
        turn=tuple(ips) if len(ips := split(arguments.ips)) > 1 else (),
    )


def _check_counts(arguments: Arguments) -> None:
    for flag, list_flag, number, endpoints in (
        ("--server_num", "--servers", arguments.server_num, arguments.servers),
        ("--worker_num", "--workers", arguments.worker_num, arguments.workers),
    ):
        if number == 0:
            raise InvalidArgument(f"{flag}=0: a job needs at least one server and one worker")
        if endpoints and number not in (None, len(split(endpoints))):
            raise InvalidArgument(f"{flag}={number}, but {list_flag} names {len(split(endpoints))}: {endpoints}")
    if arguments.nproc_per_node == 0:
        raise InvalidArgument("--nproc_per_node=0: a host of the job has at least one worker")


def _worker_num(arguments: Arguments, hosts: int) -> int:
    if arguments.nproc_per_node is not None:
        total = arguments.nproc_per_node * hosts
        if arguments.worker_num not in (None, total):
            raise InvalidArgument(
                f"--worker_num={arguments.worker_num}, but --nproc_per_node={arguments.nproc_per_node} makes {total}"
            )
        return total
    if arguments.worker_num is not None:
        return arguments.worker_num
    return hosts * len(split(arguments.gpus or "0"))


def _endpoints(arguments: Arguments) -> tuple[list[Endpoint], list[Endpoint], str]:
    """The endpoints of servers and workers, and the address among them that this host is said to have."""
    if arguments.servers or arguments.workers:
        return _from_lists(arguments)
    hosts = split(arguments.ips) or [LOOPBACK]
    if len(set(hosts)) < len(hosts):
        raise InvalidArgument(f"--ips={arguments.ips} names a host twice")
    servers = arguments.server_num or len(hosts)
    workers = _worker_num(arguments, len(hosts))
    if max(servers, workers) < len(hosts):
        raise InvalidArgument(
            f"--ips names {len(hosts)} hosts for {servers} servers and {workers} workers: "
            f"{', '.join(hosts[max(servers, workers) :])} would run nothing"
        )
    named = config.pod_ip()
    if len(hosts) == 1 and local_hosts(hosts, named):
        taken = _metrics_ports(arguments, servers + workers)
        ports = iter(free_ports(Endpoint(hosts[0], 0).address, servers + workers, taken))
    else:
        ports = iter(range(FIRST_PORT, FIRST_PORT + servers + workers))
    turn = [hosts[i % len(hosts)] for i in range(max(servers, workers))]
    return (
        [Endpoint(host, next(ports)) for host in turn[:servers]],
        [Endpoint(host, next(ports)) for host in turn[:workers]],
        named,
    )


def _metrics_ports(arguments: Arguments, processes: int) -> range:
    """Those that this launch and the processes of the job tell their metrics at; see ``launch.outlets``."""
    first = arguments.metrics_port
    return range(0) if first is None else range(first, first + 1 + processes)


def _from_lists(arguments: Arguments) -> tuple[list[Endpoint], list[Endpoint], str]:
    servers = parse_endpoints("--servers", arguments.servers, FIRST_PORT)
    first_of_workers = FIRST_PORT + (len(servers) or arguments.server_num or 1)
    workers = parse_endpoints("--workers", arguments.workers, first_of_workers)
    hosts = {endpoint.host for endpoint in [*servers, *workers]}
    # One address says which of the hosts this one is; several can only be the hosts themselves.
    ips = split(arguments.ips)
    if len(ips) > 1 and not set(ips) <= hosts:
        raise InvalidArgument(f"--ips={arguments.ips}, but the hosts in the lists are {', '.join(sorted(hosts))}")
    named = ips[0] if len(ips) == 1 else config.pod_ip()
    if servers and workers:
        return servers, workers, named
    given, missing = ("--servers", "--workers") if servers else ("--workers", "--servers")
    elsewhere = hosts - local_hosts(hosts, named)
    if elsewhere:
        # Other hosts would each fill in the missing list for themselves, and none would know of the others'.
        raise InvalidArgument(
            f"{given} names other hosts than this one ({', '.join(sorted(elsewhere))}): {missing} is needed as well"
        )
    first = (servers or workers)[0]
    count = _worker_num(arguments, 1) if servers else arguments.server_num or 1
    taken = {endpoint.port for endpoint in [*servers, *workers]}
    taken |= {*_metrics_ports(arguments, len(taken) + count)}
    ports = free_ports(first.address, count, taken)
    filled = [Endpoint(first.host, port) for port in ports]
    return (servers, filled, named) if servers else (filled, workers, named)


def _check_distinct(servers: Sequence[Endpoint], workers: Sequence[Endpoint]) -> None:
    seen: dict[Endpoint, str] = {}
    for role, endpoints in (("server", servers), ("worker", workers)):
        for i, endpoint in enumerate(endpoints):
            other = seen.setdefault(endpoint, f"{role} {i}")
            if other != f"{role} {i}":
                raise InvalidArgument(f"{other} and {role} {i} have the same endpoint, {endpoint}")


def _check_workers_per_host(members: Sequence[Member], arguments: Arguments) -> None:
    asked = arguments.nproc_per_node
    here = sum(member.role == "worker" for member in members)
    if asked is not None and asked != here:
        raise InvalidArgument(f"--nproc_per_node={asked}, but the lists give this host {here} of the job's workers")


def with_devices(members: list[Member], arguments: Arguments) -> tuple[list[Member], list[str]]:
    """Gives the i-th worker of this host the i-th of ``--gpus``, starting over after the last."""
    devices = split(arguments.gpus or "")
    if not devices:
        return members, []
    for device in devices:
        if not device.isdecimal() and not device.startswith(("GPU-", "MIG-")):
            raise InvalidArgument(f"--gpus={arguments.gpus}: {device} is neither a device's number nor its UUID")
    visible = config.visible_devices()
    hidden = [device for device in devices if visible is not None and device not in split(visible)]
    if hidden:
        raise InvalidArgument(
            f"--gpus={arguments.gpus}: {', '.join(hidden)} may not be used here, where "
            f"{config.VISIBLE_DEVICES}={visible}"
        )
    workers = [member for member in members if member.role == "worker"]
    unused = devices[len(workers) :]
    notes = [f"{len(workers)} workers here: not used of --gpus is {','.join(unused)}"] if workers and unused else []
    if workers and not _GPUS.exists():
        notes.append(
            f"--gpus={arguments.gpus}, and this host shows no NVIDIA GPU: workers are told of their devices, and "
            "torch computes on the CPU"
        )
    turn = itertools.cycle(devices)
    return [replace(m, device=next(turn)) if m.role == "worker" else m for m in members], notes


def _rendezvous(
    servers: Sequence[Endpoint], workers: Sequence[Endpoint], arguments: Arguments, *, alone: bool
) -> Endpoint:
    host = servers[0].host
    taken = {endpoint.port for endpoint in [*servers, *workers]}
    taken |= {*_metrics_ports(arguments, len(servers) + len(workers))}
    if arguments.http_port is not None:
        endpoint = Endpoint(host, arguments.http_port)
        if endpoint.port in taken:
            raise InvalidArgument(f"--http_port={endpoint.port} is a port of the job already")
        if alone:
            check_free("--http_port", endpoint)
        return endpoint
    if alone:
        return Endpoint(host, free_ports(servers[0].address, 1, taken)[0])
    # The same on every host, without asking any.
    return Endpoint(host, next(port for port in itertools.count(FIRST_PORT) if port not in taken))


def _text(endpoints: Sequence[Endpoint]) -> str:
    return ",".join(map(str, endpoints))
