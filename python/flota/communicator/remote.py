"""What sync and async training share: tables on servers, and dense parameters that follow them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from flota import _core
from flota.client import Client
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.stores import RemoteStore
from flota.errors import InvalidArgument
from flota.nn.table import TableParameter
from flota.nn.transfer import host_empty, to_host
from flota.optim import rule_of
from flota.rules import SGD
from flota.strategy import DistributedStrategy, Geo
from flota.tables import DenseTable

# What does not act yet is refused, not ignored.
_STILL_FIXED = {
    "max_staleness": None,
    "max_merge_var_num": 1,
    "independent_recv_thread": False,
    "min_send_grad_num_before_recv": 1,
    "thread_pool_size": 1,
    "send_wait_times": 1,
    "launch_barrier": True,
}


def refuse_what_does_not_act(strategy: DistributedStrategy) -> None:
    """Raises for settings that this version has no code for, naming the value that it works with."""
    settings = [(name, getattr(strategy.mode, name, fixed), fixed) for name, fixed in _STILL_FIXED.items()]
    for name, value, fixed in [*settings, ("dense_dtype", strategy.dense_dtype, "float32")]:
        if value != fixed:
            raise InvalidArgument(f"{name}={value!r} is not there yet; leave it at {fixed!r}")


@dataclass(frozen=True)
class Job:
    """This worker's place among all, and its connection to the servers."""

    client: Client
    rank: int
    world: int

    def barrier(self, name: str) -> None:
        self.client.barrier(name, rank=self.rank, world=self.world)


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
    """A dense parameter and its table."""

    parameter: torch.nn.Parameter
    table: DenseTable
    group: dict[str, Any]

    def lr(self) -> float:
        return float(self.group["lr"])


class RemoteTables:
    """Makes a model's tables on the servers. Worker 0 fills the dense ones with its own parameters, and nobody reads
    them before that; then all workers begin with the same."""

    def __init__(self, job: Job, optimizer: DistributedOptimizer, strategy: DistributedStrategy) -> None:
        self.job = job
        # In Geo mode workers keep the optimizer's state; what they send is added to the weights.
        self._weights_only = isinstance(strategy.mode, Geo)
        # A bound on staleness leaves no room for rows that are pulled before they are needed.
        self._pull_ahead = getattr(strategy.mode, "max_staleness", None) is None
        self.sparse = [self._make_sparse(handle, group, optimizer) for handle, group in optimizer.tables()]
        names = dense_names(optimizer)
        self.dense = [
            self._make_dense(names[parameter], parameter, group, optimizer, strategy)
            for parameter, group in optimizer.dense()
            if parameter.requires_grad
        ]

    def begin(self) -> None:
        if self.job.rank == 0:
            # What the servers have loaded from a checkpoint is not to be overwritten.
            servers = self.job.client.statistics()
            filled = {name for server in servers for name, values in server.tables.items() if values.get("pushes")}
            for dense in self.dense:
                if dense.table.name in filled:
                    continue
                dense.table.push(dense.parameter.detach().to("cpu", torch.float32), kind="assign")
        self.job.barrier("flota/filled")
        self.pull_dense()

    def pull_dense(self) -> None:
        """Brings the servers' values into the model."""
        if not self.dense:
            return
        values = self.host_values()
        parts = [dense.table.part(value) for dense, value in zip(self.dense, values, strict=True)]
        self.job.client.native.pull_dense(parts, self.job.client.time(None))
        self.take_dense(values)

    def host_values(self) -> list[torch.Tensor]:
        """Memory to pull the dense parameters into."""
        return [host_empty(dense.table.shape, dense.parameter.device) for dense in self.dense]

    @torch.no_grad()
    def take_dense(self, values: list[torch.Tensor]) -> None:
        for dense, value in zip(self.dense, values, strict=True):
            dense.parameter.copy_(value)

    def gradients(self) -> list[tuple[Dense, torch.Tensor]]:
        """The dense gradients of this step, on the CPU in float32."""
        learnt = [(dense, dense.parameter.grad) for dense in self.dense if dense.parameter.grad is not None]
        values = to_host([gradient.to(torch.float32) for _, gradient in learnt])
        return [(dense, value) for (dense, _), value in zip(learnt, values, strict=True)]

    def _make_sparse(self, handle: TableParameter, group: dict[str, Any], optimizer: DistributedOptimizer) -> Trained:
        options = handle.options
        table = self.job.client.create_sparse_table(
            options.name,
            dim=options.dim,
            rule=SGD() if self._weights_only else options.rule or rule_of(optimizer.wrapped, group),
            init=options.init,
            seed=options.seed,
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
    ) -> Dense:
        table = self.job.client.create_dense_table(
            name,
            shape=tuple(parameter.shape),
            rule=SGD() if self._weights_only else rule_of(optimizer.wrapped, group),
            slice_var_up=strategy.slice_var_up,
            min_block_size=strategy.min_block_size,
            split_method=strategy.split_method,
        )
        return Dense(parameter, table, group)


def dense_names(optimizer: DistributedOptimizer) -> dict[torch.nn.Parameter, str]:
    """Names of the dense parameters: those that the optimizer was given, or their places."""
    names = {}
    for number, group in enumerate(optimizer.param_groups):
        given = group.get("param_names")
        for place, parameter in enumerate(group["params"]):
            names[parameter] = f"dense/{given[place] if given else f'{number}.{place}'}"
    return names


def push_options(lr: float, step: int, group: int = 0, rank: int = 0) -> _core.PushOptions:
    return _core.PushOptions(_core.PushKind.gradient, lr, 1.0, step, group, rank)
