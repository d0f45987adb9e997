"""Saving and loading what a job trains, for ``fleet``: the same format with servers and without."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from flota import _core
from flota.checkpoint.job import check_same, check_state, load_job, load_rows, save_job
from flota.checkpoint.lines import add_table, begin, chain, read_all
from flota.checkpoint.manifest import SaveMode
from flota.checkpoint.parameters import parameter_of, put_back
from flota.checkpoint.places import Place, place_of
from flota.checkpoint.position import going_on, to_json, told
from flota.checkpoint.reader import Checkpoint
from flota.checkpoint.writer import CheckpointWriter
from flota.client import Client
from flota.communicator.contents import Keys, assign, forget_ahead, spec_of
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import Job, dense_names
from flota.communicator.stores import LocalStore
from flota.data.leases import TEST_PREFIX, own_coordinator
from flota.data.reading import tell_trained
from flota.errors import MAY_PASS, CheckpointError, FlotaError
from flota.initializer import Constant
from flota.log import say
from flota.nn.table import TableParameter
from flota.optim import counts_steps, rule_of
from flota.rules import SGD, Rule

Path = str | os.PathLike[str]
Rows = tuple[Keys, npt.NDArray[np.float32]]


def model_tables(optimizer: DistributedOptimizer) -> set[str]:
    """The names of all tables that the optimizer trains."""
    names = dense_names(optimizer)
    dense = {names[parameter] for parameter, _ in optimizer.dense() if parameter.requires_grad}
    return dense | {handle.options.name for handle, _ in optimizer.tables()}


def check_tables(
    optimizer: DistributedOptimizer, saved: set[str], where: str, tell: bool = True, partial: bool = False
) -> None:
    """Every table of the model must have been saved; one that was saved and is not the model's is told. ``partial``:
    some are enough, and which are not there is told."""
    model = model_tables(optimizer)
    missing = model - saved
    if missing and partial and missing != model:
        warnings.warn(f"{where} has no tables {', '.join(sorted(missing))}: they stay as they are", stacklevel=4)
    elif missing:
        raise CheckpointError(
            f"{where} has no table {', '.join(map(repr, sorted(missing)))}, which the model has; it has "
            f"{', '.join(map(repr, sorted(saved))) or 'none'}"
        )
    if tell and (extra := saved - model):
        warnings.warn(f"{where} has tables that the model has not: {', '.join(sorted(extra))}", stacklevel=4)


# --- servers that began with a checkpoint ---


@dataclass(frozen=True)
class Restored:
    """What servers that began with a checkpoint say about it."""

    step: int
    tables: set[str]


def restored(client: Client) -> Restored | None:
    """What the servers were restored from; None if they began empty. All of them must say the same."""
    servers = client.statistics()
    seen = {server.values["checkpoint"] for server in servers}
    if seen == {0}:
        return None
    if len(seen) > 1:
        without = [server.endpoint for server in servers if server.values["checkpoint"] == 0]
        what = f"{', '.join(without)} began with none" if without else "they began with different ones"
        raise CheckpointError(f"the servers did not all begin with the same checkpoint: {what}; restart them all")
    tables = {name for server in servers for name, values in server.tables.items() if values["restored"]}
    return Restored(servers[0].values["checkpoint_step"], tables)


def begin_rows(optimizer: DistributedOptimizer, job: Job | None, rows: Sequence[tuple[TableParameter, Rows]]) -> None:
    """Before training, tables that do not begin as their initialisers say get these rows. Every worker calls it; worker
    0's rows are the job's, unless the servers began with a checkpoint."""
    if job is None:
        for handle, (keys, values) in rows:
            assign(handle.bound(), keys, values)
        return
    here = b"" if not rows or restored(job.client) is not None else b"rows"
    first = job.gather("flota/begin_rows", here)[0]
    if not first:
        return
    # A worker 0 that was started again must not bring them a second time, over what was trained since.
    if job.rank == 0 and not job.client.passed("flota/rows_begun"):
        begun = {name for server in job.client.statistics() for name, told in server.tables.items() if told["restored"]}
        for handle, (keys, values) in rows:
            if handle.options.name not in begun:
                assign(handle.bound(), keys, values)
    job.barrier("flota/rows_begun")
    _resume(optimizer, optimizer.steps)


# --- saving ---


def save(
    optimizer: DistributedOptimizer,
    client: Client | None,
    dirname: Path,
    source: dict[str, Any],
    files: Mapping[str, bytes] | None = None,
    mode: SaveMode = "all",
    before: Place | None = None,
) -> Place:
    """Saves the servers' tables, or, without servers, this process's; returns where. ``files``: what else belongs to
    it; ``before``: what a delta goes on from."""
    assert optimizer.communicator is not None
    optimizer.communicator.settle()
    tell_trained()
    # Before the tables: what it counts as trained is in them.
    states = own_coordinator().states() if client is None else client.native.lease_states(client.time(None))
    data = to_json([state for state in states if not state[0].startswith(TEST_PREFIX)])
    target = place_of(dirname)
    if client is not None:
        save_job(
            client, target, optimizer.steps, source, data, files or {}, mode, before, optimizer.communicator.check_whole
        )
        return target
    _refuse_what_no_rule_stands_for(optimizer)
    names = dense_names(optimizer)
    tables = {handle.options.name: _local(handle).lasting for handle in _handles(optimizer)}
    line = begin(tables, mode, target, before)
    steps = optimizer.steps
    with CheckpointWriter(target, step=steps, source=source, data=data, line=line.in_manifest()) as writer:
        for table in tables.values():
            add_table(writer, table, line)
        for parameter, group in optimizer.dense():
            if not parameter.requires_grad:
                continue
            rule = rule_of(optimizer.wrapped, group)
            whole = parameter_of(parameter, optimizer.state.get(parameter, {}), rule, optimizer.steps)
            writer.add_parameter(
                _dense_spec(names[parameter], parameter, rule),
                whole.weights,
                whole.state,
                updates=whole.updates,
                last_seen=whole.last_seen,
            )
        for name, contents in (files or {}).items():
            writer.add_bytes(name, contents)
        writer.publish()
    return target


def _refuse_what_no_rule_stands_for(optimizer: DistributedOptimizer) -> None:
    """State that only one of torch's optimizers understands has no place in a checkpoint."""
    for handle, group in optimizer.tables():
        if handle.options.rule is None:
            rule_of(optimizer.wrapped, group)


