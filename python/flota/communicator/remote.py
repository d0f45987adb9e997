"""What sync and async training share: tables on servers, and dense parameters that follow them."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import torch

from flota import _core
from flota.client import Client
from flota.communicator.membership import Membership
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.stores import RemoteStore
from flota.errors import DeadlineExceeded, InvalidArgument
from flota.nn.table import TableParameter
from flota.nn.transfer import host_empty, to_host
from flota.optim import rule_of
from flota.rules import SGD
from flota.strategy import Async, DistributedStrategy, Geo
from flota.tables import DensePart, DenseTable
from flota.timeline import span

# How long to wait before looking again whether parameters are filled: at first, and at most.
_FIRST_LOOK, _LAST_LOOK = 0.01, 0.5


def refuse_what_does_not_act(strategy: DistributedStrategy) -> None:
    """Raises for settings that others leave without effect."""
    if isinstance(strategy.mode, Async):
        strategy.mode.refuse_without_effect()


@dataclass(frozen=True)
class Job:
    """This worker's place among all, and its connection to the servers. ``world``: how many workers there are; 0 where
    they come and go, and server 0 knows them."""

    client: Client
    rank: int
    world: int
    member: Membership | None = None  # where they come and go

    @property
    def late(self) -> bool:
        """Whether this worker has joined when others had begun."""
        return self.member is not None and self.member.late

    def barrier(self, name: str) -> None:
        self.gather(name, b"")

    def rejoin(self) -> _core.Rejoined:
        """First: where this worker was, if it was started before."""
        return self.client.rejoin(self.rank, self.world or self.rank + 1)

    def gather(self, name: str, brings: bytes) -> list[bytes]:
        return self.client.gather(name, brings, rank=self.rank, world=self.world)


@dataclass(frozen=True)
class Trained:
    """A table, its handle in the model, and the group that says how it learns."""

    handle: TableParameter
    store: RemoteStore
    group: dict[str, Any]

    def lr(self) -> float:
        rule = self.handle.options.rule
        return float(self.group["lr"]) if rule is None else rule.lr


@dataclass(frozen=True)
class Dense:
    """A dense parameter and its table. ``place``: among the model's dense parameters."""

    place: int
    parameter: torch.nn.Parameter
    table: DenseTable
    group: dict[str, Any]

    def lr(self) -> float:
        return float(self.group["lr"])


class Versions:
    """Of each dense table on each server. 0: there is nothing yet, and what was never written to is not wanted."""

    def __init__(self, tables: int, servers: int) -> None:
        self.numbers = torch.zeros(tables, servers, dtype=torch.int64, device="cpu")

    def copy(self) -> Versions:
        same = Versions(0, 0)
        same.numbers = self.numbers.clone()
        return same

    def address(self, place: int) -> int:
        """Of a table's versions, as the core takes it."""
        return self.numbers.data_ptr() + place * self.numbers.shape[1] * self.numbers.element_size()


class DenseValues:
    """A copy of the servers' dense parameters: a pull into it brings what is newer.

    ``in_place``: parameters that lie on the host are pulled straight to where they are.
    """

    def __init__(self, dense: list[Dense], servers: int, in_place: bool = False) -> None:
        self._dense = dense
        self.values = [
            one.parameter.detach()
            if in_place and _lies_on_the_host(one.parameter)
            else host_empty(one.table.shape, one.parameter.device)
            for one in dense
        ]
        self.versions = Versions(len(dense), servers)
        self._parts: dict[bool, list[DensePart]] = {}  # the same in every step: values and versions stay where they are

    def parts(self, exact: bool = False) -> list[DensePart]:
        if exact not in self._parts:
            self._parts[exact] = [
                one.table.part(value, exact=exact, versions=self.versions.address(place))
                for place, (one, value) in enumerate(zip(self._dense, self.values, strict=True))
            ]
        return self._parts[exact]

    def unfilled(self) -> list[Dense]:
        """Those that some server has nothing of yet."""
        empty = (self.versions.numbers == 0).any(dim=1).tolist()
        return [one for one, nothing in zip(self._dense, empty, strict=True) if nothing]


