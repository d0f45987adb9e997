"""What a job trains, saved and brought back: tables as flota saves them, and what else the program keeps."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flota
import flota.fleet
from flota.checkpoint.reader import Checkpoint
from flota.errors import InvalidArgument
from flota.paddle.distributed.job import trained_program
from flota.paddle.graph import state
from flota.paddle.graph.program import Program
from flota.paddle.graph.scope import Scope, global_scope
from flota.paddle.graph.variable import ParameterVariable, Variable
from flota.paddle.nn.saving import load as load_file
from flota.paddle.nn.saving import save as save_file
from flota.paddle.static.inference import save_into

_KEPT = "kept.safetensors"
_MODES = {0: "all", 1: "delta", 2: "base", 3: "all"}


def _kept(program: Program) -> dict[str, Variable]:
    """What is not trained and stays from run to run: it lives in workers."""
    found = [each for each in program.variables.values() if each.persistable]
    return {each.name: each for each in found if not (isinstance(each, ParameterVariable) and each.trainable)}


def _mode(call: str, mode: Any) -> str:
    if isinstance(mode, bool) or mode not in _MODES:
        raise InvalidArgument(f"{call}: mode={mode!r}: give 0 (all), 1 (delta), 2 (base) or 3 (all)")
    return _MODES[mode]


def save_persistables(executor: Any, dirname: str, main_program: Program | None = None, mode: int = 0) -> None:
    """Saves all tables with their optimizers' state, and worker 0's counters and statistics. Worker 0 writes.

    ``mode``: 0 everything; 1 the rows that have changed since the last save of mode 1 or 2, and which are gone; 2
    everything, for those of mode 1 to follow; 3 as 0."""
    kind = _mode("save_persistables", mode)
    program = trained_program() if main_program is None else main_program
    scope = global_scope()
    held = {name: state.read(each, scope) for name, each in _kept(program).items() if name in scope.values}
    contents = io.BytesIO()
    save_file(held, contents)
    flota.fleet.save_persistables(dirname, mode=kind, files={_KEPT: contents.getvalue()})


def load_model(path: str, mode: int = 0) -> None:
    """Brings back what ``save_persistables`` saved, on any number of servers. Every worker calls it. What was saved
    with which ``mode`` the folder itself says."""
    _mode("load_model", mode)
    flota.load_model(path)
    _load_kept(path, trained_program(), global_scope())


def load_weights(path: str) -> None:
    """The same without what optimizers keep."""
    flota.load_model(path, weights_only=True)
    _load_kept(path, trained_program(), global_scope())


def _load_kept(path: str, program: Program, scope: Scope) -> None:
    """As worker 0 reads it: others may not see the folder."""
    mine = b""
    if flota.is_first_worker():
        checkpoint = Checkpoint(path)
        mine = checkpoint.bytes_of(_KEPT) if _KEPT in checkpoint.manifest.files else b""
    contents = flota.fleet.fleet.gather("kept", mine)[0]
    if not contents:
        return  # saved by a script that has no program
    saved = load_file(io.BytesIO(contents), return_numpy=True)
    for name, variable in _kept(program).items():
        if name in saved:
            state.write(variable, saved[name], scope)


def save_inference_model(
    executor: Any,
    dirname: str,
    feeded_var_names: Sequence[str],
    target_vars: Any,
    main_program: Program | None = None,
    export_for_deployment: bool = True,
    mode: int = 0,
) -> None:
    """Saves what is needed to compute ``target_vars``, with all rows of the tables. Worker 0 writes.
    ``paddle.static.load_inference_model(dirname, executor)`` reads it, and needs no servers."""
    if mode != 0 or not export_for_deployment:
        raise InvalidArgument("save_inference_model: a whole model to serve is saved: leave mode and export_… out")
    flota.fleet.fleet.settle()
    if flota.is_first_worker():
        save_into(dirname, feeded_var_names, target_vars, main_program or trained_program())


def save(dirname: str, feed: Sequence[Any] = (), fetch: Sequence[Any] = (), **configs: Any) -> None:
    """With ``feed`` and ``fetch`` a model to serve, without them all tables."""
    if configs:
        raise InvalidArgument(f"fleet.save: there is no option {', '.join(configs)}")
    if bool(feed) != bool(fetch):
        raise InvalidArgument("fleet.save: give feed and fetch for a model to serve, or neither to save all tables")
    if feed:
        save_inference_model(None, dirname, list(feed), list(fetch))
    else:
        save_persistables(None, dirname)


def load_inference_model(dirname: str, mode: int = 0) -> None:
    """The weights of a job's tables from what ``save_persistables`` saved, for training or inference to go on with."""
    if mode != 0:
        raise InvalidArgument(f"load_inference_model: mode={mode!r}: all weights are loaded, which is mode 0")
    if not Path(dirname).is_dir():
        raise InvalidArgument(f"load_inference_model: there is no folder {dirname}")
    load_weights(dirname)
