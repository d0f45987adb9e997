"""A place under ``srun``: each task is a server or a worker, by a rule that all tasks apply for themselves.

    srun --nodes=3 --ntasks-per-node=3 python train.py     # a server and two workers on each node

- One allocation: servers are the first tasks of the nodes in turn, ``FLOTA_SERVER_NUM`` of them, or one of each node
  where it is not set; all others are workers. Both are counted in the order of the nodes.
- A heterogeneous step (``srun --het-group=0,1``): the tasks of component 0 are servers, those of all others workers.

Ports follow from the job's and the step's numbers, so that two steps that share a node do not meet; ``srun
--resv-ports`` has Slurm choose them, and ``FLOTA_PORT`` says the first one.
"""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass

from flota import config
from flota.errors import InvalidArgument, SystemFailure
from flota.roles.environment import PaddleCloudRoleMaker, in_a_job
from flota.roles.nodelist import expand_counts, expand_nodes
from flota.roles.placement import Placement, Role, RoleMaker

SERVER_NUM = "FLOTA_SERVER_NUM"
PORT = "FLOTA_PORT"

_TASKS = "SLURM_STEP_NUM_TASKS"
_NODES = "SLURM_STEP_NODELIST"
_PER_NODE = "SLURM_STEP_TASKS_PER_NODE"
_COMPONENTS = "SLURM_HET_SIZE"
_NODES_OF = "SLURM_JOB_NODELIST_HET_GROUP_"
_RESERVED = "SLURM_STEP_RESV_PORTS"

# Below the range from which the kernel takes the ports of outgoing connections. A step has a block of them; numbers of
# jobs that follow each other give blocks that do not touch, and come round after as many jobs as there are blocks.
_FIRST, _BLOCK, _BLOCKS = 10_000, 16, 1423
_STEPS = 8  # of a job at a time that certainly have different blocks


def tasks_of_slurm() -> int:
    """How many the step has of which this process is one; 0 where it is none: a batch script is no task."""
    return int(os.environ.get(_TASKS, "0") or 0) if "SLURM_PROCID" in os.environ else 0


@dataclass(frozen=True)
class Step:
    """The tasks of a step: how many each of its nodes has, and how many of those are servers."""

    nodes: list[str]
    tasks: list[int]
    servers: list[int]
    in_turn: bool  # servers are counted over the nodes in turn, not node by node

    @property
    def server_num(self) -> int:
        return sum(self.servers)

    @property
    def worker_num(self) -> int:
        return sum(self.tasks) - self.server_num

    def server(self, node: int, local: int) -> int:
        """The number of the server that this task of the node is."""
        return local * len(self.nodes) + node if self.in_turn else sum(self.servers[:node]) + local

    def worker(self, node: int, local: int) -> int:
        return sum(self.tasks[:node]) - sum(self.servers[:node]) + local - self.servers[node]

    def places(self) -> list[tuple[int, int]]:
        """Node and task of each server, in the order of the servers."""
        all_places = [(node, local) for node, count in enumerate(self.servers) for local in range(count)]
        return sorted(all_places, key=lambda place: self.server(*place))


class SlurmRoleMaker(RoleMaker):
    """A task of a Slurm step. Under ``flota launch`` a process is what that says."""

    def placement(self) -> Placement:
        if in_a_job():
            return PaddleCloudRoleMaker().placement()
        if not tasks_of_slurm():
            raise InvalidArgument(f"SlurmRoleMaker needs a step of Slurm ({_TASKS} is not set): start it with srun")
        step = _step()
        node, local = _number("SLURM_NODEID"), _number("SLURM_LOCALID")
        ports = _ports(max(step.servers))
        servers = tuple(f"{step.nodes[n]}:{ports[task]}" for n, task in step.places())
        if not config.has_secret():
            raise InvalidArgument(
                f"the tasks of a job need a secret that all of them know: export {config.SECRET} before srun, which "
                f"passes it on (docs/clusters/slurm.md); for TLS, {config.CERTS_TEXT} or {config.CERTS} as well"
            )
        os.environ.setdefault(config.RESTARTS, os.environ.get("SLURM_RESTART_COUNT") or "0")
        if local >= step.servers[node]:
            return Placement(Role.WORKER, step.worker(node, local), step.worker_num, servers)
        _check_free(step.nodes[node], ports[local])
        return Placement(Role.SERVER, step.server(node, local), step.worker_num, servers)


