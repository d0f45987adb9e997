"""A program and its values in two files: one of JSON that says what is computed, one of safetensors with the numbers.

The first proves itself and the second by checksums. Nothing in them is run: operations are looked up by name.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch

from flota.communicator.contents import all_rows, assign, spec_of
from flota.communicator.stores import LocalStore
from flota.errors import CheckpointError, InvalidArgument
from flota.initializer import INITIALIZERS, Constant, from_native
from flota.nn.table import TableOptions, TableParameter
from flota.paddle.graph import serial
from flota.paddle.graph.compiled import needed
from flota.paddle.graph.program import Program
from flota.paddle.graph.scope import Scope
from flota.paddle.graph.training import hold
from flota.paddle.graph.variable import ParameterVariable, Variable
from flota.rules import SGD

_FORMAT = "flota program"
_VALUE, _KEYS, _ROWS = "value/", "keys/", "rows/"

Arrays = dict[str, np.ndarray]


def write(
    model: Path, numbers: Path, program: Program, feeds: Sequence[str], fetches: Sequence[str], scope: Scope
) -> None:
    """Writes what the fetched variables need of the program, given the fed ones, with all rows of its tables."""
    test = program.clone(for_test=True)
    for name in (*feeds, *fetches):
        if name not in test.variables:
            raise InvalidArgument(f"the program has no variable {name!r}")
    operators = needed(test, fetches, feeds)
    arrays: Arrays = {}
    text = serial.to_json(operators, [test.variables[name] for name in (*feeds, *fetches)], arrays)
    tables: dict[str, Any] = {}
    for described in text["given"]:
        name = described["name"]
        if described["kind"] == "data":
            if name not in feeds:
                raise InvalidArgument(
                    f"{', '.join(fetches)} cannot be computed from {', '.join(feeds)}: it needs {name!r} too"
                )
            continue
        _add_value(name, test.variables[name], scope, arrays, tables)
    body = {"format": _FORMAT, "program": text, "feeds": list(feeds), "fetches": list(fetches), "tables": tables}
    for path in {model.parent, numbers.parent}:
        path.mkdir(parents=True, exist_ok=True)
    checksum = _publish(numbers, lambda path: safetensors.numpy.save_file(arrays, path))
    spelt = _spell({**body, "numbers": checksum})
    whole = _spell({**body, "numbers": checksum, "checksum": hashlib.sha256(spelt).hexdigest()})
    _publish(model, lambda path: Path(path).write_bytes(whole))


def _add_value(name: str, variable: Variable, scope: Scope, arrays: Arrays, tables: dict[str, Any]) -> None:
    if isinstance(variable, ParameterVariable) and variable.attributes.table:
        hold(variable, scope)
    held = scope.values.get(name)
    if held is None:
        raise InvalidArgument(f"{name!r} has no value to save: run the startup program first")
    if isinstance(held, TableParameter):
        keys, rows = all_rows(held.bound())
        arrays |= {_KEYS + name: keys, _ROWS + name: np.ascontiguousarray(rows)}
        tables[name] = _beginning(name, held, scope)
    else:
        arrays[_VALUE + name] = np.ascontiguousarray(held.detach().cpu().numpy())


def _beginning(name: str, table: TableParameter, scope: Scope) -> dict[str, Any]:
    """What ids give that have no row. Where ids have an end, what they have begun with, as the parameter would have it;
    else what flota serves for unknown ones."""
    spec = spec_of(table.bound())
    init = from_native(spec.init)
    first = init if name in scope.table_rows else Constant(init.average())
    return {"kind": type(first).__name__, "settings": asdict(first), "seed": spec.seed}


def read(model: Path, numbers: Path) -> tuple[Program, list[str], list[Variable]]:
    """The program, which brings its values, the variables that it is fed, and those that it was saved for."""
    body = _read_json(model)
    arrays = _read_numbers(numbers, body["numbers"], model)
    try:
        program = serial.from_json(body["program"], arrays)
        program.scope = Scope()
        for name in (each["name"] for each in body["program"]["given"] if each["kind"] != "data"):
            program.scope.given.add(name)
            if name in body["tables"]:
                keys, rows = arrays[_KEYS + name], arrays[_ROWS + name]
                program.scope.values[name] = _frozen(name, program, body["tables"][name], keys, rows)
            else:
                program.scope.values[name] = torch.from_numpy(arrays[_VALUE + name].copy())
        return program, list(body["feeds"]), [program.variables[name] for name in body["fetches"]]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, InvalidArgument) as error:
        raise CheckpointError(f"{model} makes no sense: {type(error).__name__}: {error}") from error


def _frozen(
    name: str, program: Program, first: Mapping[str, Any], keys: np.ndarray, rows: np.ndarray
) -> TableParameter:
    variable = program.variables[name]
    init = INITIALIZERS[first["kind"]](**first["settings"])
    options = TableOptions(name, variable.shape[-1], init, first["seed"])
    handle = TableParameter.make(options)
    handle.store = LocalStore(options, SGD())
    assign(handle.store, keys, rows)
    assert program.scope is not None
    if isinstance(variable, ParameterVariable) and variable.attributes.bounded:
        program.scope.table_rows[name] = variable.shape[0]
    handle.requires_grad_(False)
    return handle


# --- files ---


def _spell(body: Mapping[str, Any]) -> bytes:
    return (json.dumps(body, indent=1, sort_keys=True) + "\n").encode()


def _publish(path: Path, write_to: Callable[[str], Any]) -> str:
    """Writes a file beside the one that it replaces, and returns its checksum."""
    if path.is_dir():
        raise InvalidArgument(f"{path} is a folder: give the name of a file")
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        write_to(beside)
        checksum = _checksum(Path(beside))
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
    return checksum


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise CheckpointError(f"there is no model {path}")
    data = path.read_bytes()
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged, or no model that flota has saved ({error})") from error
    if not isinstance(body, dict) or body.get("format") != _FORMAT:
        raise CheckpointError(f"{path} is no model that flota has saved")
    checksum = body.pop("checksum", None)
    if checksum != hashlib.sha256(_spell(body)).hexdigest():
        raise CheckpointError(f"{path} is damaged: its checksum does not fit its contents")
    return body


def _read_numbers(path: Path, checksum: str, model: Path) -> Arrays:
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}, which {model} needs")
    if _checksum(path) != checksum:
        raise CheckpointError(f"{path} is damaged, or was not saved together with {model}: its checksum is another")
    try:
        return safetensors.numpy.load_file(path)
    except (safetensors.SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path} is no file of numbers: {error}") from error
