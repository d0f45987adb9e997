"""How a process does, in one word of few: what a page shows by shape, by text and by colour."""

from __future__ import annotations

import enum
from typing import Any

from flota.launch.rows import Row
from flota.observe.sight import Server


class Mark(str, enum.Enum):
    OK = "ok"
    WARN = "warn"  # it runs, and something is wrong
    AGAIN = "again"  # it has died and is to be started again
    DEAD = "dead"
    AWAY = "away"  # a server that does not answer
    DONE = "done"


UNHEARD = "not heard of yet"
WITH_THE_JOB = "ended with the job"
_DONE = ("finished", "stopped", "has left", WITH_THE_JOB)
_WARN = ("loss is NaN", "no step for", "silent", "no word of")


def of_row(row: Row) -> Mark:
    """Of a process as a launch tells it, or of a worker as it tells itself."""
    if row.running:
        return Mark.WARN if row.state.startswith(_WARN) else Mark.OK
    if "starts again" in row.state:
        return Mark.AGAIN
    return Mark.DONE if row.state.startswith(_DONE) else Mark.DEAD


def of_server(server: Server, told: dict[str, Any] | None) -> tuple[Mark, str]:
    """Also how that is said. ``told``: by the launch, if there is one."""
    if told is not None and not told["running"]:
        row = Row(str(told["name"]), str(told["state"]), running=False, is_worker=False)
        return of_row(row), row.state
    if server.alive:
        return Mark.OK, "running"
    if server.seen is not None:
        return Mark.AWAY, f"away: {server.error}"
    # It may be still to come: a launch knows.
    return (Mark.OK, "starting") if told is not None else (Mark.WARN, f"{UNHEARD}: {server.error}")
