"""A job of servers and workers, as programs know it: what it trains is the program that an optimizer was minimized
for."""

from __future__ import annotations

import warnings
from typing import Any

import flota
import flota.fleet
from flota.admission import ShowClick
from flota.errors import InvalidArgument
from flota.paddle.distributed.strategy import apply_trainer_settings
from flota.paddle.graph import state
from flota.paddle.graph.executor import Executor
from flota.paddle.graph.program import Program, Training, default_startup_program
from flota.paddle.graph.scope import global_scope
from flota.paddle.graph.training import begun_tables, trainer_of
from flota.paddle.optimizer.optimizers import Optimizer
from flota.roles import share_own_secret

# What the reference's tables are shrunk by, unless they are told otherwise.
_MAX_AGE = 30
_MIN_SCORE = 0.8
_DECAY = 0.98


class _Minimized:
    """What the job trains and how, and the program that gives it its first values."""

    strategy: Any = None
    training: Training | None = None
    startup: Program | None = None
    optimizer: DistributedOptimizer | None = None


def init(role_maker: Any = None, is_collective: bool = False, strategy: Any = None) -> None:
    """Finds out this process's place. Where all servers are on this host and nobody has set a secret, it takes the one
    that this user's processes share. ``strategy``: for optimizers that are given none."""
    flota.init(role_maker, is_collective, strategy)
    share_own_secret(flota.fleet.fleet.placement)
    _Minimized.strategy = strategy


def worker_endpoints(to_string: bool = False) -> list[str] | str:
    """Where workers are, as far as a launcher has said; ``to_string``: with commas between them."""
    return ",".join(flota.worker_endpoints()) if to_string else flota.worker_endpoints()


def server_endpoints(to_string: bool = False) -> list[str] | str:
    """Where servers are; ``to_string``: with commas between them."""
    return ",".join(flota.server_endpoints()) if to_string else flota.server_endpoints()


def trained_program() -> Program:
    """The program of the job's loss."""
    if _Minimized.training is None:
        raise InvalidArgument("call fleet.distributed_optimizer(…).minimize(loss) first: it says what the job trains")
    return _Minimized.training.loss.program


def is_connected() -> bool:
    """Whether this process is a worker that trains."""
    training = _Minimized.training
    if training is None or training not in global_scope().trainers:
        return False
    return trainer_of(training, global_scope()).optimizer.communicator is not None


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
        apply_trainer_settings(loss.program, self.user_defined_strategy or _Minimized.strategy)
        _Minimized.training = loss.program.trainings[-1]
        _Minimized.startup = startup_program or default_startup_program()
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.user_defined_optimizer, name)


def distributed_optimizer(optimizer: Optimizer, strategy: Any = None) -> DistributedOptimizer:
    """The optimizer for this job; its steps go to the servers."""
    if not isinstance(optimizer, Optimizer):
        raise InvalidArgument(f"distributed_optimizer takes one of paddle.optimizer, not {optimizer!r}")
    _Minimized.optimizer = DistributedOptimizer(optimizer, strategy)
    return _Minimized.optimizer


def minimize(
    loss: Any, startup_program: Program | None = None, parameter_list: Any = None, no_grad_set: Any = None
) -> Any:
    """The same by the optimizer that the job was last given."""
    if _Minimized.optimizer is None:
        raise InvalidArgument("call fleet.distributed_optimizer(optimizer) before fleet.minimize(loss)")
    return _Minimized.optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)


def shrink(threshold: Any = None) -> None:
    """Removes rows that were not trained since ``threshold`` calls of it, or 30; of tables with ``ShowClickEntry`` also
    those of a low score, after what they have counted has faded a little. Every worker calls it."""
    if threshold is not None and (isinstance(threshold, bool) or not isinstance(threshold, int) or threshold < 1):
        raise InvalidArgument(f"fleet.shrink: threshold is a number of calls from 1 on, not {threshold!r}")
    if _Minimized.training is None:
        raise InvalidArgument("call fleet.init_worker() before fleet.shrink()")
    age = _MAX_AGE if threshold is None else threshold
    tables = trainer_of(_Minimized.training, global_scope()).tables
    scored = {each.options.name for each in tables if isinstance(each.options.admission, ShowClick)}
    plain = {each.options.name for each in tables} - scored
    if scored:
        flota.shrink(max_age=age, min_score=_MIN_SCORE, decay=_DECAY, tables=sorted(scored))
    if plain:
        flota.shrink(max_age=age, tables=sorted(plain))


def init_server(dirname: Any = None, var_names: Any = None) -> None:
    """Begins to serve, with this server's share of what ``save_persistables`` saved; with ``var_names``, only with the
    weights of these parameters of it."""
    if isinstance(var_names, str):
        var_names = [var_names]
    flota.init_server(dirname, None if var_names is None else [str(name) for name in var_names])


def init_worker(scopes: Any = None) -> None:
    """Connects to the servers. Parameters that have no value yet get their first one: worker 0's are the job's."""
    if scopes is not None:
        raise InvalidArgument("init_worker: scopes is not known here; the job trains in the global scope")
    training = _Minimized.training
    if training is None or _Minimized.startup is None:
        raise InvalidArgument("call fleet.distributed_optimizer(…).minimize(loss) before init_worker()")
    scope = global_scope()
    trainer = trainer_of(training, scope)
    if not scope.initialised(training.parameters):
        Executor().run(_Minimized.startup, scope=scope)
    begun = begun_tables(trainer)
    flota.init_worker()
    flota.fleet.fleet.begin_rows(begun)
    if trainer.optimizer.steps and flota.is_first_worker() and list(state.others(training.loss.program)):
        warnings.warn(
            "the servers began with a checkpoint, which has parameters and rows; counters and statistics, which "
            "workers keep, begin anew: fleet.load_model(dirname) in all workers brings them too",
            stacklevel=2,
        )
    if not flota.fleet.fleet.placement.local:
        scope.served.update(variable.name for variable in training.parameters)
