"""``flota status``, ``flota logs``, ``flota stop``: jobs that run where their launch is not, or is no more."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from flota.errors import FlotaError, InvalidArgument
from flota.launch.parser import count

# By engine, the module that has status, logs and stop.
ENGINES_WITH_JOBS = {"kubernetes": "flota.launch.kubernetes.commands"}


def _parser(command: str, purpose: str, *, name_needed: bool) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"flota {command}", description=purpose, allow_abbrev=False)
    if name_needed:
        parser.add_argument("name", metavar="NAME", help="the job's name")
    else:
        parser.add_argument("name", metavar="NAME", nargs="?", default="", help="the job's name; without one, all jobs")
    parser.add_argument(
        "--on", choices=tuple(ENGINES_WITH_JOBS), default="kubernetes", metavar="ENGINE",
        help="where it runs (default: %(default)s). A job on this host is watched and ended by its launch",
    )  # fmt: skip
    parser.add_argument("--namespace", default="", help="its namespace (default: that of the context)")
    parser.add_argument("--context", default="", help="of kubectl's configuration (default: the current one)")
    return parser


def status(argv: Sequence[str] | None = None) -> int:
    parser = _parser("status", "How a job does: its servers, its workers, and what servers keep.", name_needed=False)
    return _do("status", parser, argv, lambda module, place, given: module.status(place, given.name))


def logs(argv: Sequence[str] | None = None) -> int:
    parser = _parser("logs", "What a server or worker of a job prints.", name_needed=True)
    parser.add_argument("member", nargs="?", default="", metavar="worker-N|server-N", help="default: worker-0")
    parser.add_argument("--follow", "-f", action="store_true", help="go on until it ends")
    parser.add_argument("--tail", type=count, metavar="N", help="the last N lines alone")
    parser.add_argument("--previous", "-p", action="store_true", help="of the one before its last restart")
    return _do(
        "logs", parser, argv,
        lambda module, place, given: module.logs(
            place, given.name, given.member, follow=given.follow, tail=given.tail, previous=given.previous
        ),
    )  # fmt: skip


def stop(argv: Sequence[str] | None = None) -> int:
    parser = _parser("stop", "End a job and take it away; what servers kept stays.", name_needed=True)
    parser.add_argument("--volumes", action="store_true", help="what servers kept goes as well")
    return _do("stop", parser, argv, lambda module, place, given: module.stop(place, given.name, volumes=given.volumes))


def _do(command: str, parser: argparse.ArgumentParser, argv: Sequence[str] | None, act: Callable[..., int]) -> int:
    given = parser.parse_args(argv)
    try:
        module = import_module(ENGINES_WITH_JOBS[given.on])
        return act(module, module.place(given), given)
    except FlotaError as error:
        print(f"flota {command}: {error}", file=sys.stderr)
        return 2 if isinstance(error, InvalidArgument) else 1
    except KeyboardInterrupt:
        return 130
