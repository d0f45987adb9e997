"""A job as a queueing network, simulated event by event: workers, servers, their cores and their network cards.

Each worker goes through its steps; what a step needs of cores and cards it waits for when others use them. How long a
step's computing takes is drawn from what was measured, since in sync mode the slowest worker counts; all else is alike:
batches, keys spread evenly over the servers, and nobody fails. With hosts of their own for all, one server is simulated
for all of them, which then are equally busy.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

_QUANTUM = 1e-3  # seconds that a task has a core while others wait for it
_QUEUE = 16  # steps whose pushes may be under way in async mode: send_queue_size

Process = Generator[Any, Any, None]


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a call: so many for the call, and so many for each row (or number) in it."""

    call: float
    row: float

    def of(self, rows: float) -> float:
        return self.call + rows * self.row


@dataclass(frozen=True)
class Costs:
    """What calibration has measured. ``finish``: of what a step's end costs a server beside holding its gradients."""

    compute: tuple[float, ...]  # seconds of a worker's step with its tables in the process: percentiles, in their order
    pull_worker: Cost
    pull_server: Cost
    push_worker: Cost
    push_server: Cost
    hold_worker: Cost
    hold_server: Cost
    dense_worker: Cost  # out and back
    dense_server: Cost
    # CPU seconds of a worker's step with servers, beside its computing and its calls: Python, copies, waking up.
    async_overhead: float = 0.0
    sync_overhead: float = 0.0


@dataclass(frozen=True)
class Job:
    workers: int
    servers: int
    mode: str  # "sync", "async", "geo"
    rows: float  # distinct keys a batch
    dense: float  # numbers in dense parameters
    row_bytes: float  # on the wire, of a row's values
    rows_of_k: float = 0.0  # distinct keys of k_steps batches (geo)
    k_steps: int = 100
    prefetch: bool = False
    round_trip: float = 0.0
    bandwidth: float = float("inf")  # bytes a second, each way, of every host
    worker_cores: int = 1
    server_cores: int = 1
    shared_cores: int = 0  # all processes have these together, and no network


@dataclass
class Cores:
    count: int
    busy: int = 0
    used: float = 0.0
    waiting: deque[tuple[Process, float]] = field(default_factory=deque)


class Barrier:
    def __init__(self, parties: int) -> None:
        self.parties = parties
        self.waiting: list[Process] = []


class _Task:
    def __init__(self) -> None:
        self.done = False
        self.waiter: Process | None = None


class Simulation:
    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def spawn(self, process: Process) -> _Task:
        task = _Task()

        def whole() -> Process:
            yield from process
            task.done = True
            if task.waiter is not None:
                self._at(0, task.waiter)

        self._at(0, whole())
        return task

    def run(self, until: Callable[[], bool]) -> None:
        while self._events and not until():
            self.now, _, event = heapq.heappop(self._events)
            event()

    def _at(self, later: float, process: Process) -> None:
        self._call(later, lambda: self._go_on(process))

    def _call(self, later: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + later, next(self._numbers), event))

    def _go_on(self, process: Process) -> None:
        what = next(process, None)
        match what:
            case None:
                return
            case float():
                self._at(what, process)
            case (Cores() as cores, seconds):
                self._use(cores, process, seconds)
            case Barrier() as barrier:
                barrier.waiting.append(process)
                if len(barrier.waiting) == barrier.parties:
                    for each in barrier.waiting:
                        self._at(0, each)
                    barrier.waiting = []
            case _Task() as task:
                if task.done:
                    self._at(0, process)
                else:
                    task.waiter = process

    def _use(self, cores: Cores, process: Process, seconds: float) -> None:
        if cores.busy == cores.count:
            cores.waiting.append((process, seconds))
            return
        cores.busy += 1
        portion = min(seconds, _QUANTUM)
        cores.used += portion
        self._call(portion, lambda: self._give_back(cores, process, seconds - portion))

    def _give_back(self, cores: Cores, process: Process, left: float) -> None:
        cores.busy -= 1
        if left > 0:
            cores.waiting.append((process, left))
        if cores.waiting:
            self._use(cores, *cores.waiting.popleft())
        if left <= 0:
            self._at(0, process)


def _use(cores: Cores, seconds: float) -> Process:
    yield cores, seconds


def _wait(task: _Task) -> Process:
    yield task


@dataclass(frozen=True)
class Outcome:
    steps: float  # a second, of all workers together
    busy: dict[str, float]  # how much of each resource is in use


