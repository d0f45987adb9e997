"""Programs: operations in the order in which a script has called them, and the variables that they make.

A program computes nothing. Recording an operation tries its kernel on sketches of its operands (``variable.Sketch``),
so that the result's shape and type are known and errors come where the script has made them. ``graph.compiled`` turns a
program into a function.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.paddle.graph import names
from flota.paddle.graph.block import Block
from flota.paddle.graph.dumping import check_options
from flota.paddle.graph.operator import Operator
from flota.paddle.graph.sketching import try_out
from flota.paddle.graph.variable import ParameterVariable, Variable
from flota.paddle.jagged import Jagged
from flota.paddle.ops.registry import OPERATIONS, Operation

__all__ = [
    "Block",
    "Operator",
    "Program",
    "Training",
    "default_main_program",
    "default_startup_program",
    "program_guard",
]


@dataclass(eq=False)
class Training:
    """A loss that ``minimize`` was called for: running the program trains by it."""

    loss: Variable
    optimizer: Any
    parameters: list[ParameterVariable] = field(default_factory=list)


class Program:
    """What ``paddle.static.Program()`` makes."""

    def __init__(self) -> None:
        self.operators: list[Operator] = []
        self.variables: dict[str, Variable] = {}
        self.trainings: list[Training] = []
        self.random_seed = 0
        self.seeded_with = 0  # in this process
        self.version = 0  # of what it computes: who has compiled it looks at this
        self.readers: list[Any] = []  # loaders that feed it without being asked
        self.for_test = False
        self.scope: Any = None  # a program that was loaded brings its values
        self._options: dict[str, Any] | None = None

    # --- building it ---

    def add(self, variable: Variable) -> Variable:
        known = self.variables.get(variable.name)
        if known is not None and known is not variable:
            raise InvalidArgument(f"the program has a variable {variable.name!r} already: {known}")
        self.variables[variable.name] = variable
        self.version += 1
        return variable

    def record(
        self,
        operation: Operation,
        arguments: dict[str, Any],
        name: str | None = None,
        into: Mapping[int, Variable] | None = None,
    ) -> Any:
        """Adds an operation; returns the variables of its results, as the kernel structures them. ``into``: variables
        that are there already and take some of the results, by their place."""
        operator = Operator(operation, arguments, None)
        sketches = try_out(operator)
        stopped = all(variable.stop_gradient for variable in operator.inputs())
        key = name or f"{operation.name}"

        def make(first: Any, second: Any) -> Any:
            if isinstance(first, (torch.Tensor, Jagged)):
                made = Variable(self, names.generate(f"{key}.tmp"), (first, second), stop_gradient=stopped)
                return self.add(made)
            if isinstance(first, (list, tuple)):
                return type(first)(map(make, first, second))
            return first

        operator.results = make(*sketches)
        for place, variable in (into or {}).items():
            del self.variables[operator.results[place].name]
            operator.results = (*operator.results[:place], variable, *operator.results[place + 1 :])
        self.operators.append(operator)
        self.version += 1
        return operator.results

    def record_as(self, operation: Operation, arguments: dict[str, Any], result_names: Sequence[str]) -> None:
        """The same for a program that is read: results have these names, and go to variables that are there by them."""
        operator = Operator(operation, arguments, None)
        sketches = try_out(operator)
        coming = iter(result_names)

        def make(first: Any, second: Any) -> Any:
            if isinstance(first, (torch.Tensor, Jagged)):
                name = next(coming)
                if name in self.variables:
                    return self.variables[name]
                return self.add(Variable(self, name, (first, second), stop_gradient=True))
            if isinstance(first, (list, tuple)):
                return type(first)(map(make, first, second))
            return first

        operator.results = make(*sketches)
        self.operators.append(operator)
        self.version += 1

    def record_into(self, operation_name: str, arguments: dict[str, Any], results: Any) -> None:
        """Adds an operation whose results go to variables that are there already."""
        self.operators.append(Operator(OPERATIONS[operation_name], arguments, results))
        self.version += 1

    # --- as scripts know it ---

    def global_block(self) -> Block:
        return Block(self)

    def block(self, index: int) -> Block:
        if index != 0:
            raise InvalidArgument(f"a program has one block, number 0, not {index}")
        return Block(self)

    current_block = global_block

    @property
    def num_blocks(self) -> int:
        return 1

    @property
    def blocks(self) -> list[Block]:
        return [Block(self)]

    def list_vars(self) -> Iterator[Variable]:
        return iter(self.variables.values())

    def all_parameters(self) -> list[ParameterVariable]:
        return [each for each in self.variables.values() if isinstance(each, ParameterVariable)]

    def clone(self, for_test: bool = False) -> Program:
        """The same program; ``for_test``: one that trains nothing, and in which dropout and normalisation are those of
        a trained model."""
        made = copy.copy(self)
        made.variables = dict(self.variables)
        made.trainings = [] if for_test else list(self.trainings)
        made.for_test = for_test or self.for_test
        made.operators = [_as_test(each) for each in self.operators] if for_test else list(self.operators)
        made.readers = list(self.readers)
        return made

    @property
    def _fleet_opt(self) -> dict[str, Any] | None:
        """What debuggers ask for while the program trains over a data set: see ``dumping``. After fleet's ``minimize``
        it is a dictionary, to which scripts add."""
        if self._options is None and any(training.optimizer.distributed for training in self.trainings):
            self._options = {}
        return self._options

    @_fleet_opt.setter
    def _fleet_opt(self, options: dict[str, Any] | None) -> None:
        if options is not None:
            check_options(options)
        self._options = options

    def state_dict(self, mode: str = "all", scope: Any = None) -> dict[str, Any]:
        """Values by name: of parameters ("param"), of what else stays and what optimizers keep ("opt"), or all."""
        from flota.paddle.graph.state import read_program

        return read_program(self, mode, scope)

    def set_state_dict(self, state_dict: Mapping[str, Any], scope: Any = None) -> None:
        """Sets what the state names."""
        from flota.paddle.graph.state import write_program

        write_program(self, state_dict, scope)

    def with_data_parallel(
        self,
        loss_name: str | None = None,
        build_strategy: Any = None,
        exec_strategy: Any = None,
        share_vars_from: Any = None,
        places: Any = None,
    ) -> Program:
        """The same program, which ``CompiledProgram`` hands on: one process runs it, at one place."""
        if isinstance(places, (list, tuple)) and len(places) > 1:
            raise InvalidArgument(f"with_data_parallel: a process has one place, not {len(places)}: start more workers")
        return self

    @property
    def desc(self) -> Any:
        raise AttributeError(
            "a program has no desc here: str(program) shows it, paddle.static.save and save_inference_model save it"
        )

    def __str__(self) -> str:
        lines = ["{ // block 0"]
        lines += [f"    {variable}" for variable in self.variables.values()]
        lines += ["", *(f"    {operator}" for operator in self.operators)]
        lines += [f"    minimize({each.loss.name}) by {each.optimizer}" for each in self.trainings]
        return "\n".join([*lines, "}"])

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        return str(self)


def _as_test(operator: Operator) -> Operator:
    parameter = operator.operation.signature.parameters.get("training")
    if parameter is None or operator.arguments.get("training", parameter.default) is not True:
        return operator
    return Operator(operator.operation, {**operator.arguments, "training": False}, operator.results)


class _Defaults:
    main = Program()
    startup = Program()


def default_main_program() -> Program:
    """The program that operations are recorded in."""
    return _Defaults.main


def default_startup_program() -> Program:
    """The program that gives parameters their first values."""
    return _Defaults.startup


@contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Iterator[None]:
    """Inside, operations go to these programs."""
    for program in (main_program, startup_program):
        if program is not None and not isinstance(program, Program):
            raise InvalidArgument(f"program_guard takes programs, not {program!r}")
    before = _Defaults.main, _Defaults.startup
    _Defaults.main = main_program
    if startup_program is not None:
        _Defaults.startup = startup_program
    try:
        yield
    finally:
        _Defaults.main, _Defaults.startup = before