class RemoteTables:
    """Makes a model's tables on the servers. Worker 0 fills the dense ones with its own parameters, unless they are
    filled already, and nobody reads them before that; then all workers begin with the same."""

    def __init__(self, job: Job, optimizer: DistributedOptimizer, strategy: DistributedStrategy) -> None:
        self.job = job
        # In Geo mode workers keep the optimizer's state; what they send is added to the weights.
        self._weights_only = isinstance(strategy.mode, Geo)
        # A bound on staleness leaves no room for rows that are pulled before they are needed.
        self._pull_ahead = getattr(strategy.mode, "max_staleness", None) is None
        self.sparse = [self._make_sparse(handle, group, optimizer) for handle, group in optimizer.tables()]
        names = dense_names(optimizer)
        trained = [(parameter, group) for parameter, group in optimizer.dense() if parameter.requires_grad]
        self.dense = [
            Dense(place, parameter, self._make_dense(names[parameter], parameter, group, optimizer, strategy), group)
            for place, (parameter, group) in enumerate(trained)
        ]
        self._frozen = [(names[p].removeprefix("dense/"), p) for p, _ in optimizer.dense() if not p.requires_grad]
        self._meets = strategy.mode.launch_barrier
        # Of what the model has: gradients are computed from it.
        self.seen = Versions(len(self.dense), job.client.servers)
        self._received = self.empty_values()

    def empty_values(self, in_place: bool = False) -> DenseValues:
        return DenseValues(self.dense, self.job.client.servers, in_place)

    def begin(self) -> None:
        """Fills the dense tables, or waits until they are. With a launch barrier, returns when all workers are here."""
        values = self.empty_values()
        if self.job.rank == 0:
            self._pull(values, exact=True)
            for dense in values.unfilled():
                dense.table.push(dense.parameter.detach().to("cpu", torch.float32), kind="assign")
        if self._meets:
            self.job.barrier("flota/filled")
        self._wait_until_filled(values)
        self.take_dense(values)

    def pull_dense(self, exact: bool = False) -> None:
        """Brings the servers' values into the model. ``exact``: in float32, whatever the strategy says."""
        if exact:
            # What came in fewer bits is not up to date, whatever its version.
            self.seen = Versions(len(self.dense), self.job.client.servers)
        values = self.empty_values() if exact else self._received
        with span("pull"):
            self._pull(values, exact)
        self.take_dense(values)

    @torch.no_grad()
    def take_dense(self, values: DenseValues) -> None:
        """Brings those of the values into the model that it does not have."""
        changed = (values.versions.numbers != self.seen.numbers).any(dim=1).tolist()
        for dense, value, new in zip(self.dense, values.values, changed, strict=True):
            if new:
                if value.data_ptr() == dense.parameter.data_ptr():
                    torch.autograd.graph.increment_version(dense.parameter)
                else:
                    dense.parameter.copy_(value)
        self.seen.numbers.copy_(values.versions.numbers)

    def gradients(self) -> list[tuple[Dense, torch.Tensor]]:
        """The dense gradients of this step, on the CPU in float32."""
        for name, parameter in self._frozen:
            if parameter.grad is not None:
                raise InvalidArgument(
                    f"parameter {name!r} had requires_grad=False when flota.init_worker() made the tables, so it has "
                    "none and cannot learn; freeze it after init_worker() instead"
                )
        learnt = [(dense, dense.parameter.grad) for dense in self.dense if dense.parameter.grad is not None]
        values = to_host([gradient.to(torch.float32) for _, gradient in learnt])
        return [(dense, value) for (dense, _), value in zip(learnt, values, strict=True)]

    def _pull(self, values: DenseValues, exact: bool) -> None:
        client = self.job.client
        client.native.pull_dense(values.parts(exact), client.time(None))

    def _wait_until_filled(self, values: DenseValues) -> None:
        with self.job.client.saying_where():
            self._look_until_filled(values)

    def _look_until_filled(self, values: DenseValues) -> None:
        started, pause = time.monotonic(), _FIRST_LOOK
        while True:
            self._pull(values, exact=True)
            unfilled = values.unfilled()
            if not unfilled:
                return
            waited = time.monotonic() - started
            if waited > self.job.client.timeout:
                names = ", ".join(repr(dense.table.name) for dense in unfilled[:3])
                more = f" and {len(unfilled) - 3} more" if len(unfilled) > 3 else ""
                raise DeadlineExceeded(
                    f"worker {self.job.rank} waited {waited:.1f} s for worker 0 to fill {names}{more}; is it running?"
                )
            time.sleep(pause)
            pause = min(2 * pause, _LAST_LOOK)

    def _make_sparse(self, handle: TableParameter, group: dict[str, Any], optimizer: DistributedOptimizer) -> Trained:
        options = handle.options
        admission = options.admission
        if self._weights_only and admission is not None and admission.to_native().admits_all():
            warnings.warn(
                f"table {options.name!r}: in Geo mode no shows and clicks are counted: servers see how far rows moved",
                stacklevel=2,
            )
            admission = None
        if self._weights_only and admission is not None:
            raise InvalidArgument(
                f"table {options.name!r}: admission={options.admission} is for sync and async mode: in Geo mode each "
                "worker trains rows of its own before servers see them"
            )
        if not self._weights_only and options.rule is None:
            optimizer.fix(group)
        table = self.job.client.create_sparse_table(
            options.name,
            dim=options.dim,
            rule=SGD() if self._weights_only else options.rule or rule_of(optimizer.wrapped, group),
            init=options.init,
            seed=options.seed,
            admission=admission,
        )
        store = RemoteStore(table, self._pull_ahead)
        handle.store = store
        return Trained(handle, store, group)

    def _make_dense(
        self,
        name: str,
        parameter: torch.nn.Parameter,
        group: dict[str, Any],
        optimizer: DistributedOptimizer,
        strategy: DistributedStrategy,
    ) -> DenseTable:
        if not self._weights_only:
            optimizer.fix(group)
        return self.job.client.create_dense_table(
            name,
            shape=tuple(parameter.shape),
            rule=SGD() if self._weights_only else rule_of(optimizer.wrapped, group),
            slice_var_up=strategy.slice_var_up,
            min_block_size=strategy.min_block_size,
            split_method=strategy.split_method,
            wire_dtype=strategy.dense_dtype,
        )


def _lies_on_the_host(parameter: torch.nn.Parameter) -> bool:
    return parameter.device.type == "cpu" and parameter.dtype == torch.float32 and parameter.is_contiguous()


def dense_names(optimizer: DistributedOptimizer) -> dict[torch.nn.Parameter, str]:
    """Names of the dense parameters: those that the optimizer was given, or their places."""
    given = [name for group in optimizer.param_groups for name in group.get("param_names", ())]
    once = len(set(given)) == len(given)
    names = {}
    for number, group in enumerate(optimizer.param_groups):
        for place, parameter in enumerate(group["params"]):
            name = group["param_names"][place] if "param_names" in group else str(place)
            # Two groups may have parameters of one name.
            names[parameter] = f"dense/{name}" if once and "param_names" in group else f"dense/{number}.{name}"
    return names


def push_options(lr: float, step: int, group: int = 0, rank: int = 0) -> _core.PushOptions:
    return _core.PushOptions(_core.PushKind.gradient, lr, 1.0, step, group, rank)
