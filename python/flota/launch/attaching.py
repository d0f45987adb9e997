"""What a launch tells those who look at its job: who its servers are and what it takes to ask them, once
(``{"attach": true}``), and how its processes are, as often as they like (``{"processes": true}``).

Only this user can ask (see ``control``), who could as well read the environment of the job's processes.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flota import config
from flota.launch.control import Control
from flota.launch.rows import Row, Shown

SERVERS = "PADDLE_PSERVERS_IP_PORT_LIST"


def _attachment(title: str, log_dir: Path, asking: Mapping[str, str], kept: str) -> dict[str, Any]:
    environment = {**config.looking_environment(), **asking}
    return {
        "title": title,
        "pid": os.getpid(),
        "log_dir": str(log_dir.resolve()),
        "durable": kept,
        "servers": [server for server in environment.get(SERVERS, "").split(",") if server],
        "environment": {name: environment[name] for name in config.LOOKING if name in environment},
    }


def _processes(shown: Shown) -> dict[str, Any]:
    return {"elapsed": shown.elapsed, "processes": [plain(row) for row in shown.rows()]}


def plain(row: Row) -> dict[str, Any]:
    """A row that JSON has numbers for."""
    found = dataclasses.asdict(row)
    found["log"] = row.log and os.path.abspath(row.log)
    for name, value in found.items():
        if isinstance(value, float) and not math.isfinite(value):
            found[name] = None
    return found


def tell_lookers(
    control: Control, title: str, log_dir: Path, asking: Mapping[str, str], shown: Shown | None = None, kept: str = ""
) -> None:
    """From here on ``control`` tells it. ``asking``: the environment of one who asks the servers, beside this process's
    own; ``shown``: the job, where this launch knows of its processes; ``kept``: the folder of what servers keep."""
    control.told["attach"] = lambda: _attachment(title, log_dir, asking, kept)
    if shown is not None:
        control.told["processes"] = lambda: _processes(shown)
