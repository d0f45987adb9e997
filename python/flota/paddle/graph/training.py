"""Training a program: its parameters as torch's, in one step after each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import flota
from flota.communicator.contents import Keys, Rows, all_rows, assign
from flota.communicator.local import LocalCommunicator
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.stores import LocalStore
from flota.errors import InvalidArgument
from flota.nn.table import TableOptions, TableParameter
from flota.paddle.entries import admission_of
from flota.paddle.graph.program import Program, Training
from flota.paddle.graph.scope import Held, Scope
from flota.paddle.graph.variable import GRADIENT, ParameterVariable
from flota.rules import SGD


def hold(variable: ParameterVariable, scope: Scope) -> Held:
    """The parameter's place in the scope; made without a value if there is none."""
    held = scope.values.get(variable.name)
    if held is None:
        held = scope.values[variable.name] = _made(variable, scope.device)
        if variable.attributes.table and variable.attributes.bounded:
            scope.table_rows[variable.name] = variable.shape[0]
    return held


def _made(variable: ParameterVariable, device: torch.device) -> Held:
    facts = variable.attributes
    if facts.table:
        options = TableOptions(
            variable.name,
            variable.shape[-1],
            facts.attr.initializer.for_rows(variable.shape),
            admission=admission_of(facts.entry),
        )
        handle = TableParameter.make(options)
        # Until something trains it: a program may look rows up, and a script may set them, before that.
        handle.store = LocalStore(options, SGD())
        given = facts.attr.initializer.given_rows(variable.shape)
        if given is not None:
            assign(handle.store, np.arange(len(given)), given)
        handle.data = handle.data.to(device)
        return handle.requires_grad_(variable.trainable)
    empty = torch.zeros(variable.shape, dtype=variable.dtype, device=device)
    return torch.nn.Parameter(empty, requires_grad=variable.trainable and empty.is_floating_point())


class Trainer:
    """Steps the parameters of a program's loss."""

    def __init__(self, training: Training, scope: Scope, distributed: bool) -> None:
        self.training = training
        held = [(variable, hold(variable, scope)) for variable in training.parameters]
        self._named = {variable.name: value for variable, value in held}
        self.tables = [value for _, value in held if isinstance(value, TableParameter)]
        wrapped = training.optimizer.build([(variable.attributes.attr, value) for variable, value in held])
        if distributed:
            self.optimizer = flota.distributed_optimizer(wrapped, training.optimizer.strategy)
        else:
            begun = begun_tables(self)
            self.optimizer = DistributedOptimizer(wrapped)
            self.optimizer.communicator = LocalCommunicator(self.optimizer, any_optimizer=True)
            for table, (keys, rows) in begun:
                assign(table.bound(), keys, rows)

    def step(self, loss: torch.Tensor, wanted: Sequence[str] = ()) -> dict[str, torch.Tensor]:
        """One step; returns the wanted ones of the gradients, as the loss has them."""
        if self.optimizer.communicator is None:
            raise InvalidArgument("call fleet.init_worker() before the first run of the program that trains")
        self.training.optimizer.before_step(self.optimizer)
        self.optimizer.zero_grad()
        (loss if loss.dim() == 0 else loss.sum()).backward()  # type: ignore[no-untyped-call]
        gradients = {name: self._gradient(name) for name in wanted if name.removesuffix(GRADIENT) in self._named}
        self.training.optimizer.clip(self.optimizer)
        self.optimizer.step()
        return gradients

    def _gradient(self, name: str) -> torch.Tensor:
        parameter = self._named[name.removesuffix(GRADIENT)]
        return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.detach().clone()


def begun_tables(trainer: Trainer) -> list[tuple[TableParameter, tuple[Keys, Rows]]]:
    """The tables that have rows before they are trained, since a script has set them, with these rows."""
    found = ((table, all_rows(table.bound())) for table in trainer.tables)
    return [(table, rows) for table, rows in found if len(rows[0])]


def trainer_of(training: Training, scope: Scope) -> Trainer:
    """The trainer of this loss in this scope, made when it is first asked for."""
    if training not in scope.trainers:
        scope.trainers[training] = Trainer(training, scope, training.optimizer.distributed)
    trainer: Trainer = scope.trainers[training]
    return trainer


def trained_parameters(program: Program, loss: Any, wanted: Any, left_out: Any) -> list[ParameterVariable]:
    """The parameters that the loss depends on and that are to be trained."""
    made_by = {output.name: operator for operator in program.operators for output in operator.outputs()}
    seen: set[str] = set()
    found: dict[str, ParameterVariable] = {}
    stack = [loss]
    while stack:
        variable = stack.pop()
        if variable.name in seen:
            continue
        seen.add(variable.name)
        if isinstance(variable, ParameterVariable) and variable.trainable:
            found[variable.name] = variable
        if variable.name in made_by:
            stack += list(made_by[variable.name].inputs())
    chosen = {_name(each) for each in wanted} if wanted else set(found)
    chosen -= {_name(each) for each in left_out or ()}
    order = [variable for variable in program.all_parameters() if variable.name in found and variable.name in chosen]
    if not order:
        raise InvalidArgument(f"there is no parameter to train: {loss.name!r} depends on none")
    return order


def _name(variable: Any) -> str:
    return variable if isinstance(variable, str) else str(variable.name)
