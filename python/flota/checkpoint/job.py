"""A running job's tables into a checkpoint, and back: through a client, while the servers serve."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from flota import _core
from flota.admission import score_floats, without
from flota.checkpoint.position import going_on
from flota.checkpoint.reader import Checkpoint, Parameter
from flota.checkpoint.writer import CheckpointWriter
from flota.client import Client
from flota.errors import CheckpointError
from flota.pages import RowPage, export_shards, rows_a_page
from flota.rules import from_native
from flota.tables import DenseTable, SparseTable

# Rows of an import: a message of a few megabytes.
_IMPORT_ROWS = 16384


def table_names(client: Client) -> list[str]:
    """The tables that the servers hold."""
    # A parameter that was restored and that nobody has asked for is no table yet: it takes up no bytes as one.
    return sorted(
        {name for server in client.statistics() for name, values in server.tables.items() if "bytes" in values}
    )


def save_job(
    client: Client,
    dirname: str | os.PathLike[str],
    step: int,
    source: Mapping[str, Any],
    data: Sequence[Mapping[str, Any]] = (),
    files: Mapping[str, bytes] | None = None,
) -> None:
    """Saves all tables of the servers. Rows and blocks are whole; while others train, each is as of its own moment."""
    with CheckpointWriter(dirname, step=step, source=source, data=data) as writer:
        for name in table_names(client):
            table = client.table(name)
            if isinstance(table, SparseTable):
                slots = len(_slots(table.spec))
                row_bytes = 24 + 4 * table.dim * (1 + slots)
                writer.add_rows(table.spec, table.export_shards(page_rows=rows_a_page(row_bytes)))
            else:
                _save_parameter(writer, table)
        for name, contents in (files or {}).items():
            writer.add_bytes(name, contents)
        writer.publish()


def _slots(spec: _core.TableSpec) -> tuple[str, ...]:
    return from_native(spec.rule).state


def _save_parameter(writer: CheckpointWriter, table: DenseTable) -> None:
    spec = table.spec
    names = _slots(spec)
    size = int(np.prod(table.shape, dtype=np.int64))
    values = np.empty((1 + len(names), size), dtype=np.float32)
    updates = last_seen = 0
    for block, page in zip(spec.blocks, table.export(), strict=True):
        place = slice(block.offset, block.offset + block.length)
        values[0, place] = page.weights[0]
        values[1:, place] = page.state[0].reshape(len(names), block.length)
        # Blocks that are saved while others train may be a push apart; loaded, they may become one.
        updates, last_seen = max(updates, int(page.updates[0])), max(last_seen, int(page.last_seen[0]))
    shaped = values.reshape(1 + len(names), *table.shape)
    state = {name: shaped[1 + place] for place, name in enumerate(names)}
    writer.add_parameter(spec, shaped[0], state, updates=updates, last_seen=last_seen)


def check_same(checkpoint: Checkpoint, name: str, spec: _core.TableSpec, weights_only: bool = False) -> None:
    """Raises if the checkpoint's table is another than the one that shall be loaded. ``weights_only``: how it was
    trained, and what rows began with, does not matter."""
    saved = checkpoint.manifest.tables[name].spec(name)
    saved.blocks = spec.blocks  # how it is cut does not matter
    if weights_only:
        saved.rule, saved.init, saved.seed = spec.rule, spec.init, spec.seed
    if differs := _core.difference(saved, spec):
        raise CheckpointError(
            f"table {name!r} of {checkpoint.path} has other settings than the model's: {differs} "
            "(there: the checkpoint, here: the model)"
        )


def load_job(client: Client, checkpoint: Checkpoint, weights_only: bool = False) -> Iterator[None]:
    """Gives the servers' tables what the checkpoint has for them; a pause after each piece.

    What differs is refused before anything is changed. A row that is not in the checkpoint begins anew.
    """
    tables = {name: client.table(name) for name in table_names(client) if name in checkpoint.manifest.tables}
    for name, table in tables.items():
        check_same(checkpoint, name, table.spec, weights_only)
    for name, table in tables.items():
        if isinstance(table, SparseTable):
            mine = (page.keys for page in table.export())
            for page in itertools.chain.from_iterable(begun_rows(table.spec, keys) for keys in mine):
                table.import_rows(page)
                yield
            for page in saved_rows(checkpoint, name, table.spec, weights_only):
                for part in import_parts(page):
                    table.import_rows(part)
                    yield
    for name, parameter in checkpoint.parameters():
        if isinstance(dense := tables.get(name), DenseTable):
            if weights_only:
                dense.push(parameter.weights, kind="assign")
            else:
                _load_parameter(dense, parameter)
            yield
    if not weights_only:
        client.native.restore_leases(going_on(checkpoint.manifest.data), client.time(None))


def saved_rows(checkpoint: Checkpoint, name: str, spec: _core.TableSpec, weights_only: bool) -> Iterator[RowPage]:
    """A checkpoint's rows of a table: as they were, or with the state that ``spec`` begins with."""
    for page in checkpoint.rows(name):
        if weights_only:
            yield from begun_rows(spec, page.keys, page.weights)
        else:
            yield page


def begun_rows(
    spec: _core.TableSpec, keys: npt.NDArray[np.int64], weights: npt.NDArray[np.float32] | None = None
) -> Iterator[RowPage]:
    """These rows as before their first update: with these weights (each key once), or those that follow from their
    keys."""
    keys = np.ascontiguousarray(keys)
    begun = _core.SparseTable(without(spec))
    first = np.empty((len(keys), spec.dim), dtype=np.float32)
    begun.pull(_address(keys), len(keys), _address(first), True)
    order = np.argsort(keys)
    for part in export_shards(begun.export_pages, range(_core.SHARDS), _IMPORT_ROWS):
        page = part.page
        scores = np.zeros((len(page.keys), score_floats(spec)), dtype=np.float32)
        state = np.concatenate([page.state, scores], axis=1)
        given = page.weights
        if weights is not None:
            given = weights[order[np.searchsorted(keys, page.keys, sorter=order)]]
        yield RowPage(page.keys, page.updates, page.last_seen, given, state)


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def import_parts(page: RowPage) -> Iterator[RowPage]:
    """The page's rows, as many at a time as a message takes."""
    for begin in range(0, len(page.keys), _IMPORT_ROWS):
        yield RowPage(**{name: column[begin : begin + _IMPORT_ROWS] for name, column in vars(page).items()})


def _load_parameter(table: DenseTable, parameter: Parameter) -> None:
    weights = parameter.weights.reshape(-1)
    slots = [slot.reshape(-1) for slot in parameter.state.values()]
    for block in table.spec.blocks:
        place = slice(block.offset, block.offset + block.length)
        state = np.concatenate([slot[place] for slot in slots]) if slots else np.empty(0, dtype=np.float32)
        table.import_rows(
            RowPage(
                np.array([block.id], dtype=np.int64),
                np.array([parameter.updates], dtype=np.uint64),
                np.array([parameter.last_seen], dtype=np.uint64),
                weights[place].reshape(1, -1),
                state.reshape(1, -1),
            )
        )
