"""The life of a process: who it is, what it serves or trains, and how it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch

from flota import _core, config, report, saving, workers
from flota.checkpoint.places import place_of
from flota.checkpoint.restore import restore_server
from flota.client import Client
from flota.communicator.async_ import AsyncCommunicator
from flota.communicator.geo import GeoCommunicator
from flota.communicator.local import LocalCommunicator
from flota.communicator.loss import watch_losses
from flota.communicator.membership import Membership, mode_of
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import RemoteTables, refuse_what_does_not_act
from flota.communicator.returning import Restart, last_saved
from flota.communicator.staleness import Staleness, staleness_of
from flota.communicator.sync import SyncCommunicator
from flota.data.loaders import watch_loaders
from flota.data.reading import close_passes
from flota.durable import keep_server
from flota.errors import FlotaError, InvalidArgument, ServerUnavailable
from flota.fleet.outlets import Outlets
from flota.fleet.persistence import Persistence
from flota.fleet.serving import serve
from flota.fleet.team import Team
from flota.fleet.telling import Teller
from flota.health import HealthPort, open_health_port
from flota.log import say, speak_as, take_server_lines
from flota.prometheus.page import open_metrics_port
from flota.prometheus.server import server_counts
from flota.roles import Placement, RoleMaker, default_role_maker
from flota.standing import worker as standing
from flota.strategy import Async, DistributedStrategy, Geo, Mode, Sync, as_strategy
from flota.tls import protect_server

_STOP = "flota/stop"  # where workers say goodbye
_FIRST_INCARNATION = 1_767_225_600  # seconds: the beginning of 2026

Reduction = Literal["sum", "min", "max"]
_REDUCTIONS: dict[str, Callable[..., Any]] = {"sum": np.sum, "min": np.min, "max": np.max}


class Fleet(Persistence):
    """One process of a job. Scripts use the functions of ``flota`` that go by the same names."""

    def __init__(self) -> None:
        super().__init__()
        self._server: _core.Server | None = None
        self._ports: list[HealthPort] = []  # of a server
        self._outlets = Outlets()
        self._teller: Teller | None = None

    def init(
        self,
        role_maker: RoleMaker | None = None,
        is_collective: bool = False,
        strategy: DistributedStrategy | Mode | None = None,
    ) -> None:
        """Finds out this process's place. Call it before everything else."""
        if is_collective:
            raise InvalidArgument(
                "is_collective=True: flota trains with parameter servers; use torch DDP for collectives"
            )
        self._placement = (default_role_maker() if role_maker is None else role_maker).placement()
        speak_as("worker" if self.is_worker() else "server", self._placement.index)
        if self.is_worker():
            workers.meet(Team(self))
        self._strategy = None if strategy is None else as_strategy(strategy)

    def distributed_optimizer(
        self, optimizer: torch.optim.Optimizer, strategy: DistributedStrategy | Mode | None = None
    ) -> DistributedOptimizer:
        """The optimizer for this job: it behaves as ``optimizer``, and its steps go to the servers."""
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise InvalidArgument(f"distributed_optimizer needs a torch optimizer, not {optimizer!r}")
        if strategy is not None or self._strategy is None:
            self._strategy = as_strategy(strategy)
        self._optimizer = DistributedOptimizer(optimizer)
        return self._optimizer

    # --- servers ---

    def init_server(self, dirname: str | os.PathLike[str] | None = None, tables: Sequence[str] | None = None) -> None:
        """Loads this server's share of a checkpoint, if one is named, and begins to listen. Workers may come then.

        A server that finds in its durable folder what it held when it died goes on from there instead. It listens at
        the address of its endpoint's name, or at ``FLOTA_LISTEN``; ``FLOTA_HEALTH_PORT`` tells there how it is, and
        ``FLOTA_METRICS_PORT`` (at ``FLOTA_METRICS_HOST``) tells Prometheus what it counts.
        ``tables``: only the weights of these tables of it; the job begins with them, and counts its steps from 0.
        """
        if tables is not None and dirname is None:
            raise InvalidArgument("init_server: tables= are those of a checkpoint: give its dirname")
        if not self.is_server():
            raise InvalidArgument("this process is a worker: call init_server() under `if flota.is_server():`")
        options = _core.ServerOptions()
        host, _, port = self.placement.server_endpoints[self.placement.index].rpartition(":")
        if listen := config.listen_host():
            host = f"[{listen}]" if ":" in listen else listen
        options.endpoint = f"{host}:{port}"
        options.secret = config.job_secret()
        options.index = self.placement.index
        options.count = self.placement.server_num
        protect_server(options)
        keep_server(options)
        take_server_lines(options)
        # Before what may take long: recovering, and loading a checkpoint.
        health = open_health_port(host, None)
        self._ports = [health] if health is not None else []
        try:
            server = _core.Server.make(options)
            # One that was started again has what became of the checkpoint since.
            if dirname is not None and not server.recovered:
                restore_server(server, dirname, tables)
            metrics = open_metrics_port("server", options.index, server_counts(server))
            self._ports += [metrics] if metrics is not None else []
            server.listen()
        except BaseException:
            self._close_ports()
            raise
        if health is not None:
            health.ready = True
        self._server = server

    def run_server(self) -> None:
        """Serves until the workers have stopped, or until SIGINT or SIGTERM. When all workers have gone without a
        goodbye and none comes back for ten times ``FLOTA_TIMEOUT``, the process ends with status 69."""
        if self._server is None:
            raise InvalidArgument("call flota.init_server() before run_server()")
        server, self._server = self._server, None
        try:
            serve(server, f"server {self.placement.index}")
        finally:
            self._close_ports()

    def _close_ports(self) -> None:
        for port in self._ports:
            port.close()
        self._ports = []

    # --- workers ---

    def init_worker(self, timeout: float | None = None) -> None:
        """Connects to the servers and makes the tables; returns when training may begin.

        ``timeout``: seconds that a server may stay away before it is named in a ``ServerUnavailable``, and that every
        later wait for a server or for the other workers may take; unless given, ``FLOTA_TIMEOUT`` says it, or 30.
        """
        optimizer, strategy = self._optimizer, self._strategy
        if optimizer is None or strategy is None:
            raise InvalidArgument("call flota.distributed_optimizer() before init_worker(): it says what to train")
        if not self.is_worker():
            raise InvalidArgument("this process is a server: call init_worker() under `if flota.is_worker():`")
        if config.report_address() is not None:
            report.watch_failures()
        if config.report_address() is not None or config.observed() or self._outlets.asked_for():
            watch_losses()
            watch_loaders()
        self._outlets.open(self.placement.index)
        optimizer.worker = self.placement.index
        for table, _ in optimizer.tables():
            table.job_over = False
        if self.placement.local:
            optimizer.communicator = LocalCommunicator(optimizer, any_optimizer=isinstance(strategy.mode, Geo))
            return
        if self._client is not None:
            raise InvalidArgument(
                "this worker is connected already: call flota.stop_worker() before another init_worker()"
            )
        refuse_what_does_not_act(strategy)
        # A worker that is started again counts its pushes anew: a later time is a later epoch.
        epoch = int((time.time() - _FIRST_INCARNATION) * 8)
        client = Client(
            self.server_endpoints(), worker=self.placement.index + 1, epoch=epoch, timeout=timeout,
            endpoints_file=config.endpoints_file(),
        )  # fmt: skip
        client.workers = self.placement.worker_endpoints
        try:
            self._connect(client, optimizer, strategy)
        except BaseException:
            client.close()
            self._member = None
            raise
        self._client = client
        if self.is_first_worker() and isinstance(strategy.mode, Async):
            self._outlets.show_staleness(client)
        self._tell(client, optimizer, strategy.mode)

    def _tell(self, client: Client, optimizer: DistributedOptimizer, mode: Mode) -> None:
        """From here on people who look on see this worker."""
        if not config.observed():
            return
        communicator, in_flight = optimizer.communicator, None
        if isinstance(communicator, AsyncCommunicator):
            applied = communicator.applied
            in_flight = lambda: optimizer.steps - applied(optimizer.steps)  # noqa: E731 (it is told, not called here)
        standing.begin(mode.name, in_flight)
        self._teller = Teller(client, self.placement.index)

    def _connect(self, client: Client, optimizer: DistributedOptimizer, strategy: DistributedStrategy) -> None:
        if self.is_first_worker():
            say("configuration", _configuration(self.placement, strategy, optimizer, client.timeout))
        self._member = self._join(client, strategy.mode)
        job = self._job_of(client)
        rejoined = job.rejoin()
        if job.late:
            self._come_in(client, rejoined)
        found = saving.restored(client)
        if found is not None:
            saving.check_tables(optimizer, found.tables, "the servers' checkpoint", tell=self.is_first_worker())
        tables = RemoteTables(job, optimizer, strategy)
        match strategy.mode:
            case Async() as mode:
                optimizer.communicator = AsyncCommunicator(tables, mode, optimizer, rejoined)
            case Geo() as mode:
                optimizer.communicator = GeoCommunicator(tables, mode, optimizer, rejoined)
            case Sync():
                optimizer.communicator = SyncCommunicator(tables, optimizer, rejoined)
        saving.resume_restored(optimizer, found)
        if rejoined.starts > 1:
            # What none was told of are those that the servers' checkpoint has.
            steps = (rejoined.last.count if isinstance(strategy.mode, Sync) else rejoined.steps) or optimizer.steps
            saved = last_saved(rejoined)
            self._last_saved = None if saved is None else place_of(saved)
            self._restart = Restart(rejoined.starts - 1, steps, optimizer.communicator.skip)
            say(
                "restarted",
                f"worker {job.rank} was started again (restart {rejoined.starts - 1}); the tables have {steps} of its "
                "steps",
                steps=steps,
                restart=rejoined.starts - 1,
            )

    def _join(self, client: Client, mode: Mode) -> Membership | None:
        place = self.placement
        if isinstance(mode, Async):
            member = Membership(client, place.index, place.worker_num)
            member.when_asked(self._go)
            if member.late:
                report.coming()
            return member
        # Told to whoever would change the number: it is fixed.
        client.native.team(_core.TeamPart.join, client.time(None), place.index, place.worker_num, mode_of(mode))
        return None

    def _come_in(self, client: Client, rejoined: _core.Rejoined) -> None:
        """This worker has joined a job that runs."""
        index = self.placement.index
        if _STOP in rejoined.passed:
            say("too_late", f"worker {index} has joined when all others had stopped: it ends")
            report.finished()
            client.close()
            raise SystemExit(0)
        if rejoined.starts == 1:
            count = self.worker_num()
            say("joined", f"worker {index} has joined: the job has {count} workers now", workers=count)

    def _go(self) -> None:
        """This worker was asked to leave: its script ends here, as by ``sys.exit()``."""
        self._say_goodbye()
        raise SystemExit(0)

    def _say_goodbye(self) -> None:
        assert self._member is not None
        close_passes()
        if self.communicator is not None:
            self.communicator.settle()
        self._member.leave()
        report.left()
        steps = 0 if self._optimizer is None else self._optimizer.steps
        say("left", f"worker {self.placement.index} was asked to leave, after {steps} steps", steps=steps)
        self._end()

    def _end(self, phase: str = "finished") -> None:
        if self._teller is not None:
            self._teller.close(phase)
            self._teller = None
        self._outlets.flush()
        if self._client is not None:
            self._client.close()
        self._client = self._member = None

    def restarted(self) -> Restart | None:
        """After ``init_worker``: how often this worker was started again, and how many of its steps the tables have.
        None: it was not. See docs/recovery.md for what a script that is started again does."""
        return self._restart

    def stop_worker(self) -> None:
        """Ends this worker's part. The servers stop when all workers have. Where they are gone already, that is a
        ``ServerUnavailable``, and this worker's part has ended all the same: the process may begin another job."""
        close_passes()  # what this worker has not trained others may be waiting for
        try:
            self._part_from_others()
        except ServerUnavailable:
            self._end()
            self._job_is_over()
            raise
        self._job_is_over()

    def _job_is_over(self) -> None:
        """This process may begin another."""
        self._outlets.close()
        for table, _ in [] if self._optimizer is None else self._optimizer.tables():
            table.job_over = True
        workers.meet(workers.Alone())

    def _part_from_others(self) -> None:
        if self._client is not None and self._member is not None and self._member.look():
            self._say_goodbye()
        if self._client is None:
            return
        self._pause()
        if self._returning():
            raise FlotaError(
                f"worker {self.placement.index} was started again, and its script came to its end before it was "
                "where it had been: it must do the same in the same order as before"
            )
        # Before the barrier: once the last worker is through it, servers end.
        report.finished()
        self._job_of(self._client).barrier(_STOP)
        if self.is_first_worker():
            self._client.shutdown()
        self._end()

    def barrier_worker(self) -> None:
        """Waits until all workers are here."""
        if not self.placement.local:
            self._meet("flota/workers", b"")

    def all_reduce(self, value: float | Sequence[float] | torch.Tensor, mode: Reduction = "sum") -> np.ndarray:
        """All workers' values, element by element summed (or the least or greatest), the same on every worker."""
        if mode not in _REDUCTIONS:
            raise InvalidArgument(f"mode must be one of {', '.join(_REDUCTIONS)}, not {mode!r}")
        array = np.asarray(value.detach().cpu() if isinstance(value, torch.Tensor) else value)
        kind = np.int64 if array.dtype.kind in "iub" else np.float64
        array = np.array(array, dtype=kind, order="C")
        parts = self.gather("all_reduce", array.tobytes())
        if {len(part) for part in parts} != {array.nbytes}:
            raise InvalidArgument("all_reduce: the workers' values have different shapes")
        # In the order of the workers, so that all of them see the same bits.
        stacked = np.stack([np.frombuffer(part, dtype=kind).reshape(array.shape) for part in parts])
        reduced: np.ndarray = np.asarray(_REDUCTIONS[mode](stacked, axis=0))
        return reduced

    def staleness(self) -> Staleness:
        """How stale gradients were so far when the servers applied them: of all workers, on all servers. Where the
        tables are in this process, nothing is ever stale."""
        if self.placement.local:
            return Staleness()
        return staleness_of(self.connected().statistics())


def _configuration(
    place: Placement, strategy: DistributedStrategy, optimizer: DistributedOptimizer, timeout: float
) -> str:
    """What is in effect, in two lines."""
    settings = " ".join(f"{name}={value}" for name, value in strategy.describe())
    return (
        f"{place.worker_num} workers, servers {','.join(place.server_endpoints)}, "
        f"{type(optimizer.wrapped).__name__}, timeout {timeout:g} s\n{settings}"
    )
