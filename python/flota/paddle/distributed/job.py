"""A job of servers and workers, as programs know it: what it trains is the program that an optimizer was minimized
for."""

from __future__ import annotations

from typing import Any

import flota
from flota.errors import InvalidArgument
from flota.paddle.graph.executor import Executor
from flota.paddle.graph.program import Program, Training, default_startup_program
from flota.paddle.graph.scope import global_scope
from flota.paddle.graph.training import trainer_of
from flota.paddle.optimizer.optimizers import Optimizer


class _Minimized:
    """What the job trains, and the program that gives it its first values."""

    training: Training | None = None
    startup: Program | None = None


class DistributedOptimizer:
    """An optimizer whose ``minimize`` is for the job."""

    def __init__(self, optimizer: Optimizer, strategy: Any) -> None:
        self.user_defined_optimizer = optimizer
        self.user_defined_strategy = strategy

    def minimize(
        self, loss: Any, startup_program: Program | None = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> Any:
        optimizer = self.user_defined_optimizer
        optimizer.strategy = self.user_defined_strategy
        optimizer.distributed = True
        result = optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)
        _Minimized.training = loss.program.trainings[-1]
        _Minimized.startup = startup_program or default_startup_program()
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.user_defined_optimizer, name)


def distributed_optimizer(optimizer: Optimizer, strategy: Any = None) -> DistributedOptimizer:
    """The optimizer for this job; its steps go to the servers."""
    if not isinstance(optimizer, Optimizer):
        raise InvalidArgument(f"distributed_optimizer takes one of paddle.optimizer, not {optimizer!r}")
    return DistributedOptimizer(optimizer, strategy)


def init_server(dirname: Any = None, var_names: Any = None) -> None:
    if var_names is not None:
        raise InvalidArgument("init_server: var_names is not known here; a server loads its share of all tables")
    flota.init_server(dirname)


def init_worker(scopes: Any = None) -> None:
    """Connects to the servers. Parameters that have no value yet get their first one: worker 0's are the job's."""
    if scopes is not None:
        raise InvalidArgument("init_worker: scopes is not known here; the job trains in the global scope")
    training = _Minimized.training
    if training is None or _Minimized.startup is None:
        raise InvalidArgument("call fleet.distributed_optimizer(…).minimize(loss) before init_worker()")
    scope = global_scope()
    trainer_of(training, scope)
    if not scope.initialised(training.parameters):
        Executor().run(_Minimized.startup, scope=scope)
    flota.init_worker()
    scope.served.update(variable.name for variable in training.parameters)