def _handles(optimizer: DistributedOptimizer) -> Iterator[TableParameter]:
    """The handle of each table, once."""
    yield from {handle.options.name: handle for handle, _ in optimizer.tables()}.values()


def _local(handle: TableParameter) -> LocalStore:
    store = handle.bound()
    assert isinstance(store, LocalStore)
    return store


def _dense_spec(name: str, parameter: torch.nn.Parameter, rule: Rule) -> _core.TableSpec:
    """What the table of this parameter is on servers."""
    spec = _core.TableSpec()
    spec.name = name
    spec.kind = _core.TableKind.dense
    spec.shape = list(parameter.shape)
    spec.seed = _core.hash_name(name)
    spec.rule = rule.to_native()
    spec.init = Constant(0.0).to_native()
    return spec


# --- loading ---


def load_local(optimizer: DistributedOptimizer, dirname: Path, weights_only: bool = False) -> None:
    """Loads into this process's tables and parameters. Nothing changes before all settings have been compared, and all
    files checked."""
    if not weights_only:
        _refuse_what_no_rule_stands_for(optimizer)
    checkpoint = Checkpoint(dirname)
    check_state(checkpoint, weights_only)
    chain(checkpoint)
    check_tables(
        optimizer, set(checkpoint.manifest.tables), str(checkpoint.path), partial=weights_only and checkpoint.partial
    )
    names = dense_names(optimizer)
    dense = {names[parameter]: (parameter, group) for parameter, group in optimizer.dense() if parameter.requires_grad}
    dense = {name: each for name, each in dense.items() if name in checkpoint.manifest.tables}
    handles = [handle for handle in _handles(optimizer) if handle.options.name in checkpoint.manifest.tables]
    for name, (parameter, group) in dense.items():
        rule = SGD() if weights_only else rule_of(optimizer.wrapped, group)
        check_same(checkpoint, name, _dense_spec(name, parameter, rule), weights_only)
    for handle in handles:
        check_same(checkpoint, handle.options.name, spec_of(handle.bound()), weights_only)
    for _ in read_all(checkpoint):
        pass
    for handle in handles:
        for _ in load_rows(_local(handle).lasting, checkpoint, weights_only):
            pass
    for name, values in checkpoint.parameters():
        if name in dense:
            parameter, _ = dense[name]
            state: dict[str, Any] = {} if weights_only else optimizer.state[parameter]
            put_back(parameter, state, values, counts_steps(optimizer.wrapped))
    if weights_only:
        return
    _go_on_with_data(checkpoint)
    _resume(optimizer, checkpoint.step)


