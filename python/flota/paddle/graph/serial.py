"""Programs as JSON: operations by name, with their arguments; no code, nothing to unpickle.

Arrays that are arguments go beside it, by number. Reading records every operation again, so that a program from another
release is checked as one that a script builds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from flota.errors import CheckpointError
from flota.paddle.attributes import ParamAttr, ParameterFacts
from flota.paddle.dtypes import as_dtype, name_of
from flota.paddle.graph.program import Operator, Program
from flota.paddle.graph.variable import ParameterVariable, Variable, sketches_of
from flota.paddle.initializer import Constant
from flota.paddle.ops.registry import OPERATIONS

VERSION = 1


def to_json(operators: Sequence[Operator], more: Sequence[Variable], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The operations, the variables that they use, and ``more`` of those. ``arrays`` is given the arrays that are
    arguments."""
    used = {variable.name: variable for operator in operators for variable in (*operator.inputs(), *operator.outputs())}
    used |= {variable.name: variable for variable in more}
    made = {output.name for operator in operators for output in operator.outputs()}
    return {
        "version": VERSION,
        "given": [_describe(each) for each in used.values() if each.name not in made or each.persistable],
        "operators": [
            {
                "type": operator.type,
                "arguments": {name: _encode(value, arrays) for name, value in operator.arguments.items()},
                "results": _encode(operator.results, arrays),
            }
            for operator in operators
        ],
    }


def from_json(text: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Program:
    """The program; its variables have the names that they had."""
    if text.get("version") != VERSION:
        raise CheckpointError(f"the program has version {text.get('version')!r}; this release reads {VERSION}")
    program = Program()
    for described in text["given"]:
        program.add(_variable(program, described))
    for operator in text["operators"]:
        if operator["type"] not in OPERATIONS:
            raise CheckpointError(
                f"the program has an operation {operator['type']!r}, which this release does not know"
            )
        arguments = {name: _decode(value, program, arrays) for name, value in operator["arguments"].items()}
        program.record_as(OPERATIONS[operator["type"]], arguments, _names(operator["results"]))
    return program


def _describe(variable: Variable) -> dict[str, Any]:
    parameter = isinstance(variable, ParameterVariable)
    return {
        "name": variable.name,
        "shape": list(variable.shape),
        "dtype": name_of(variable.dtype),
        "lod_level": variable.lod_level,
        "kind": "parameter" if parameter else "kept" if variable.persistable else "data",
        "table": bool(isinstance(variable, ParameterVariable) and variable.attributes.table),
        "bounded": bool(not isinstance(variable, ParameterVariable) or variable.attributes.bounded),
    }


def _variable(program: Program, described: Mapping[str, Any]) -> Variable:
    sketches = sketches_of(described["shape"], as_dtype(described["dtype"]), described["lod_level"])
    if described["kind"] == "parameter":
        attr = ParamAttr(name=described["name"], initializer=Constant(0.0), trainable=False)
        facts = ParameterFacts(attr, table=described["table"], bounded=described["bounded"])
        return ParameterVariable(program, described["name"], sketches, trainable=False, attributes=facts)
    return Variable(
        program,
        described["name"],
        sketches,
        persistable=described["kind"] == "kept",
        stop_gradient=True,
        is_data=described["kind"] == "data",
    )


def _encode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Variable):
        return {"variable": value.name}
    if isinstance(value, torch.dtype):
        return {"dtype": name_of(value)}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [_encode(each, arrays) for each in value]}
    if isinstance(value, slice):
        return {"slice": [_encode(each, arrays) for each in (value.start, value.stop, value.step)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, (np.ndarray, np.generic)):
        arrays[f"argument.{len(arrays)}"] = np.asarray(value)
        return {"array": f"argument.{len(arrays) - 1}"}
    raise CheckpointError(f"a program with the argument {value!r} cannot be saved")


def _decode(value: Any, program: Program, arrays: Mapping[str, np.ndarray]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    match kind:
        case "variable":
            return program.variables[held]
        case "dtype":
            return as_dtype(held)
        case "list":
            return [_decode(each, program, arrays) for each in held]
        case "tuple":
            return tuple(_decode(each, program, arrays) for each in held)
        case "slice":
            return slice(*(_decode(each, program, arrays) for each in held))
        case "ellipsis":
            return ...
        case "array":
            return arrays[held]
    raise CheckpointError(f"the program has an argument of an unknown kind, {kind!r}")


def _names(results: Any) -> list[str]:
    """The names of an operation's results, in order."""
    if isinstance(results, dict):
        ((kind, held),) = results.items()
        return [held] if kind == "variable" else [name for each in held for name in _names(each)]
    return []
