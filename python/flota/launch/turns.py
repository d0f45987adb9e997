"""Where a job's workers are when there are more, or fewer, than it began with.

Hosts take those that come in turn: worker i goes to the (i modulo their number)-th. They are those of ``--ips``, or
else those that had workers. It depends on nothing but what the job began with, so every host comes to the same result
by itself, whatever came and went in between, and also a host that goes on with another's workers.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import replace

from flota.launch.hosts import FIRST_PORT, Endpoint, free_ports
from flota.launch.plan import Member, Plan, with_devices

_HIGHEST_PORT = 65535


def host_of(plan: Plan, worker: int) -> str:
    """The host of a worker, whether there is one of this number now or not."""
    first = plan.first_workers or plan.workers
    if worker < len(first):
        return first[worker].host
    hosts = plan.turn or list(dict.fromkeys(endpoint.host for endpoint in first))
    return hosts[worker % len(hosts)]


def is_here(plan: Plan, worker: int) -> bool:
    """Whether a worker of this number runs on this host."""
    return plan.alone or host_of(plan, worker) in plan.here


def takes_workers(plan: Plan) -> bool:
    """Whether any ever runs on this host."""
    return plan.alone or not plan.here.isdisjoint({*plan.turn, *(endpoint.host for endpoint in plan.first_workers)})


def with_workers(plan: Plan, count: int) -> Plan:
    """The same job with another number of workers: those of the highest numbers go, or new ones come."""
    kept = [member for member in plan.members if member.role == "server" or member.index < count]
    workers = plan.workers[:count]
    workers = [*workers, *(_more_here if plan.alone else _more_anywhere)(plan, range(len(workers), count))]
    kept += [Member("worker", i, workers[i]) for i in range(len(plan.workers), count) if is_here(plan, i)]
    # The i-th worker of this host has the i-th device, as before.
    members, _ = with_devices(kept, plan.arguments)
    return replace(plan, workers=workers, members=members, arguments=replace(plan.arguments, worker_num=count))


def _more_here(plan: Plan, indices: Collection[int]) -> list[Endpoint]:
    here = next(member.endpoint for member in plan.members if member.role == "worker")
    taken = {endpoint.port for endpoint in [*plan.servers, *plan.workers, plan.rendezvous]}
    return [Endpoint(here.host, port) for port in free_ports(here.address, len(indices), taken)]


def _more_anywhere(plan: Plan, indices: Collection[int]) -> list[Endpoint]:
    """Those that the job began with have their endpoints; the others count up from the last port of all."""
    first = plan.first_workers
    taken = {endpoint.port for endpoint in [*plan.servers, *first, plan.rendezvous]}
    # Workers listen nowhere: ports tell their endpoints apart, on which scripts may agree.
    anywhere = [*range(max(taken) + 1, _HIGHEST_PORT + 1), *range(FIRST_PORT, max(taken))]
    free = itertools.cycle(port for port in anywhere if port not in taken)
    last = max(indices, default=-1)
    every = [*first, *(Endpoint(host_of(plan, i), next(free)) for i in range(len(first), last + 1))]
    return [every[i] for i in indices]
