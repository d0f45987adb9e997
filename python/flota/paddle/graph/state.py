"""A program's values by name: parameters, what else stays from run to run, and what optimizers keep."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from flota.communicator.contents import all_rows, assign, begin_anew, import_page, pages_of, spec_of
from flota.errors import InvalidArgument
from flota.nn.table import TableParameter
from flota.optim import has_rule
from flota.paddle.graph.program import Program
from flota.paddle.graph.scope import Held, Scope, global_scope
from flota.paddle.graph.training import Trainer, hold, trainer_of
from flota.paddle.graph.variable import ParameterVariable, Variable
from flota.paddle.tensor import Tensor
from flota.pages import RowPage

# A table whose ids are any numbers.
_KEYS, _ROWS = "keys", "rows"
# What is saved of a table's rows for an optimizer to go on with, beside the names of variables.
_TABLE = "@table"

State = dict[str, Any]


def parameters(program: Program) -> Iterator[Variable]:
    return (each for each in program.variables.values() if isinstance(each, ParameterVariable))


def others(program: Program) -> Iterator[Variable]:
    """What stays from run to run and is no parameter: counters, statistics."""
    kept = (each for each in program.variables.values() if each.persistable)
    return (each for each in kept if not isinstance(each, ParameterVariable))


def read(variable: Variable, scope: Scope) -> Any:
    """A variable's value: an array, or the keys and rows of a table whose ids are any numbers."""
    held = _held(variable, scope)
    if held is None:
        raise InvalidArgument(f"{variable.name!r} has no value to save: run the startup program first")
    if isinstance(held, TableParameter) and variable.name not in scope.table_rows:
        keys, rows = all_rows(held.bound())
        return {_KEYS: keys, _ROWS: rows}
    return scope.read(variable.name).cpu().numpy()


def write(variable: Variable, value: Any, scope: Scope) -> None:
    """The inverse."""
    held = _held(variable, scope)
    if isinstance(value, Mapping):
        if not isinstance(held, TableParameter):
            raise InvalidArgument(f"{variable.name!r} is no table, and was saved as one")
        if variable.name in scope.served:
            raise InvalidArgument(f"{variable.name!r} is a table on the servers: fleet.load_model loads those")
        begin_anew(held.bound())
        assign(held.bound(), np.asarray(value[_KEYS]), np.asarray(value[_ROWS]))
        return
    given = value.value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    if list(given.shape) != list(variable.shape):
        raise InvalidArgument(f"{variable.name!r} is {list(variable.shape)}, and cannot be set to {list(given.shape)}")
    scope.set(variable.name, given.to(variable.dtype))


def _held(variable: Variable, scope: Scope) -> Held | None:
    if isinstance(variable, ParameterVariable) and variable.name not in scope.values:
        return hold(variable, scope) if variable.attributes.table else None
    return scope.values.get(variable.name)


# --- a whole program ---

_MODES = ("all", "param", "opt")


def read_program(program: Program, mode: str = "all", scope: Scope | None = None) -> State:
    """Copies of values by name: of parameters, of what else stays and what optimizers keep, or all."""
    if mode not in _MODES:
        raise InvalidArgument(f"state_dict: mode is one of {', '.join(_MODES)}, not {mode!r}")
    scope = global_scope() if scope is None else scope
    found: State = {}
    if mode != "opt":
        found |= {each.name: read(each, scope) for each in parameters(program)}
    if mode != "param":
        found |= {each.name: read(each, scope) for each in others(program)}
        found |= read_optimizers(program, scope)
    arrays = {name: Tensor(torch.tensor(each)) for name, each in found.items() if isinstance(each, np.ndarray)}
    return {**found, **arrays}


def write_program(program: Program, state: Mapping[str, Any], scope: Scope | None = None) -> None:
    """The inverse, for what the state has."""
    scope = global_scope() if scope is None else scope
    kept = {name: value for name, value in state.items() if name in program.variables}
    for name, value in kept.items():
        write(program.variables[name], value, scope)
    rest = {name: value for name, value in state.items() if name not in kept}
    if rest and program.trainings:
        write_optimizers(program, rest, scope)
    elif rest:  # a program for tests takes the state of the one that trains
        warnings.warn(f"the program has no {', '.join(map(repr, rest))}: not used", stacklevel=3)


# --- what optimizers keep ---


def read_optimizers(program: Program, scope: Scope) -> State:
    """States by the parameters' names; of tables, their rows with their state."""
    found: State = {}
    for training in program.trainings:
        if training not in scope.trainers or training.optimizer.distributed:
            continue
        trainer = trainer_of(training, scope)
        found |= training.optimizer.state_dict(tables=False)
        found |= {f"{table.options.name}{_TABLE}": _rows(table, trainer) for table in trainer.tables}
    return found


def _rows(table: TableParameter, trainer: Trainer) -> dict[str, np.ndarray]:
    for handle, group in trainer.optimizer.tables():
        if handle is table and not has_rule(trainer.optimizer.wrapped, group):
            raise InvalidArgument(
                f"{table.options.name!r} is a table, and what {type(trainer.training.optimizer).__name__} keeps of its "
                "rows cannot be saved: train it without is_sparse"
            )
    pages = list(pages_of(table.bound()))
    spec = spec_of(table.bound())
    empty = RowPage(
        np.empty(0, np.int64),
        np.empty(0, np.uint64),
        np.empty(0, np.uint64),
        np.empty((0, spec.dim), np.float32),
        np.empty((0, 0), np.float32),
    )
    return {
        name: np.concatenate([getattr(page, name) for page in pages]) if pages else getattr(empty, name)
        for name in vars(empty)
    }


def write_optimizers(program: Program, state: Mapping[str, Any], scope: Scope) -> None:
    """The inverse."""
    left = dict(state)
    for training in program.trainings:
        trainer = trainer_of(training, scope)
        for table in trainer.tables:
            columns = left.pop(f"{table.options.name}{_TABLE}", None)
            if columns is not None and len(columns["keys"]):
                import_page(table.bound(), RowPage(**{name: np.asarray(value) for name, value in columns.items()}))
        names = [f"{variable.name}_" for variable in training.parameters]
        mine = {key: left.pop(key) for key in list(left) if key.startswith(tuple(names)) or key == "LR_Scheduler"}
        training.optimizer.set_state_dict(mine)
    if left:
        raise InvalidArgument(f"the program's optimizers keep nothing called {', '.join(map(repr, left))}")
