"""1.x's files of variables: one file in a folder, that ``paddle.load`` reads too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from flota.errors import CheckpointError, InvalidArgument
from flota.paddle.graph import state
from flota.paddle.graph.program import Program, default_main_program
from flota.paddle.graph.scope import global_scope
from flota.paddle.graph.variable import ParameterVariable, Variable
from flota.paddle.nn.saving import load as load_file
from flota.paddle.nn.saving import save as save_file
from flota.paddle.static import inference

_FILE = "__all__"

Predicate = Callable[[Variable], bool]


def save_vars(
    executor: Any,
    dirname: str,
    main_program: Program | None = None,
    vars: Iterable[Any] | None = None,
    predicate: Predicate | None = None,
    filename: str | None = None,
) -> None:
    """Saves the values of some variables, which keep them from run to run."""
    scope = global_scope()
    chosen = _chosen(main_program, vars, predicate)
    save_file({each.name: state.read(each, scope) for each in chosen}, Path(dirname) / (filename or _FILE))


def load_vars(
    executor: Any,
    dirname: str,
    main_program: Program | None = None,
    vars: Iterable[Any] | None = None,
    predicate: Predicate | None = None,
    filename: str | None = None,
) -> None:
    """Brings them back."""
    path = Path(dirname) / (filename or _FILE)
    if not path.is_file():
        raise CheckpointError(f"load: there is no file {path}")
    saved = load_file(path, return_numpy=True)
    chosen = _chosen(main_program, vars, predicate)
    if missing := [each.name for each in chosen if each.name not in saved]:
        raise CheckpointError(f"load: {path} has no {', '.join(map(repr, missing))}, which the program has")
    for each in chosen:
        state.write(each, saved[each.name], global_scope())


def _chosen(program: Program | None, wanted: Iterable[Any] | None, predicate: Predicate | None) -> list[Variable]:
    program = default_main_program() if program is None else program
    if wanted is not None:
        return [each if isinstance(each, Variable) else program.global_block().var(each) for each in wanted]
    if predicate is None:
        raise InvalidArgument("say which variables: give vars=[…] or predicate=…")
    return [each for each in program.variables.values() if predicate(each)]


def _is_kept(variable: Variable) -> bool:
    return variable.persistable


def _is_parameter(variable: Variable) -> bool:
    return isinstance(variable, ParameterVariable)


def save_persistables(
    executor: Any, dirname: str, main_program: Program | None = None, filename: str | None = None
) -> None:
    """Parameters, counters and statistics. What optimizers keep is saved by ``fluid.save``, and of a job by
    ``fleet.save_persistables``."""
    save_vars(executor, dirname, main_program, predicate=_is_kept, filename=filename)


def load_persistables(
    executor: Any, dirname: str, main_program: Program | None = None, filename: str | None = None
) -> None:
    load_vars(executor, dirname, main_program, predicate=_is_kept, filename=filename)


def save_params(executor: Any, dirname: str, main_program: Program | None = None, filename: str | None = None) -> None:
    save_vars(executor, dirname, main_program, predicate=_is_parameter, filename=filename)


def load_params(executor: Any, dirname: str, main_program: Program | None = None, filename: str | None = None) -> None:
    load_vars(executor, dirname, main_program, predicate=_is_parameter, filename=filename)


def save_inference_model(
    dirname: str,
    feeded_var_names: Sequence[str],
    target_vars: Any,
    executor: Any,
    main_program: Program | None = None,
    model_filename: str | None = None,
    params_filename: str | None = None,
    export_for_deployment: bool = True,
    program_only: bool = False,
) -> list[str]:
    """A model to serve, in a folder; returns the names of what it computes."""
    if program_only or not export_for_deployment:
        raise InvalidArgument("save_inference_model: program and values are saved together: leave program_only out")
    return inference.save_into(dirname, feeded_var_names, target_vars, main_program, model_filename, params_filename)


def load_inference_model(
    dirname: str,
    executor: Any,
    model_filename: str | None = None,
    params_filename: str | None = None,
    pserver_endpoints: Any = None,
) -> list[Any]:
    if pserver_endpoints is not None:
        raise InvalidArgument("load_inference_model: a saved model has all its rows: leave pserver_endpoints out")
    return inference.load_inference_model(
        dirname, executor, model_filename=model_filename, params_filename=params_filename
    )