def _go_on_with_data(checkpoint: Checkpoint) -> None:
    states = going_on(checkpoint.manifest.data)
    own_coordinator().restore(states)
    if what := told(states):
        say("data_position", f"{checkpoint.path}: {what}")


def load_remote(optimizer: DistributedOptimizer, job: Job, dirname: Path, weights_only: bool = False) -> None:
    """Every worker calls it. Worker 0 loads into the servers' tables; then all take the dense parameters.

    While it loads, worker 0 tells the others now and then that it is alive, so that they wait as long as it takes and
    still notice if it is gone; if it fails, all raise what it says.
    """
    job.barrier("flota/load")
    before = _said_before(job)
    if before is not None:
        step = before
    elif job.rank != 0:
        step = _wait_for_first(job)
    else:
        try:
            step = _load_as_first(optimizer, job, dirname, weights_only)
        except MAY_PASS:
            raise  # this worker may be started again, and then loads it
        except FlotaError as error:
            _tell(job, b"failed", str(error).encode())
            raise
    _resume(optimizer, step)


def _load_as_first(optimizer: DistributedOptimizer, job: Job, dirname: Path, weights_only: bool) -> int:
    checkpoint = Checkpoint(dirname)
    check_state(checkpoint, weights_only)
    check_tables(
        optimizer, set(checkpoint.manifest.tables), str(checkpoint.path), partial=weights_only and checkpoint.partial
    )
    last = time.monotonic()
    for _ in load_job(job.client, checkpoint, weights_only):
        if time.monotonic() - last > job.client.timeout / 4:
            _tell(job, b"more")
            last = time.monotonic()
    if not weights_only and (what := told(going_on(checkpoint.manifest.data))):
        say("data_position", f"{checkpoint.path}: {what}")
    step = optimizer.steps if weights_only else checkpoint.step
    _tell(job, b"done", str(step).encode())
    return step


def _tell(job: Job, *parts: bytes) -> list[bytes]:
    return job.gather("flota/loaded", b" ".join(parts))


def _wait_for_first(job: Job) -> int:
    while True:
        step = _step_in(_tell(job)[0])
        if step is not None:
            return step


def _step_in(said: bytes) -> int | None:
    """The step that was loaded; None: not yet."""
    word, _, rest = said.partition(b" ")
    if word == b"failed":
        raise CheckpointError(f"worker 0 could not load the checkpoint: {rest.decode()}")
    return int(rest) if word == b"done" else None


def _said_before(job: Job) -> int | None:
    """The step that was loaded before this worker was started again. None: it was not, or not to its end; then it is
    loaded from the beginning, which nobody has gone on from."""
    while job.client.passed("flota/loaded"):
        step = _step_in(_tell(job)[0])
        if step is not None:
            return step
    return None


def _resume(optimizer: DistributedOptimizer, step: int) -> None:
    optimizer.steps = step
    forget_ahead(optimizer)
    assert optimizer.communicator is not None
    optimizer.communicator.loaded(optimizer)


def resume_restored(optimizer: DistributedOptimizer, found: Restored | None) -> None:
    """Counts on from where the servers' checkpoint was saved."""
    if found is not None:
        _resume(optimizer, found.step)
