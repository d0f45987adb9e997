"""One operation of a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from flota.errors import InvalidArgument
from flota.paddle.graph.variable import Variable
from flota.paddle.jagged import by_values
from flota.paddle.ops.registry import Operation, operands_in

_OUT = "Out"  # all results: they have one name here


@dataclass
class Operator:
    """One operation of a program: its arguments by name, with variables where values will be, and its results."""

    operation: Operation
    arguments: dict[str, Any]
    results: Any  # a variable, or lists of them; None: nobody wants it

    @property
    def type(self) -> str:
        return self.operation.name

    def inputs(self) -> Iterator[Variable]:
        for operand in operands_in(self.arguments):
            assert isinstance(operand, Variable)
            yield operand

    def outputs(self) -> Iterator[Variable]:
        for operand in operands_in(self.results):
            assert isinstance(operand, Variable)
            yield operand

    def kernel(self) -> Callable[..., Any]:
        """What computes it: the operation's own kernel, or that by the values of sequences."""
        if self.operation.sequences or not any(variable.lod_level for variable in self.inputs()):
            return self.operation.kernel
        return by_values(self.operation.kernel)

    # --- as scripts that look into programs know it ---

    @property
    def input_arg_names(self) -> list[str]:
        return [variable.name for variable in self.inputs()]

    @property
    def output_arg_names(self) -> list[str]:
        return [variable.name for variable in self.outputs()]

    @property
    def input_names(self) -> list[str]:
        """The arguments that are variables."""
        return [name for name, value in self.arguments.items() if any(True for _ in operands_in(value))]

    @property
    def output_names(self) -> list[str]:
        return [_OUT]

    def input(self, name: str) -> list[str]:
        """The variables of an argument, which scripts may write with a capital."""
        for known in self.input_names:
            if known.lower() == name.lower():
                found = operands_in(self.arguments[known])
                return [variable.name for variable in found if isinstance(variable, Variable)]
        raise InvalidArgument(f"{self.type} has no input {name!r}: it has {', '.join(self.input_names) or 'none'}")

    def output(self, name: str) -> list[str]:
        if name != _OUT:
            raise InvalidArgument(f"{self.type} has no output {name!r}: all its results are {_OUT!r}")
        return self.output_arg_names

    def attr(self, name: str) -> Any:
        return self.arguments[name]

    def has_attr(self, name: str) -> bool:
        return name in self.arguments

    @property
    def attr_names(self) -> list[str]:
        """The arguments that are plain values."""
        return [name for name in self.arguments if name not in self.input_names]

    def all_attrs(self) -> dict[str, Any]:
        return {name: self.arguments[name] for name in self.attr_names}

    def __str__(self) -> str:
        def text(value: Any) -> str:
            if isinstance(value, Variable):
                return value.name
            if isinstance(value, (list, tuple)):
                return "[" + ", ".join(map(text, value)) + "]"
            return repr(value)

        given = ", ".join(f"{name}={text(value)}" for name, value in self.arguments.items())
        return f"{text(self.results)} = {self.type}({given})"
