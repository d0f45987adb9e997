"""The command ``flota launch``: from the command line to its exit status."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from flota import config
from flota.errors import FlotaError, InvalidArgument
from flota.launch.arguments import Arguments, parse
from flota.launch.engines import ENGINES
from flota.launch.saying import fail
from flota.log import speak_as


def _flush() -> None:
    """What a full disk has not taken by now is given up: at exit, Python would make a failure of it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def main(
    argv: Sequence[str] | None = None,
    prog: str = "flota launch",
    launch: Callable[[Arguments], int] | None = None,
) -> int:
    """The command. Returns its exit status: that of the process that failed, 130 after Ctrl-C, 2 when it is refused.
    ``launch``: what runs the job, if not the engine's."""
    try:
        speak_as("launch", 0)
        asked = parse(argv, prog)
        if asked.log_format:
            config.take_log_format(asked.log_format)
        launch = launch or import_module(ENGINES[asked.on].module).launch
        status = launch(asked)
        _flush()
        return status
    except FlotaError as error:
        fail(f"flota launch: {error}", "refused")
        return 2 if isinstance(error, InvalidArgument) else 1
    except BrokenPipeError:
        # Who read the output is gone. All processes are stopped; nothing more can be said, also not at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
