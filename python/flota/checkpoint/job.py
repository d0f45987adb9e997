"""A running job's tables into a checkpoint, and back: through a client, while the servers serve."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from flota import _core
from flota.checkpoint.begun import begun_rows
from flota.checkpoint.lines import Line, add_table, begin, chain, pieces, read_all
from flota.checkpoint.manifest import Manifest, SaveMode
from flota.checkpoint.places import Place, place_of
from flota.checkpoint.position import going_on
from flota.checkpoint.reader import Checkpoint, Parameter
from flota.checkpoint.writer import CheckpointWriter
from flota.client import Client
from flota.eras import LastingRows, RowsOf, Shrinking
from flota.errors import CheckpointError
from flota.pages import RowPage
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


def sparse_tables(client: Client) -> dict[str, SparseTable]:
    """The sparse ones of them."""
    found = ((name, client.table(name)) for name in table_names(client))
    return {name: table for name, table in found if isinstance(table, SparseTable)}


def save_job(
    client: Client,
    dirname: str | os.PathLike[str] | Place,
    step: int,
    source: Mapping[str, Any],
    data: Sequence[Mapping[str, Any]] = (),
    files: Mapping[str, bytes] | None = None,
    mode: SaveMode = "all",
    before: Place | None = None,
    check: Callable[[], None] = lambda: None,
) -> Manifest:
    """Saves all tables of the servers. ``before``: what a delta goes on from; ``check`` is called once all is read, and
    raises if that must not be published."""
    target = place_of(dirname)
    line = begin(sparse_tables(client), mode, target, before)
    with CheckpointWriter(target, step=step, source=source, data=data, line=line.in_manifest()) as writer:
        add_tables(writer, client, line)
        for name, contents in (files or {}).items():
            writer.add_bytes(name, contents)
        check()
        return writer.publish()


def add_tables(writer: CheckpointWriter, client: Client, line: Line) -> None:
    """All tables of the servers. Rows and blocks are whole; while others train, each is as of its own moment."""
    for name in table_names(client):
        table = client.table(name)
        if isinstance(table, SparseTable):
            add_table(writer, table, line)
        else:
            _save_parameter(writer, table)


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
        saved.rule, saved.init, saved.seed, saved.admission = spec.rule, spec.init, spec.seed, spec.admission
    if differs := _core.difference(saved, spec):
        raise CheckpointError(
            f"table {name!r} of {checkpoint.path} has other settings than the model's: {differs} "
            "(there: the checkpoint, here: the model)"
        )


def check_state(checkpoint: Checkpoint, weights_only: bool) -> None:
    if not weights_only and not checkpoint.manifest.has_state:
        raise CheckpointError(
            f"{checkpoint.path} holds weights alone, without optimizers' state: load_model(…, weights_only=True) takes "
            "them"
        )


def load_job(client: Client, checkpoint: Checkpoint, weights_only: bool = False) -> Iterator[None]:
    """Gives the servers' tables what the checkpoint has for them; a pause after each piece.

    What differs or is damaged is refused before anything is changed. A row that is not in the checkpoint goes.
    """
    check_state(checkpoint, weights_only)
    chain(checkpoint)
    tables = {name: client.table(name) for name in table_names(client) if name in checkpoint.manifest.tables}
    for name, table in tables.items():
        check_same(checkpoint, name, table.spec, weights_only)
    yield from read_all(checkpoint)
    for table in tables.values():
        if isinstance(table, SparseTable):
            for _ in load_rows(table, checkpoint, weights_only):
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


def load_rows(table: LastingRows, checkpoint: Checkpoint, weights_only: bool) -> Iterator[None]:
    """Gives a table the checkpoint's rows in place of its own; a pause after each piece."""
    spec = table.spec
    # No new era: what changes now is of the one that the last save of a line has begun.
    table.shrink(Shrinking(everything=True), 0)
    for part, page in pieces(checkpoint, spec.name):
        if part == RowsOf.table and weights_only:
            for begun in begun_rows(spec, page.keys, page.weights):
                table.import_rows(begun)
                yield
            continue
        if part == RowsOf.waiting and weights_only:
            continue
        for some in import_parts(page):
            table.import_rows(some, part=part)
            yield
    if not weights_only:
        contents = checkpoint.manifest
        table.restore(contents.era, contents.mark, contents.tables[spec.name].shrinks)


def import_parts(page: RowPage) -> Iterator[RowPage]:
    """The page's rows, as many at a time as a message takes."""
    for at in range(0, len(page.keys), _IMPORT_ROWS):
        yield RowPage(**{name: column[at : at + _IMPORT_ROWS] for name, column in vars(page).items()})


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
