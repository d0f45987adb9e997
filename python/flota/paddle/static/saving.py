"""``paddle.static.save`` and ``load``: a program's values in files that ``paddle.load`` reads too."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flota.errors import CheckpointError, InvalidArgument
from flota.paddle.graph import state
from flota.paddle.graph.program import Program
from flota.paddle.graph.scope import global_scope
from flota.paddle.graph.variable import Variable
from flota.paddle.nn.saving import load as load_file
from flota.paddle.nn.saving import save as save_file

_PARAMETERS, _OPTIMIZER, _MODEL = ".pdparams", ".pdopt", ".pdmodel"


def save(program: Program, model_path: str, protocol: int = 4, **configs: Any) -> None:
    """Writes ``model_path``.pdparams (parameters by name), .pdopt (what optimizers keep, counters and statistics) and
    .pdmodel (the program, for people). ``protocol`` is another format's.

    In a job, parameters and rows are as the servers have them; what optimizers keep is saved by
    ``fleet.save_persistables``.
    """
    if configs:
        raise InvalidArgument(f"save: there is no option {', '.join(configs)}")
    prefix = _prefix(model_path)
    scope = global_scope()
    if any(training.optimizer.distributed for training in program.trainings) and scope.served:
        warnings.warn(
            "what the optimizer keeps is on the servers, and is not saved: use fleet.save_persistables", stacklevel=2
        )
    save_file({each.name: state.read(each, scope) for each in state.parameters(program)}, prefix + _PARAMETERS)
    kept = {each.name: state.read(each, scope) for each in state.others(program)}
    save_file({**kept, **state.read_optimizers(program, scope)}, prefix + _OPTIMIZER)
    Path(prefix + _MODEL).write_text(str(program) + "\n")


def load(program: Program, model_path: str, executor: Any = None, var_list: Iterable[Any] | None = None) -> None:
    """Brings the values back into the program's variables, or into those of ``var_list``."""
    prefix = _prefix(model_path)
    for ending in (_PARAMETERS, _OPTIMIZER):
        if prefix.endswith(ending):
            prefix = prefix.removesuffix(ending)
    saved = load_program_state(prefix)
    if var_list is not None:
        names = [each if isinstance(each, str) else each.name for each in var_list]
        if strange := [name for name in names if name not in saved]:
            raise CheckpointError(f"load: {prefix}{_PARAMETERS} has no {', '.join(map(repr, strange))}")
        set_program_state(program, {name: saved[name] for name in names})
        return
    scope = global_scope()
    wanted = {each.name: each for each in state.parameters(program)}
    if missing := [name for name in wanted if name not in saved]:
        raise CheckpointError(
            f"load: {prefix}{_PARAMETERS} has no {', '.join(map(repr, missing))}, which the program has"
        )
    for name, variable in wanted.items():
        state.write(variable, saved[name], scope)
    counters = {each.name: each for each in state.others(program)}
    if not counters and not program.trainings:
        return
    rest = _read(prefix + _OPTIMIZER)
    for name, variable in counters.items():
        if name in rest:
            state.write(variable, rest[name], scope)
    if program.trainings:
        state.write_optimizers(program, {key: value for key, value in rest.items() if key not in counters}, scope)


def load_program_state(model_path: str, var_list: Iterable[Any] | None = None) -> dict[str, Any]:
    """The saved parameters as arrays by name."""
    saved = _read(_prefix(model_path) + _PARAMETERS)
    if var_list is None:
        return saved
    names = {each if isinstance(each, str) else each.name for each in var_list}
    return {name: value for name, value in saved.items() if name in names}


def set_program_state(program: Program, state_dict: Mapping[str, Any]) -> None:
    """Sets those of the program's variables that the state names."""
    for name, value in state_dict.items():
        variable = program.variables.get(name)
        if not isinstance(variable, Variable):
            warnings.warn(f"the program has no variable {name!r}: its value is not used", stacklevel=2)
            continue
        state.write(variable, value, global_scope())


def _prefix(path: Any) -> str:
    text = str(os.fspath(path))
    if not Path(text).name or text.endswith("/"):
        raise InvalidArgument(f"{text!r} is a folder: give the beginning of the files' names too, as in 'folder/model'")
    return text


def _read(path: str) -> dict[str, Any]:
    if not Path(path).is_file():
        raise CheckpointError(f"load: there is no file {path}")
    found = load_file(path, return_numpy=True)
    if not isinstance(found, dict):
        raise CheckpointError(f"load: {path} holds no values by name")
    return found
