"""The command ``flota``: ``flota launch …``, ``flota checkpoint …``, ``flota version``; ``flota --help`` names all."""

from __future__ import annotations

import difflib
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module, metadata

# Name: (the module whose ``main(arguments)``, or the function named after a colon, does it; what it does). Imported on
# use: no command pays for another.
COMMANDS = {
    "launch": ("flota.launch", "start the servers and workers of a job: flota launch --worker_num 2 train.py"),
    "certs": ("flota.launch.certs", "make certificates for TLS between hosts: flota certs DIR --host node1"),
    "status": ("flota.launch.jobs:status", "how a job on a cluster does: flota status NAME"),
    "logs": ("flota.launch.jobs:logs", "what a process of it prints: flota logs NAME worker-3"),
    "stop": ("flota.launch.jobs:stop", "end it: flota stop NAME"),
    "checkpoint": ("flota.checkpoint.commands", "inspect, verify, convert and compare checkpoints"),
    "top": ("flota.observe.top.command", "how a running job does: servers, workers, tables, hot keys, skew"),
    "dashboard": ("flota.observe.page.command", "the same on a page for browsers: curves, processes, errors"),
    "trace": ("flota.observe.trace.command", "where the time of a step goes: a timeline, and what to do about it"),
    "scale": ("flota.launch.scale", "more or fewer workers for a job that runs: flota scale --workers 3"),
    "pserver": ("flota.launch.pserver", "serve parameters in the foreground, for jobs that are started by hand"),
    "version": ("flota.launch.version", "which flota, and what is in it"),
}


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {purpose}" for name, (_, purpose) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: flota COMMAND [ARGUMENTS]",
            "",
            *lines,
            "",
            "flota COMMAND --help says more; flota --version, which flota",
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments:
        print(_help(), file=sys.stderr)
        return 2
    name, *rest = arguments
    if name in ("-h", "--help", "help"):
        print(_help())
        return 0
    if name in ("-V", "--version"):
        print(f"flota {metadata.version('flota')}")
        return 0
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there is {', '.join(COMMANDS)}"
        print(f"flota: no command {name}: {hint}", file=sys.stderr)
        return 2
    module, _, function = COMMANDS[name][0].partition(":")
    try:
        status: int = getattr(import_module(module), function or "main")(rest)
        sys.stdout.flush()
    except BrokenPipeError:
        # Who read the output is gone, as in `flota checkpoint diff A B | head`: no more can be said, also not at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return status


if __name__ == "__main__":
    sys.exit(main())
