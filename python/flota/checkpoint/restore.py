"""A checkpoint into a server that does not listen yet. Needs neither torch nor other servers."""

from __future__ import annotations

import os

import numpy as np

from flota import _core
from flota.checkpoint.position import going_on
from flota.checkpoint.reader import Checkpoint
from flota.errors import CheckpointError, FlotaError


def restore_server(server: _core.Server, dirname: str | os.PathLike[str]) -> Checkpoint:
    """Gives a server its share of a checkpoint: rows by their shard, and dense parameters for when workers say how
    they are cut. Every file is checked, also where another server gets what is in it."""
    checkpoint = Checkpoint(dirname)
    try:
        for name, table in checkpoint.tables("sparse").items():
            server.restore_table(table.spec(name))
            state_floats = table.dim * len(table.rule.state)
            for page in checkpoint.rows(name):
                columns = page.columns(f"table {name!r}", table.dim, state_floats)
                server.restore_rows(name, len(columns.keys), table.dim, state_floats, *columns.addresses())
        for name, parameter in checkpoint.parameters():
            _restore_parameter(server, checkpoint, name, parameter.weights, list(parameter.state.values()))
        # On every server: the one that is asked knows it.
        server.restore_leases(going_on(checkpoint.manifest.data))
    except CheckpointError:
        raise
    except FlotaError as error:
        raise CheckpointError(f"{checkpoint.path}: {error}") from error
    server.restored(checkpoint.manifest.identity(), checkpoint.step)
    return checkpoint


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
        table.updates,
        table.last_seen,
    )
