"""Models to serve: what is fetched, from what is fed, with the values that it needs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flota.checkpoint import manifest
from flota.checkpoint.folder import is_of_program
from flota.errors import InvalidArgument
from flota.paddle.graph import files
from flota.paddle.graph.compiled import needed
from flota.paddle.graph.program import Program, default_main_program
from flota.paddle.graph.scope import global_scope
from flota.paddle.graph.variable import Variable

MODEL_NAME, NUMBERS_NAME = "__model__", "__params__"


def save_inference_model(
    path_prefix: str,
    feed_vars: Any,
    fetch_vars: Any,
    executor: Any,
    *,
    program: Program | None = None,
    clip_extra: bool = True,
    legacy_format: bool = False,
) -> None:
    """Writes ``path_prefix``.pdmodel and .pdiparams: they need no servers, and no script. ``executor``, ``clip_extra``
    and ``legacy_format`` are of another format: everything needed is written."""
    prefix = os.fspath(path_prefix)
    if not Path(prefix).name or prefix.endswith("/"):
        raise InvalidArgument(f"{prefix!r} is a folder: give the beginning of the files' names too")
    feeds, fetches = names_of(feed_vars, "feed_vars"), names_of(fetch_vars, "fetch_vars")
    program = default_main_program() if program is None else program
    files.write(Path(prefix + ".pdmodel"), Path(prefix + ".pdiparams"), program, feeds, fetches, global_scope())


def save_into(
    dirname: str,
    feeds: Sequence[str],
    fetches: Any,
    program: Program | None,
    model_filename: str | None = None,
    params_filename: str | None = None,
) -> list[str]:
    """The same into a folder; returns the names of what it computes."""
    program = default_main_program() if program is None else program
    folder = Path(dirname)
    names = names_of(fetches, "target_vars")
    model, numbers = folder / (model_filename or MODEL_NAME), folder / (params_filename or NUMBERS_NAME)
    if (folder / manifest.NAME).exists() and not (is_of_program(model.name) and is_of_program(numbers.name)):
        raise InvalidArgument(
            f"{folder} holds a checkpoint: a program goes there as {MODEL_NAME} and {NUMBERS_NAME}, or elsewhere"
        )
    files.write(model, numbers, program, names_of(feeds, "feeded_var_names"), names, global_scope())
    return names


def load_inference_model(
    path_prefix: str,
    executor: Any,
    *,
    model_filename: str | None = None,
    params_filename: str | None = None,
) -> list[Any]:
    """The program, the names that it is fed, and the variables that it computes. It brings its values: they are those
    of the scope too, where that has none by their names."""
    path = Path(path_prefix)
    if path.is_dir():
        model, numbers = path / (model_filename or MODEL_NAME), path / (params_filename or NUMBERS_NAME)
    else:
        if model_filename is not None or params_filename is not None:
            raise InvalidArgument(f"model_filename and params_filename are files of a folder, and {path} is none")
        model, numbers = Path(f"{path_prefix}.pdmodel"), Path(f"{path_prefix}.pdiparams")
    program, feeds, fetches = files.read(model, numbers)
    scope = global_scope()
    for name, value in program.scope.values.items():
        if name not in scope.values:
            scope.values[name] = value
            scope.given.add(name)
            if name in program.scope.table_rows:
                scope.table_rows[name] = program.scope.table_rows[name]
    return [program, feeds, fetches]


def normalize_program(program: Program, feed_vars: Any, fetch_vars: Any, **configs: Any) -> Program:
    """What the fetched variables need of the program."""
    if configs.pop("skip_prune_program", False):
        raise InvalidArgument("normalize_program: skip_prune_program would have no effect: what is not needed goes")
    if configs:
        raise InvalidArgument(f"normalize_program: there is no option {', '.join(configs)}")
    made = program.clone(for_test=True)
    made.operators = needed(made, names_of(fetch_vars, "fetch_vars"), names_of(feed_vars, "feed_vars"))
    return made


def names_of(variables: Any, argument: str) -> list[str]:
    """Of a variable, a name, or several."""
    several = variables if isinstance(variables, (list, tuple)) else [variables]
    names = [each.name if isinstance(each, Variable) else each for each in several]
    if not names or not all(isinstance(each, str) for each in names):
        raise InvalidArgument(f"{argument}: give variables of the program, not {variables!r}")
    return names
