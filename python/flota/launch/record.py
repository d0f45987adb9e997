"""``job.json``: what was started, and how it ended."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from flota.errors import InvalidArgument

FORMAT = 1

RUNNING, FINISHED, FAILED, STOPPED = "running", "finished", "failed", "stopped"
_STATES = (RUNNING, FINISHED, FAILED, STOPPED)


@dataclass(frozen=True)
class Record:
    """What ``job.json`` says."""

    script: str
    script_args: list[str]
    server_num: int
    worker_num: int
    flags: dict[str, Any]  # those that a resumed job takes over where nothing else is said
    folder: str  # where the launch was started: relative paths are from here
    started: str
    state: str = RUNNING
    restarts: dict[str, int] = field(default_factory=dict)  # by process: its FLOTA_RESTARTS
    kept: list[int] = field(default_factory=list)  # the servers that have kept something
    began_with: int = 0  # workers, before their number was changed for the first time; 0: nobody has said
    flota: str = field(default_factory=lambda: metadata.version("flota"))
    format: int = FORMAT

    @property
    def first_workers(self) -> int:
        return self.began_with or self.worker_num

    @property
    def is_kept(self) -> bool:
        """Whether it is over, and what its servers kept is to stay."""
        return self.state == FINISHED and bool(self.flags.get("keep_durable"))


_TYPES = {
    "script": str, "script_args": list, "server_num": int, "worker_num": int, "flags": dict, "folder": str,
    "started": str, "state": str, "restarts": dict, "kept": list, "began_with": int, "flota": str, "format": int,
}  # fmt: skip


def read(file: Path) -> Record:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidArgument(f"there is no job in {file.parent} to resume ({file} is not there)") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read {file}: {error}") from error
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{file} is damaged: {error}") from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        found = values.get("format") if isinstance(values, dict) else None
        raise InvalidArgument(f"{file} has format {found}, and this flota reads format {FORMAT} only")
    wrong = [name for name, kind in _TYPES.items() if not isinstance(values.get(name), kind)]
    wrong += sorted(set(values) - set(_TYPES))
    if not wrong:
        record = Record(**values)
        right = {
            "state": record.state in _STATES,
            "restarts": all(isinstance(count, int) for count in record.restarts.values()),
            "script_args": all(isinstance(word, str) for word in record.script_args),
            "kept": all(isinstance(server, int) for server in record.kept),
        }
        if all(right.values()):
            return record
        wrong = [name for name, holds in right.items() if not holds]
    raise InvalidArgument(f"{file} is damaged: {', '.join(wrong)} cannot be as written there")


def draft_of(name: str) -> str:
    return f"{name}.new"


def write(record: Record, file: Path) -> str | None:
    """Replaces the file at once, or says why not: a full disk is no reason to end a job that runs."""
    draft = file.with_name(draft_of(file.name))
    try:
        with draft.open("w", encoding="utf-8") as opened:
            json.dump(dataclasses.asdict(record), opened, indent=2)
            opened.write("\n")
            opened.flush()
            os.fsync(opened.fileno())
        draft.replace(file)
    except OSError as error:
        return f"{file} could not be written: {error.strerror}"
    return None