def _step() -> Step:
    nodes = expand_nodes(_NODES, _needed(_NODES))
    tasks = expand_counts(_PER_NODE, _needed(_PER_NODE))
    if len(nodes) != len(tasks) or sum(tasks) != _number(_TASKS):
        raise InvalidArgument(
            f"{_NODES}={','.join(nodes)}, {_PER_NODE}={_needed(_PER_NODE)} and {_TASKS}={_needed(_TASKS)} contradict "
            "each other; start the script with srun itself"
        )
    components = int(os.environ.get(_COMPONENTS) or 1)
    step = _heterogeneous(tasks, components) if components > 1 else None
    step = step or _split(nodes, tasks)
    if step.worker_num < 1 or step.server_num < 1:
        raise InvalidArgument(
            f"{sum(tasks)} tasks on {len(nodes)} nodes are {step.server_num} servers and {step.worker_num} workers, "
            f"and a job needs one of each: give srun more tasks (--ntasks-per-node=2), or set {SERVER_NUM}"
        )
    return step


def _heterogeneous(tasks: list[int], components: int) -> Step | None:
    """None where the step is within one component of the job: then it is an allocation like any other."""
    of_each = [expand_nodes(f"{_NODES_OF}{i}", _needed(f"{_NODES_OF}{i}")) for i in range(components)]
    nodes = [node for component in of_each for node in component]
    if len(nodes) != len(tasks):
        if len(tasks) in map(len, of_each):
            return None
        raise InvalidArgument(
            f"this step has {len(tasks)} nodes and the job's {components} components {len(nodes)}: start one on all of "
            f"them, srun --het-group=0-{components - 1}"
        )
    if os.environ.get(SERVER_NUM):
        raise InvalidArgument(f"{SERVER_NUM} has no effect here: the servers are the tasks of component 0")
    servers = [count if node < len(of_each[0]) else 0 for node, count in enumerate(tasks)]
    return Step(nodes, tasks, servers, in_turn=False)


def _split(nodes: list[str], tasks: list[int]) -> Step:
    wanted = _number(SERVER_NUM) if os.environ.get(SERVER_NUM) else len(nodes)
    servers = [len(range(node, wanted, len(nodes))) for node in range(len(nodes))]
    for node, (server_num, task_num) in enumerate(zip(servers, tasks, strict=True)):
        if server_num > task_num:
            raise InvalidArgument(
                f"{SERVER_NUM}={wanted} puts {server_num} servers on {nodes[node]}, which has {task_num} tasks"
            )
    return Step(nodes, tasks, servers, in_turn=True)


def _ports(count: int) -> list[int]:
    """The ports of a node's servers."""
    reserved = os.environ.get(_RESERVED)
    if reserved and os.environ.get(PORT):
        raise InvalidArgument(f"{PORT} contradicts srun --resv-ports: give one of them")
    if reserved:
        ports = [int(port) for port in expand_nodes(_RESERVED, f"[{reserved.strip('[]')}]")]
        if len(ports) < count:
            raise InvalidArgument(
                f"{_RESERVED}={reserved} are {len(ports)} ports for {count}: srun --resv-ports={count}"
            )
        return ports[:count]
    first = _number(PORT) if os.environ.get(PORT) else _first_port()
    if not 1 <= first <= 65536 - count:
        raise InvalidArgument(f"{PORT}={first}: {count} ports from there are not all between 1 and 65535")
    return list(range(first, first + count))


def _first_port() -> int:
    return _FIRST + (_number("SLURM_JOB_ID") * _STEPS + _number("SLURM_STEP_ID")) % _BLOCKS * _BLOCK


def _check_free(host: str, port: int) -> None:
    """Says what to do about a port that another program has; what else is wrong with it, listening there says."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise SystemFailure(
                    f"port {port} of {host} is in use: export {PORT}=… with another first port before srun, or have "
                    "Slurm choose with srun --resv-ports"
                ) from error


def _needed(name: str) -> str:
    text = os.environ.get(name, "").strip()
    if not text:
        raise InvalidArgument(f"{name} is not set: start the script with srun")
    return text


def _number(name: str) -> int:
    text = _needed(name)
    if not (text.isascii() and text.isdigit()):
        raise InvalidArgument(f"{name}={text} is not a number")
    return int(text)
