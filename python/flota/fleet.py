"""The life of a process: who it is, what it serves or trains, and how it ends.

    flota.init()
    optimizer = flota.distributed_optimizer(torch.optim.Adam(model.parameters()), strategy)
    if flota.is_server():
        flota.init_server()
        flota.run_server()
    else:
        flota.init_worker()
        …                      # an ordinary training loop
        flota.stop_worker()

Without an environment that says otherwise, the process is a worker that holds the tables itself.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal

import numpy as np
import torch

from flota import _core, config, inference, report, saving, shrinking, workers
from flota.arrays import Keys, Values
from flota.checkpoint.kept import keeping
from flota.checkpoint.lines import check_mode
from flota.checkpoint.places import Place, place_of
from flota.checkpoint.reader import Checkpoint
from flota.checkpoint.restore import restore_server
from flota.client import Client
from flota.communicator.async_ import AsyncCommunicator
from flota.communicator.geo import GeoCommunicator
from flota.communicator.local import LocalCommunicator
from flota.communicator.loss import watch_losses
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import Job, RemoteTables, refuse_what_does_not_act
from flota.communicator.returning import Restart
from flota.communicator.staleness import Staleness, staleness_of
from flota.communicator.sync import SyncCommunicator
from flota.data.reading import close_passes
from flota.durable import keep_server
from flota.eras import Shrinking
from flota.errors import CheckpointError, FlotaError, InvalidArgument
from flota.nn.table import TableParameter
from flota.nn.table_module import TableModule
from flota.roles import Placement, Role, RoleMaker, default_role_maker
from flota.strategy import Async, DistributedStrategy, Geo, Mode, Sync, as_strategy
from flota.tls import protect_server
from flota.vectors import load_vectors as begin_with_vectors
from flota.workers import Epoch, GoesOn, Where

_LOOK_MS = 200
_FIRST_INCARNATION = 1_767_225_600  # seconds: the beginning of 2026

Reduction = Literal["sum", "min", "max"]
_REDUCTIONS: dict[str, Callable[..., Any]] = {"sum": np.sum, "min": np.min, "max": np.max}


class Fleet:
    """One process of a job. Scripts use the functions of ``flota`` that go by the same names."""

    def __init__(self) -> None:
        self._placement: Placement | None = None
        self._strategy: DistributedStrategy | None = None
        self._optimizer: DistributedOptimizer | None = None
        self._client: Client | None = None
        self._server: _core.Server | None = None
        self._last_saved: Place | None = None  # of a line of base and deltas
        self._restart: Restart | None = None
        self._calls = 0

    # --- who am I ---

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
        if self.is_worker():
            workers.meet(_Workers(self))
        self._strategy = None if strategy is None else as_strategy(strategy)

    @property
    def placement(self) -> Placement:
        if self._placement is None:
            raise InvalidArgument("call flota.init() first")
        return self._placement

    def is_worker(self) -> bool:
        return self.placement.role == Role.WORKER

    def is_server(self) -> bool:
        return self.placement.role == Role.SERVER

    def is_first_worker(self) -> bool:
        return self.is_worker() and self.placement.index == 0

    def worker_index(self) -> int:
        return self.placement.index if self.is_worker() else -1

    def server_index(self) -> int:
        return self.placement.index if self.is_server() else -1

    def worker_num(self) -> int:
        return self.placement.worker_num

    def server_num(self) -> int:
        return self.placement.server_num

    def worker_endpoints(self) -> list[str]:
        return list(self.placement.worker_endpoints)

    def server_endpoints(self) -> list[str]:
        return list(self.placement.server_endpoints)

    # --- what to train ---

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

    @property
    def optimizer(self) -> DistributedOptimizer | None:
        """What ``distributed_optimizer`` made."""
        return self._optimizer

    @property
    def mode(self) -> Mode | None:
        return None if self._strategy is None else self._strategy.mode

    # --- servers ---

    def init_server(self, dirname: str | os.PathLike[str] | None = None, tables: Sequence[str] | None = None) -> None:
        """Loads this server's share of a checkpoint, if one is named, and begins to listen. Workers may come then.

        A server that finds in its durable folder what it held when it died goes on from there instead.
        ``tables``: only the weights of these tables of it; the job begins with them, and counts its steps from 0.
        """
        if tables is not None and dirname is None:
            raise InvalidArgument("init_server: tables= are those of a checkpoint: give its dirname")
        if not self.is_server():
            raise InvalidArgument("this process is a worker: call init_server() under `if flota.is_server():`")
        options = _core.ServerOptions()
        options.endpoint = self.placement.server_endpoints[self.placement.index]
        options.secret = config.job_secret()
        options.index = self.placement.index
        options.count = self.placement.server_num
        protect_server(options)
        keep_server(options)
        server = _core.Server.make(options)
        # One that was started again has what became of the checkpoint since.
        if dirname is not None and not server.recovered:
            restore_server(server, dirname, tables)
        server.listen()
        self._server = server

    def run_server(self) -> None:
        """Serves until the workers have stopped, or until SIGINT or SIGTERM."""
        if self._server is None:
            raise InvalidArgument("call flota.init_server() before run_server()")
        stopped = threading.Event()
        before = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while not stopped.is_set() and not self._server.wait(_LOOK_MS):
                pass
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._server.stop()
            self._server = None

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
            watch_losses()
            report.watch_failures()
        optimizer.worker = self.placement.index
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
        client = Client(self.server_endpoints(), worker=self.placement.index + 1, epoch=epoch, timeout=timeout)
        try:
            self._connect(client, optimizer, strategy)
        except BaseException:
            client.close()
            raise
        self._client = client

    def _connect(self, client: Client, optimizer: DistributedOptimizer, strategy: DistributedStrategy) -> None:
        if self.is_first_worker():
            print(_configuration(self.placement, strategy, optimizer, client.timeout), file=sys.stderr, flush=True)
        job = Job(client, self.placement.index, self.placement.worker_num)
        rejoined = job.rejoin()
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
            steps = rejoined.last.count if isinstance(strategy.mode, Sync) else rejoined.steps
            self._restart = Restart(rejoined.starts - 1, steps, optimizer.communicator.skip)
            print(
                f"flota: worker {job.rank} was started again ({rejoined.starts} times in all); the tables have {steps} "
                "of its steps",
                file=sys.stderr,
                flush=True,
            )

    def restarted(self) -> Restart | None:
        """After ``init_worker``: how often this worker was started again, and how many of its steps the tables have.
        None: it was not. See docs/recovery.md for what a script that is started again does."""
        return self._restart

    def stop_worker(self) -> None:
        """Ends this worker's part. The servers stop when all workers have."""
        close_passes()  # what this worker has not trained others may be waiting for
        if self._client is not None:
            self._pause()
            if self._returning():
                raise FlotaError(
                    f"worker {self.placement.index} was started again, and its script came to its end before it was "
                    "where it had been: it must do the same in the same order as before"
                )
            # Before the barrier: once the last worker is through it, servers end.
            report.finished()
            self._client.barrier("flota/stop", rank=self.placement.index, world=self.placement.worker_num)
            if self.is_first_worker():
                self._client.shutdown()
            self._client.close()
            self._client = None
        workers.meet(workers.Alone())

    def barrier_worker(self) -> None:
        """Waits until all workers are here."""
        if self.placement.local:
            return
        client = self._connected()
        self._pause()
        client.barrier("flota/workers", rank=self.placement.index, world=self.placement.worker_num)
        self._resume()

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

    def gather(self, name: str, payload: bytes) -> list[bytes]:
        """Every worker's bytes, in the order of the workers, on every worker. ``name`` tells apart what is gathered:
        all must ask for the same."""
        if self.placement.local:
            return [payload]
        client = self._connected()
        self._pause()
        place = self.placement
        parts = client.gather(f"flota/{name}", payload, rank=place.index, world=place.worker_num)
        self._resume()
        return parts

    def staleness(self) -> Staleness:
        """How stale gradients were so far when the servers applied them: of all workers, on all servers. Where the
        tables are in this process, nothing is ever stale."""
        if self.placement.local:
            return Staleness()
        return staleness_of(self._connected().statistics())

    # --- saving and loading ---

    def begin_rows(self, rows: Sequence[tuple[TableParameter, saving.Rows]]) -> None:
        """Gives tables rows to begin with. Every worker calls it after ``init_worker``; worker 0's are the job's."""
        saving.begin_rows(self._training(), self._job(), rows)

    def load_vectors(self, table: TableModule | str, keys: Keys | None = None, vectors: Values | None = None) -> bool:
        """Training begins with these vectors: ``vectors[i]`` is the row of ``keys[i]`` in the table of this module, or
        of this name, with the state of a row that was never updated. Other rows stay as they are.

        Every worker calls it after ``init_worker``. Worker 0's vectors are the job's; other workers may leave them out.
        Servers that began with a checkpoint keep what that has: then nothing changes, and False is returned.
        """
        return begin_with_vectors(self._training(), self._job(), table, keys, vectors)

    def settle(self) -> None:
        """All that this worker has learnt is in the tables."""
        communicator = self._training().communicator
        assert communicator is not None
        communicator.settle()

    def save_persistables(
        self,
        dirname: str | os.PathLike[str],
        *,
        mode: str = "all",
        since: str | os.PathLike[str] | None = None,
        keep: int | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Saves all tables: weights and optimizer state of rows and dense parameters, and the step. ``files``: others
        that belong to it, by name.

        ``mode``: "all"; "base", the same as the beginning of a line of deltas; "delta", the rows that have changed
        since the last base or delta, and which are gone; "inference", weights alone. A delta goes on from what this
        worker saved last, or from ``since``, the checkpoint that the servers began with; it is loaded together with
        all before it, which must stay where they are.

        Worker 0 writes; on other workers the call does nothing. What was at ``dirname``, a folder or a URL, is replaced
        at once; or with ``keep`` the new one is ``dirname/step-0000001234``, and then all but the newest so many are
        removed. In sync mode the others wait for worker 0 in their next step, for as long as their deadline
        (``FLOTA_TIMEOUT``).
        """
        optimizer = self._training()
        wanted = check_mode(mode)
        if keep is not None and wanted in ("base", "delta"):
            raise InvalidArgument(f"keep= would remove what deltas need: leave it out with mode={mode!r}")
        if since is not None and wanted != "delta":
            raise InvalidArgument(f'since= says what a delta goes on from: give it with mode="delta", not {mode!r}')
        if not self.is_first_worker():
            return
        if self._saved_before(dirname, wanted, keep):
            return
        before = self._last_saved if since is None else place_of(since)
        with nullcontext(dirname) if keep is None else keeping(dirname, keep, optimizer.steps) as place:
            saved = saving.save(optimizer, self._client, place, self._source(), files, wanted, before)
        if wanted in ("base", "delta"):
            self._last_saved = saved

    def _saved_before(self, dirname: str | os.PathLike[str], mode: str, keep: int | None) -> bool:
        """Whether this worker has saved it before it was started again. What the tables have is later now, while it is
        on its way; where it was, it may have ended in the middle of a save, which is made once more. Only a finished
        base or delta stays: what others go on from must not change."""
        optimizer, in_line = self._training(), mode in ("base", "delta")
        if not self._returning():
            if not in_line or self._restart is None or optimizer.steps != self._restart.steps:
                return False
            try:
                contents = Checkpoint(dirname).manifest
            except CheckpointError:
                return False
            if (contents.step, contents.mode) != (optimizer.steps, mode):
                return False
        if in_line:
            self._last_saved = place_of(dirname)
        print(f"flota: {dirname} was saved before this worker was started again: left as it is", file=sys.stderr)
        return True

    def load_model(self, dirname: str | os.PathLike[str], *, weights_only: bool = False) -> None:
        """Brings back what ``save_persistables`` saved, on any number of servers. Every worker calls it.

        ``weights_only``: leaves out the optimizer's state and how far the data was trained, so that another optimizer,
        or none, goes on with the weights.
        """
        optimizer = self._training()
        if not weights_only:
            close_passes()  # they are of the data before
        job = self._job()
        if job is None:
            saving.load_local(optimizer, dirname, weights_only)
            return
        self._pause()
        saving.load_remote(optimizer, job, dirname, weights_only)

    def shrink(
        self,
        max_age: int | None = None,
        *,
        min_score: float = 0.0,
        decay: float = 1.0,
        min_norm: float = 0.0,
        tables: Sequence[str] | None = None,
    ) -> int:
        """Removes rows of sparse tables (of all, unless some are named); returns how many. Every worker calls it.

        ``max_age``: rows that no step has updated since so many calls of ``shrink`` ago: with 1, since the last one.
        ``min_score``: rows whose score is lower, after all shows and clicks were multiplied by ``decay``; for tables
        with ``admission=flota.admission.ShowClick(…)``. ``min_norm``: rows whose weights have a smaller norm. A key
        whose row went begins anew when it is trained again.
        """
        optimizer = self._training()
        which = Shrinking(max_age, min_score, decay, min_norm)
        job = self._job()
        if job is None:
            return shrinking.shrink(optimizer, None, which, tables)
        self._pause()
        removed = shrinking.shrink(optimizer, job, which, tables)
        self._resume()
        return removed

    def save_inference_model(
        self, dirname: str | os.PathLike[str], model: torch.nn.Module, example_inputs: Sequence[Any]
    ) -> None:
        """Saves the model with all rows of its tables, to be served without servers. Worker 0 writes; on other workers
        the call does nothing. See ``flota.inference.save``."""
        if self.is_first_worker() and not self._returning():
            self.settle()
            inference.save(dirname, model, example_inputs, self._source())

    def _training(self) -> DistributedOptimizer:
        if self._optimizer is None or self._optimizer.communicator is None:
            raise InvalidArgument("call flota.init_worker() first: it makes the tables that are saved and loaded")
        return self._optimizer

    def _job(self) -> Job | None:
        if self.placement.local:
            return None
        return Job(self._connected(), self.placement.index, self.placement.worker_num)

    def _source(self) -> dict[str, Any]:
        mode = self._strategy.mode.name if self._strategy is not None else ""
        place = self.placement
        return {"mode": "local" if place.local else mode, "servers": place.server_num, "workers": place.worker_num}

    def _returning(self) -> bool:
        optimizer = self._optimizer
        return optimizer is not None and optimizer.communicator is not None and optimizer.communicator.returning

    def _pause(self) -> None:
        if self._optimizer is not None and self._optimizer.communicator is not None:
            self._optimizer.communicator.pause()

    def _resume(self) -> None:
        if self._optimizer is not None and self._optimizer.communicator is not None:
            self._optimizer.communicator.resume()

    def _connected(self) -> Client:
        if self._client is None:
            raise InvalidArgument("call flota.init_worker() first")
        return self._client


def _configuration(
    place: Placement, strategy: DistributedStrategy, optimizer: DistributedOptimizer, timeout: float
) -> str:
    """What is in effect, in two lines."""
    settings = " ".join(f"{name}={value}" for name, value in strategy.describe())
    return (
        f"flota: {place.worker_num} workers, servers {','.join(place.server_endpoints)}, "
        f"{type(optimizer.wrapped).__name__}, timeout {timeout:g} s\nflota: {settings}"
    )


class _Workers:
    """The job's workers, for data sets and metrics."""

    def __init__(self, job: Fleet) -> None:
        self._job = job
        self.index = job.placement.index
        self.count = job.placement.worker_num

    @property
    def client(self) -> Client | None:
        return None if self._job.placement.local else self._job._connected()

    @property
    def in_step(self) -> bool:
        strategy = self._job._strategy
        return strategy is not None and isinstance(strategy.mode, Sync) and not self._job.placement.local

    @property
    def steps(self) -> int:
        return 0 if self._job._optimizer is None else self._job._optimizer.steps

    @property
    def applied(self) -> int:
        optimizer = self._job._optimizer
        if optimizer is None or optimizer.communicator is None:
            return self.steps
        return optimizer.communicator.applied(optimizer.steps)

    def gather(self, name: str, payload: bytes) -> list[bytes]:
        return self._job.gather(name, payload)

    def begin_epoch(self, epoch: Epoch) -> GoesOn | bool:
        optimizer = self._job._optimizer
        if optimizer is None or optimizer.communicator is None:
            return True
        return optimizer.communicator.begin_epoch(epoch)

    def end_epoch(self, epoch: Epoch) -> None:
        optimizer = self._job._optimizer
        if optimizer is not None and optimizer.communicator is not None:
            optimizer.communicator.end_epoch(epoch)

    def where(self) -> Where | None:
        optimizer = self._job._optimizer
        return None if optimizer is None or optimizer.communicator is None else optimizer.communicator.where()

    def idle(self) -> None:
        optimizer = self._job._optimizer
        if optimizer is not None and optimizer.communicator is not None:
            optimizer.communicator.idle()


fleet = Fleet()
init = fleet.init
is_worker = fleet.is_worker
is_server = fleet.is_server
is_first_worker = fleet.is_first_worker
worker_index = fleet.worker_index
server_index = fleet.server_index
worker_num = fleet.worker_num
server_num = fleet.server_num
worker_endpoints = fleet.worker_endpoints
server_endpoints = fleet.server_endpoints
distributed_optimizer = fleet.distributed_optimizer
init_server = fleet.init_server
run_server = fleet.run_server
init_worker = fleet.init_worker
restarted = fleet.restarted
stop_worker = fleet.stop_worker
barrier_worker = fleet.barrier_worker
all_reduce = fleet.all_reduce
staleness = fleet.staleness
save_persistables = fleet.save_persistables
load_model = fleet.load_model
load_vectors = fleet.load_vectors
shrink = fleet.shrink
save_inference_model = fleet.save_inference_model
load_inference_model = inference.load
