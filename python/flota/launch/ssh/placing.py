"""Which node runs which servers and workers, and at which endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flota.errors import InvalidArgument
from flota.launch.arguments import Arguments
from flota.launch.hosts import Endpoint, split
from flota.launch.ssh.inventory import Host

_HIGHEST_PORT = 65535


@dataclass(frozen=True)
class Share:
    """What one node runs, by the numbers of the whole job."""

    servers: list[int]
    workers: list[int]
    takes_workers: bool = True  # where their number grows


def shares(hosts: Sequence[Host], arguments: Arguments) -> list[Share]:
    """Server i and worker i are on the i-th host, starting over after the last; or, where any host says how many it
    has, on the hosts in their order, each with as many as it says (and those that do not, none)."""
    servers = _spread(hosts, [host.servers for host in hosts], arguments.server_num, "server", [1] * len(hosts))
    each = [_workers_of(host, arguments) for host in hosts]
    workers = _spread(hosts, [host.workers for host in hosts], _worker_num(each, arguments), "worker", each)
    in_turn = all(host.workers is None for host in hosts)
    found = [Share(*both, takes_workers=in_turn or bool(both[1])) for both in zip(servers, workers, strict=True)]
    for host, share in zip(hosts, found, strict=True):
        if not share.servers and not share.workers:
            raise InvalidArgument(
                f"--hosts: {host.name} would run nothing: give it a server or a worker, or leave it out"
            )
    return found


def endpoints(
    addresses: Sequence[str], found: Sequence[Share], first_port: int
) -> tuple[list[Endpoint], list[Endpoint]]:
    """Of all servers and all workers. ``addresses``: of the hosts, for each other."""
    hosts = [f"[{address}]" if ":" in address else address for address in addresses]
    servers = {i: host for host, share in zip(hosts, found, strict=True) for i in share.servers}
    workers = {i: host for host, share in zip(hosts, found, strict=True) for i in share.workers}
    last = first_port + len(servers) + len(workers) - 1
    if last > _HIGHEST_PORT:
        raise InvalidArgument(
            f"--first_port={first_port}: the job's last port would be {last}, and {_HIGHEST_PORT} is the highest"
        )
    return (
        [Endpoint(servers[i], first_port + i) for i in range(len(servers))],
        [Endpoint(workers[i], first_port + len(servers) + i) for i in range(len(workers))],
    )


def _workers_of(host: Host, arguments: Arguments) -> int:
    """How many workers a host has where nobody says."""
    if arguments.nproc_per_node is not None:
        return arguments.nproc_per_node
    return len(split(host.gpus or arguments.gpus or "0"))


def _worker_num(each: Sequence[int], arguments: Arguments) -> int | None:
    if arguments.nproc_per_node == 0:
        raise InvalidArgument("--nproc_per_node=0: a host of the job has at least one worker")
    if arguments.nproc_per_node is not None and arguments.worker_num not in (None, sum(each)):
        raise InvalidArgument(
            f"--worker_num={arguments.worker_num}, but --nproc_per_node={arguments.nproc_per_node} makes {sum(each)}"
        )
    return arguments.worker_num


def _spread(
    hosts: Sequence[Host], said: Sequence[int | None], total: int | None, role: str, unsaid: Sequence[int]
) -> list[list[int]]:
    """The numbers of the processes of each host. ``unsaid``: how many each has where nothing is said at all."""
    flag = f"--{role}_num"
    if total == 0:
        raise InvalidArgument(f"{flag}=0: a job needs at least one server and one worker")
    if all(count is None for count in said):
        turn = [i % len(hosts) for i in range(total)] if total else [i for i, n in enumerate(unsaid) for _ in range(n)]
        if not total and len(set(unsaid)) == 1:  # the same order as where the number is given
            turn = [i % len(hosts) for i in range(sum(unsaid))]
        return [[n for n, at in enumerate(turn) if at == i] for i in range(len(hosts))]
    counts = [count or 0 for count in said]
    if total not in (None, sum(counts)):
        where = ", ".join(f"{host.name} {count}" for host, count in zip(hosts, counts, strict=True))
        raise InvalidArgument(f"{flag}={total}, but the hosts say {sum(counts)}: {where}")
    if not sum(counts):
        raise InvalidArgument(f"the hosts say {role}s: 0: a job needs at least one server and one worker")
    begins = [sum(counts[:i]) for i in range(len(counts))]
    return [list(range(begin, begin + count)) for begin, count in zip(begins, counts, strict=True)]
