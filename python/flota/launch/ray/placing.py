"""From the numbers of a job to a seat for each process, and from the seats to the plan."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from flota.errors import InvalidArgument, SystemFailure
from flota.launch.arguments import Arguments
from flota.launch.hosts import Endpoint
from flota.launch.plan import Member, Plan
from flota.launch.ray import cluster
from flota.launch.ray.settings import Settings

# A seat, and what it says of itself.
Taken = tuple[Any, Mapping[str, Any]]


def with_numbers(arguments: Arguments, nodes: int) -> Arguments:
    """How many servers and workers there are; unless said, one of each for each node."""
    for flag, number in (("--server_num", arguments.server_num), ("--worker_num", arguments.worker_num)):
        if number == 0:
            raise InvalidArgument(f"{flag}=0: a job needs at least one server and one worker")
    return replace(arguments, server_num=arguments.server_num or nodes, worker_num=arguments.worker_num or nodes)


def names_of(arguments: Arguments) -> list[str]:
    """Servers first, as in every plan."""
    servers = [f"server {i}" for i in range(arguments.server_num or 0)]
    return servers + [f"worker {i}" for i in range(arguments.worker_num or 0)]


def check_seats(names: Sequence[str], taken: Sequence[Taken], settings: Settings) -> None:
    """Refuses nodes on which the job could not run."""
    mine = metadata.version("flota")
    for name, (seat, hello) in zip(names, taken, strict=True):
        where = f"{hello['host']} ({hello['address']}), where {name} would run,"
        if hello["flota"] != mine:
            raise SystemFailure(
                f"{where} has flota {hello['flota']}, and this host {mine}: install the same on all nodes"
            )
        script = str(Path(settings.workspace, settings.script))
        if not cluster.ask(seat.has.remote(script))[0]:
            raise InvalidArgument(f"{where} has no {script}")


def readers(taken: Sequence[Taken]) -> dict[str, Callable[[str], str | None]]:
    """By node, what reads a file there."""
    return {
        f"{hello['host']} ({hello['address']})": lambda file, seat=seat: cluster.ask(seat.reads.remote(file))  # type: ignore[misc]
        for seat, hello in taken
    }


def make_plan(arguments: Arguments, names: Sequence[str], taken: Sequence[Taken]) -> Plan:
    """Each process with a port of its own on its node. Workers listen nowhere; theirs are names for scripts."""
    ports: list[int] = []
    endpoints: list[Endpoint] = []
    for seat, hello in taken:
        # One more on the node of server 0: for PADDLE_GLOO_HTTP_ENDPOINT, which is kept for the script's own use.
        found = cluster.ask(seat.free_ports.remote(1 if endpoints else 2, ports))
        ports += found
        endpoints.append(Endpoint(cluster.bracketed(hello["address"]), found[0]))
    count = arguments.server_num or 0
    members = [
        Member(name.partition(" ")[0], int(name.partition(" ")[2]), endpoint)
        for name, endpoint in zip(names, endpoints, strict=True)
    ]
    return Plan(
        servers=endpoints[:count],
        workers=endpoints[count:],
        members=members,
        rendezvous=Endpoint(endpoints[0].host, ports[1]),
        alone=True,  # this launch has all of the job's processes
        arguments=arguments,
        notes=[],
    )


def with_workers(plan: Plan, count: int) -> Plan:
    """The same job with another number of workers. Where new ones will be is not known before Ray has found a place for
    each: until then they have names beside worker 0, as every worker is to have one, and all different."""
    first = plan.workers[0]
    kept = plan.workers[:count]
    taken = {endpoint.port for endpoint in [*plan.servers, *kept, plan.rendezvous] if endpoint.host == first.host}
    free = (port for port in itertools.count(first.port) if port not in taken)
    workers = [*kept, *(Endpoint(first.host, port) for port in itertools.islice(free, count - len(kept)))]
    members = [
        Member(role, index, endpoint)
        for role, endpoints in (("server", plan.servers), ("worker", workers))
        for index, endpoint in enumerate(endpoints)
    ]
    return replace(plan, workers=workers, members=members, arguments=replace(plan.arguments, worker_num=count))
