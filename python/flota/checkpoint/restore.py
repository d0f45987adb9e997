"""A checkpoint into a server that does not listen yet. Needs neither torch nor other servers."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from flota import _core
from flota.checkpoint.begun import begun_rows
from flota.checkpoint.lines import pieces
from flota.checkpoint.position import going_on
from flota.checkpoint.reader import Checkpoint
from flota.eras import RowsOf
from flota.errors import CheckpointError, FlotaError, InvalidArgument


def restore_server(
    server: _core.Server, dirname: str | os.PathLike[str], tables: Sequence[str] | None = None
) -> Checkpoint:
    """Gives a server its share of a checkpoint: rows by their shard, and dense parameters for when workers say how
    they are cut. Every file is checked, also where another server gets what is in it.

    ``tables``: only these, and only their weights: the job begins with them, but does not go on from the checkpoint.
    """
    checkpoint = Checkpoint(dirname)
    whole = tables is None and checkpoint.manifest.has_state
    wanted = _wanted(checkpoint, tables)
    try:
        for name in checkpoint.tables("sparse"):
            if name in wanted:
                _restore_table(server, checkpoint, name, whole)
        for name, parameter in checkpoint.parameters():
            if name in wanted:
                state = list(parameter.state.values()) if whole else []
                _restore_parameter(server, checkpoint, name, parameter.weights, state)
        if whole:
            # On every server: the one that is asked knows it.
            server.restore_leases(going_on(checkpoint.manifest.data))
    except CheckpointError:
        raise
    except FlotaError as error:
        raise CheckpointError(f"{checkpoint.path}: {error}") from error
    if whole:
        server.restored(checkpoint.manifest.identity(), checkpoint.step)
    return checkpoint


def _wanted(checkpoint: Checkpoint, tables: Sequence[str] | None) -> set[str]:
    there = set(checkpoint.manifest.tables)
    if tables is None:
        return there
    if isinstance(tables, str):
        raise InvalidArgument(f"tables is a list of names: give [{tables!r}]")
    # A script calls its parameters as its model does; servers know dense ones by a longer name.
    named = {name: name if name in there else f"dense/{name}" for name in tables}
    if unknown := [name for name, full in named.items() if full not in there]:
        raise CheckpointError(
            f"{checkpoint.path} has no table {', '.join(map(repr, unknown))}; it has "
            f"{', '.join(sorted(there)) or 'none'}"
        )
    return set(named.values())


def _restore_table(server: _core.Server, checkpoint: Checkpoint, name: str, whole: bool) -> None:
    table = checkpoint.manifest.tables[name]
    server.restore_table(table.spec(name))
    for part, page in pieces(checkpoint, name):
        if part == RowsOf.waiting and not whole:
            continue
        again = part == RowsOf.table and not whole
        for each in begun_rows(table.spec(name), page.keys, page.weights) if again else [page]:
            dim, state_floats = each.weights.shape[1], each.state.shape[1]
            columns = each.columns(f"table {name!r}", dim, state_floats)
            server.restore_rows(name, len(columns.keys), dim, state_floats, *columns.addresses(), part)
    if whole:
        contents = checkpoint.manifest
        server.restore_history(name, contents.era, contents.mark, list(table.shrinks))


def _restore_parameter(
    server: _core.Server, checkpoint: Checkpoint, name: str, weights: np.ndarray, slots: list[np.ndarray]
) -> None:
    table = checkpoint.manifest.tables[name]
    values = np.ascontiguousarray(weights).reshape(-1)
    state = np.concatenate([slot.reshape(-1) for slot in slots]) if slots else np.empty(0, dtype=np.float32)
    server.restore_parameter(
        table.spec(name),
        int(values.__array_interface__["data"][0]),
        values.size,
        int(state.__array_interface__["data"][0]),
        state.size,
        table.updates if slots or not table.rule.state else 0,
        table.last_seen if slots or not table.rule.state else 0,
    )