class _Model:
    def __init__(self, job: Job, costs: Costs) -> None:
        self.job, self.costs = job, costs
        self.simulation = Simulation()
        if job.shared_cores:
            shared = Cores(job.shared_cores)
            self.worker_cores = [shared] * job.workers
            self.server_cores = [shared] * job.servers
        else:
            self.worker_cores = [Cores(job.worker_cores) for _ in range(job.workers)]
            self.server_cores = [Cores(job.server_cores)]
        self.worker_cards = [(Cores(1), Cores(1)) for _ in range(job.workers)]
        self.server_card = (Cores(1), Cores(1))  # in, out
        self.barrier = Barrier(job.workers)
        self.steps = 0
        self.random = random.Random(0)

    def call(self, worker: int, costs: tuple[Cost, Cost], rows: float, up: float, down: float) -> Process:
        """A call to all servers: so many bytes there, so many back."""
        servers = self.job.servers
        mine, theirs = costs
        yield self.worker_cores[worker], servers * mine.call + rows * mine.row
        yield from self._carry(up, self.worker_cards[worker][0], self.server_card[0])
        work = [self.simulation.spawn(_use(cores, theirs.of(rows / servers))) for cores in self.server_cores]
        yield from work
        yield from self._carry(down, self.worker_cards[worker][1], self.server_card[1])

    def _carry(self, size: float, workers: Cores, servers: Cores) -> Process:
        """Half a round trip, and the time on both cards, which carry at once; a server has its share of the bytes."""
        job = self.job
        if job.shared_cores:
            return
        both = [
            self.simulation.spawn(_use(workers, size / job.bandwidth)),
            self.simulation.spawn(_use(servers, size / job.servers / job.bandwidth)),
        ]
        yield from both
        yield job.round_trip / 2

    def pull(self, worker: int) -> Process:
        job, costs = self.job, self.costs
        up, down = 8 * job.rows, job.row_bytes * job.rows
        yield from self.call(worker, (costs.pull_worker, costs.pull_server), job.rows, up, down)

    def push(self, worker: int, rows: float) -> Process:
        job, costs = self.job, self.costs
        held = (costs.hold_worker, costs.hold_server) if job.mode == "sync" else (costs.push_worker, costs.push_server)
        yield from self.call(worker, held, rows, (8 + job.row_bytes) * rows, 64)

    def dense(self, worker: int) -> Process:
        job, costs = self.job, self.costs
        size = 4 * job.dense
        yield from self.call(worker, (costs.dense_worker, costs.dense_server), job.dense, size, size)

    def worker(self, worker: int) -> Process:
        job, simulation = self.job, self.simulation
        pushes: deque[_Task] = deque()
        ahead: _Task | None = None
        overhead = {"async": self.costs.async_overhead, "sync": self.costs.sync_overhead}.get(job.mode, 0.0)
        for step in itertools.count(1):
            if job.mode != "geo":
                yield from self.pull(worker) if ahead is None else _wait(ahead)
                ahead = simulation.spawn(self.pull(worker)) if job.prefetch else None
            yield self.worker_cores[worker], self.random.choice(self.costs.compute) + overhead
            if job.mode == "sync":
                yield from self.sync_end(worker)
            elif job.mode == "async":
                yield from self.dense(worker)
                pushes.append(simulation.spawn(self.push(worker, job.rows)))
                if len(pushes) > _QUEUE:
                    yield pushes.popleft()
            elif step % job.k_steps == 0:
                yield from self.dense(worker)
                yield from self.push(worker, job.rows_of_k)
                yield from self.others(worker)
            self.steps += 1

    def sync_end(self, worker: int) -> Process:
        """Dense gradients, rows' gradients, the end of the step, and the parameters: a call each."""
        yield self._round_trip()
        yield from self.push(worker, self.job.rows)
        yield self.barrier
        yield self._round_trip()
        yield from self.dense(worker)

    def others(self, worker: int) -> Process:
        """Geo: the rows that others have changed, as far as this worker has them, too."""
        job, costs = self.job, self.costs
        if job.workers > 1:
            size = (8 + job.row_bytes) * job.rows_of_k
            yield from self.call(worker, (costs.pull_worker, costs.pull_server), job.rows_of_k, size, size)

    def _round_trip(self) -> float:
        return 0.0 if self.job.shared_cores else self.job.round_trip

    def busy(self) -> dict[str, float]:
        def share(parts: Sequence[Cores]) -> float:
            return max(part.used / part.count for part in parts) / self.simulation.now

        if self.job.shared_cores:
            return {"cores": share(self.worker_cores[:1])}
        return {
            "worker CPU": share(self.worker_cores[:1]),
            "server CPU": share(self.server_cores),
            "worker network": share(self.worker_cards[0]),
            "server network": share(self.server_card),
        }


def simulate(job: Job, costs: Costs, steps: int = 60) -> Outcome:
    """``steps``: of each worker; the first quarter is not counted."""
    model = _Model(job, costs)
    for worker in range(job.workers):
        model.simulation.spawn(model.worker(worker))
    most = max(steps, 2 * job.k_steps if job.mode == "geo" else 0) * job.workers
    first = most // 4
    model.simulation.run(lambda: model.steps >= first)
    began = model.simulation.now
    model.simulation.run(lambda: model.steps >= most)
    return Outcome((most - first) / (model.simulation.now - began), model.busy())
