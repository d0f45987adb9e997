"""A program as one Python function: what is wanted of it, and nothing else.

Operations that nobody wants are left out, lookups of one table are made together (``lookups``), and the rest becomes
the lines of a function that names each value once. Running it walks no graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.nn.store import KeyRules
from flota.paddle.graph.fused import linear_layers
from flota.paddle.graph.lookups import (
    Lookups,
    ids_together,
    look_up_joined,
    look_up_together,
    lookups_joined,
    lookups_together,
)
from flota.paddle.graph.program import Operator, Program
from flota.paddle.graph.scope import Scope
from flota.paddle.graph.scoring import scored_by
from flota.paddle.graph.variable import Variable
from flota.paddle.jagged import Jagged
from flota.paddle.ops.registry import operands_in

Feed = Mapping[str, torch.Tensor | Jagged]


@dataclass(frozen=True)
class Compiled:
    """``function(feed, scope)`` returns the values that were asked for and sets the kept ones that have changed."""

    function: Callable[[Feed, Scope], tuple[Any, ...]]
    source: str
    needs: tuple[str, ...]  # variables that must be fed
    held: tuple[str, ...]  # variables that the scope must have
    scored: tuple[str, str] | None = None  # where tables count shows and clicks: the inputs that tell of them

    def __call__(self, feed: Feed, scope: Scope) -> tuple[Any, ...]:
        for name in self.needs:
            if name not in feed:
                raise InvalidArgument(f"the program needs a value for {name!r}, and the feed has none")
        for name in self.held:
            if name not in scope.values:
                raise InvalidArgument(f"{name!r} has no value yet: run the startup program first")
        return self.function(feed, scope)


def compile_program(program: Program, wanted: Sequence[str], training: bool) -> Compiled:
    """The function that computes these variables. ``training``: gradients flow, and tables make rows for new ids."""
    for name in wanted:
        if name not in program.variables:
            raise InvalidArgument(f"the program has no variable {name!r} to fetch")
    operators = linear_layers(lookups_joined(lookups_together(needed(program, wanted)), wanted), wanted, training)
    compiled = _Writer(program, training).write(operators, wanted)
    return replace(compiled, scored=scored_by(program, operators)) if training else compiled


def needed(program: Program, wanted: Sequence[str], given: Sequence[str] | None = None) -> list[Operator]:
    """The operations that these variables need, that keep something for the next run, or that have an effect. With
    ``given``, variables that have values, only those that are needed."""
    names = set(wanted) - set(given or ())
    found: list[Operator] = []
    for operator in reversed(program.operators):
        outputs = list(operator.outputs())
        acts = given is None and (operator.operation.effect or any(output.persistable for output in outputs))
        if acts or any(output.name in names for output in outputs):
            found.append(operator)
            names.update(variable.name for variable in operator.inputs())
            names -= set(given or ())
    return found[::-1]


# --- the function ---


def keep(scope: Scope, name: str, value: torch.Tensor) -> torch.Tensor:
    """Keeps a value for the next run. A parameter stays the object that it is, for its optimizer knows it; one that
    servers hold stays what they say."""
    held = scope.values.get(name)
    scope.given.add(name)
    if isinstance(held, torch.nn.Parameter):
        if name not in scope.served:
            with torch.no_grad():
                held.copy_(value)
        return held
    kept = scope.values[name] = value.detach()
    return kept


class _Writer:
    """Writes the function's lines."""

    def __init__(self, program: Program, training: bool) -> None:
        self._program = program
        self._training = training
        self._lines: list[str] = []
        self._globals: dict[str, Any] = {
            "look_up_together": look_up_together,
            "look_up_joined": look_up_joined,
            "ids_together": ids_together,
            "keep": keep,
        }
        self._locals: dict[str, str] = {}
        self._count = 0
        self._needs: list[str] = []
        self._held: list[str] = []

    def write(self, operators: Sequence[Operator | Lookups], wanted: Sequence[str]) -> Compiled:
        for each in operators:
            if isinstance(each, Lookups):
                self._write_lookups(each)
            else:
                self._write_operator(each)
        results = "".join(f"{self._value(self._program.variables[name])}, " for name in wanted)
        lines = ["def run(feed, scope):", "    values = scope.values", *self._lines, f"    return ({results})"]
        source = "\n".join(lines) + "\n"
        exec(compile(source, "<program>", "exec"), self._globals)
        return Compiled(self._globals["run"], source, tuple(self._needs), tuple(self._held))

    def _line(self, text: str) -> None:
        self._lines.append("    " + text)

    def _constant(self, value: Any) -> str:
        if value is None or isinstance(value, (bool, int, str)):
            return repr(value)
        name = f"c{len(self._globals)}"
        self._globals[name] = value
        return name

    def _value(self, variable: Variable) -> str:
        """The local name of a value, which is fetched from the feed or the scope if nothing has made it."""
        known = self._locals.get(variable.name)
        if known is not None:
            return known
        local = self._new(variable)
        if variable.persistable:
            self._held.append(variable.name)
            self._line(f"{local} = values[{variable.name!r}]")
        else:
            self._needs.append(variable.name)
            self._line(f"{local} = feed[{variable.name!r}]")
        return local

    def _new(self, variable: Variable) -> str:
        self._count += 1
        self._locals[variable.name] = f"v{self._count}"
        return self._locals[variable.name]

    def _argument(self, value: Any) -> str:
        if isinstance(value, Variable):
            return self._value(value)
        if isinstance(value, (list, tuple)) and any(True for _ in operands_in(value)):
            parts = "".join(f"{self._argument(each)}, " for each in value)
            return f"[{parts}]" if isinstance(value, list) else f"({parts})"
        if isinstance(value, slice) and any(True for _ in operands_in(value)):
            return f"slice({', '.join(map(self._argument, (value.start, value.stop, value.step)))})"
        return self._constant(value)

    def _write_operator(self, operator: Operator) -> None:
        arguments = ", ".join(f"{name}={self._argument(value)}" for name, value in operator.arguments.items())
        kernel = self._constant(operator.kernel())
        outputs = list(operator.outputs())
        target = self._target(operator.results)
        self._line(f"{target} = {kernel}({arguments})" if outputs else f"{kernel}({arguments})")
        self._finish(outputs)

    def _target(self, results: Any) -> str:
        if isinstance(results, Variable):
            return self._new(results)
        if isinstance(results, (list, tuple)):
            return "(" + "".join(f"{self._target(each)}, " for each in results) + ")"
        return "_"

    def _finish(self, outputs: Sequence[Variable]) -> None:
        for output in outputs:
            local = self._locals[output.name]
            if output.persistable:
                self._line(f"{local} = keep(scope, {output.name!r}, {local})")
            elif output.stop_gradient and self._training:
                self._line(f"{local} = {local}.detach() if hasattr({local}, 'detach') else {local}")

    def _write_lookups(self, lookups: Lookups) -> None:
        weight = lookups.operators[0].arguments["weight"]
        ids = "".join(f"{self._value(each)}, " for each in lookups.inputs())
        squeezes = tuple(operator.type == "lookup_table" for operator in lookups.operators)
        padding = lookups.operators[0].arguments.get("padding_idx")
        limit = weight.shape[0] if weight.attributes.bounded else None
        rules = self._constant(KeyRules(padding, limit))
        arguments = f"{self._value(weight)}, [{ids}], {self._constant(squeezes)}, {rules}, {self._training}"
        if lookups.joined is not None:
            names = tuple(each.name for each in lookups.inputs())
            fed = all(name in self._needs for name in names)
            known = f"ids_together(feed, {self._constant(names)})" if fed else None
            chains = self._constant(lookups.chains())
            self._line(f"{self._new(lookups.joined)} = look_up_joined({arguments}, {chains}, {known})")
            return
        targets = "".join(f"{self._new(each)}, " for each in lookups.outputs())
        self._line(f"({targets}) = look_up_together({arguments})")
        self._finish(list(lookups.outputs()))
