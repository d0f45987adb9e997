"""What was shown and clicked, from a program's inputs to the tables that count it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from flota.errors import InvalidArgument
from flota.nn.shown import telling
from flota.paddle.entries import ShowClickEntry
from flota.paddle.graph.lookups import Lookups
from flota.paddle.graph.program import Program
from flota.paddle.jagged import Jagged


def scored_by(program: Program, operators: Sequence[Any]) -> tuple[str, str] | None:
    """The inputs that tell tables what was shown and clicked, where a table counts it."""
    tables = [program.variables[each.table] for each in operators if isinstance(each, Lookups)]
    entries = {table.attributes.entry.inputs for table in tables if isinstance(table.attributes.entry, ShowClickEntry)}
    if len(entries) > 1:
        raise InvalidArgument(f"ShowClickEntry: a program has one pair of inputs for all its tables, not {entries}")
    return entries.pop() if entries else None


def telling_scores(scored: tuple[str, str] | None, feed: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Inside, lookups know what was shown and clicked, as the feed has it."""
    if scored is None:
        return nullcontext()
    missing = [name for name in scored if name not in feed]
    if missing:
        warnings.warn(
            f"ShowClickEntry: there is no input {', '.join(missing)}: each appearance counts as shown, none as clicked",
            stacklevel=2,
        )
        return telling(None, None)
    shows, clicks = (each.values if isinstance(each, Jagged) else each for each in map(feed.__getitem__, scored))
    return telling(shows, clicks)
