"""``python -m flota.launch.node``: one host's launch of a job that ``flota launch --on mpi|slurm`` runs on several.

It is ``flota launch`` whose lines begin with the host's name, as they are shown beside those of the other hosts.
"""

from __future__ import annotations

import functools
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TextIO, cast

from flota import config
from flota.launch import local
from flota.launch.command import main as launch
from flota.launch.starting import end_with_parent
from flota.log import as_json


def _all(_: str) -> bool:
    return True


def _is_event(line: str) -> bool:
    """Whether a line tells what happens to the job: not one of a table, nor what announces one."""
    return line.startswith("INFO ") and not line.endswith(":")


class Labelled(io.TextIOBase):
    """A stream whose lines bear a label. ``shown``: which lines are, if not all."""

    def __init__(self, stream: TextIO, label: str, shown: Callable[[str], bool] = _all) -> None:
        self._stream = stream
        self._label = label
        self._is_shown = shown
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        text_shown = "".join(f"{self._label}{line}\n" for line in lines if self._is_shown(line))
        if text_shown:
            self._stream.write(text_shown)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True


def main(argv: Sequence[str] | None = None) -> int:
    node = config.leave_engine()
    if node.by_mpirun:  # whose daemon, when it is killed, ends nothing itself
        end_with_parent()
    signal.signal(signal.SIGUSR1, lambda *_: os.kill(os.getpid(), signal.SIGTERM))  # what mpirun passes on
    # The tables of what is in effect are the same everywhere: those of the first host are shown.
    out, error = sys.stdout, sys.stderr
    if as_json():  # its objects say themselves of which host they are
        return launch(argv, launch=functools.partial(local.launch, asked_here=False))
    sys.stdout = cast(TextIO, Labelled(out, f"{node.name} | ", _all if node.first else _is_event))
    sys.stderr = cast(TextIO, Labelled(error, f"{node.name} | "))
    try:
        return launch(argv, launch=functools.partial(local.launch, asked_here=False))
    finally:
        sys.stdout, sys.stderr = out, error


if __name__ == "__main__":
    sys.exit(main())
