"""This process's part in its job: which place it has, what it trains with, and who else is there."""

from __future__ import annotations

from typing import Any

from flota.client import Client
from flota.communicator.membership import Membership
from flota.communicator.optimizer import Communicator, DistributedOptimizer
from flota.communicator.remote import Job
from flota.communicator.returning import Restart
from flota.errors import InvalidArgument
from flota.roles import Placement, Role
from flota.strategy import DistributedStrategy, Mode
from flota.timeline import span


class Part:
    """What a process is and has; ``flota.init`` and ``flota.init_worker`` fill it."""

    def __init__(self) -> None:
        self._placement: Placement | None = None
        self._strategy: DistributedStrategy | None = None
        self._optimizer: DistributedOptimizer | None = None
        self._client: Client | None = None
        self._restart: Restart | None = None
        self._member: Membership | None = None

    @property
    def placement(self) -> Placement:
        if self._placement is None:
            raise InvalidArgument("call flota.init() first")
        return self._placement

    def is_worker(self) -> bool:
        """Whether this process trains. True also where there is no job, and it holds the tables itself."""
        return self.placement.role == Role.WORKER

    def is_server(self) -> bool:
        """Whether this process is a server: it calls ``init_server`` and ``run_server``, and trains nothing."""
        return self.placement.role == Role.SERVER

    def is_first_worker(self) -> bool:
        """Whether this is worker 0, which prints and saves for all."""
        return self.is_worker() and self.placement.index == 0

    def worker_index(self) -> int:
        """This worker's place among the workers, from 0; -1 on a server."""
        return self.placement.index if self.is_worker() else -1

    def server_index(self) -> int:
        """This server's place among the servers, from 0; -1 on a worker."""
        return self.placement.index if self.is_server() else -1

    def worker_num(self) -> int:
        """How many workers the job has. In async mode they may come and go: then the number changes in calls of this
        worker to flota, and whoever comes out of a barrier or another gathering has the same."""
        return self.placement.worker_num if self._member is None else self._member.workers

    @property
    def member(self) -> Membership | None:
        """Of a job whose workers come and go."""
        return self._member

    def server_num(self) -> int:
        """How many servers the job has; 0 where there is no job."""
        return self.placement.server_num

    def worker_endpoints(self) -> list[str]:
        """host:port of every worker, in their order; empty where the environment names none."""
        return list(self.placement.worker_endpoints)

    def server_endpoints(self) -> list[str]:
        """host:port of every server, in their order."""
        return list(self.placement.server_endpoints)

    @property
    def optimizer(self) -> DistributedOptimizer | None:
        """What ``distributed_optimizer`` made."""
        return self._optimizer

    @property
    def communicator(self) -> Communicator | None:
        """What brings its steps to the tables; ``init_worker`` makes it."""
        return None if self._optimizer is None else self._optimizer.communicator

    @property
    def mode(self) -> Mode | None:
        return None if self._strategy is None else self._strategy.mode

    def gather(self, name: str, payload: bytes) -> list[bytes]:
        """Every worker's bytes, in the order of the workers, on every worker. ``name`` tells apart what is gathered:
        all must ask for the same."""
        return list(self.gather_by_rank(name, payload).values())

    def gather_by_rank(self, name: str, payload: bytes) -> dict[int, bytes]:
        """The same by the workers' indices, which need not be all below the highest where workers come and go."""
        if self.placement.local:
            return {0: payload}
        return self._meet(f"flota/{name}", payload)

    def _meet(self, name: str, payload: bytes) -> dict[int, bytes]:
        client, place, member = self.connected(), self.placement, self._member
        if member is None:
            self._pause()
            with span("wait"):
                parts = dict(enumerate(client.gather(name, payload, rank=place.index, world=place.worker_num)))
            self._resume()
            return parts
        member.go_if_asked()
        self._pause()
        held_before = client.passed(name)
        # A byte before it: nothing at all is of an index that nobody has.
        with span("wait"):
            brought = client.gather(name, b"+" + payload, rank=place.index, world=0)
        if not held_before:
            member.gathered(len(brought))
        self._resume()
        return {index: part[1:] for index, part in enumerate(brought) if part}

    def settle(self) -> None:
        """All that this worker has learnt is in the tables."""
        communicator = self._training().communicator
        assert communicator is not None
        communicator.settle()

    def _training(self) -> DistributedOptimizer:
        if self._optimizer is None or self._optimizer.communicator is None:
            raise InvalidArgument("call flota.init_worker() first: it makes the tables that are saved and loaded")
        return self._optimizer

    def _job(self) -> Job | None:
        if self.placement.local:
            return None
        return self._job_of(self.connected())

    def _job_of(self, client: Client) -> Job:
        world = self.placement.worker_num if self._member is None else 0
        return Job(client, self.placement.index, world, self._member)

    def _source(self) -> dict[str, Any]:
        mode = self._strategy.mode.name if self._strategy is not None else ""
        place = self.placement
        return {"mode": "local" if place.local else mode, "servers": place.server_num, "workers": self.worker_num()}

    def _returning(self) -> bool:
        return self.communicator is not None and self.communicator.returning

    def _pause(self) -> None:
        if self.communicator is not None:
            self.communicator.pause()

    def _resume(self) -> None:
        if self.communicator is not None:
            self.communicator.resume()

    def connected(self) -> Client:
        """Its connection to the servers."""
        if self._client is None:
            raise InvalidArgument("call flota.init_worker() first")
        return self._client
