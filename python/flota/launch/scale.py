"""``flota scale``: more workers, or fewer, for a job that runs.

flota scale --workers 3                                   # of the launch whose logs are in log/
flota scale ads --workers 3                               # of the job ads on a cluster
flota scale --workers 3 --servers node1:6170,node2:6170   # of servers whose workers are started by hand
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from flota import config
from flota.errors import FlotaError, InvalidArgument
from flota.launch.control import ask
from flota.launch.hosts import split
from flota.launch.parser import above_zero
from flota.launch.scaling import names, workers_text

_TIMEOUT = 120.0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        word = message.removeprefix("unrecognized arguments: ").partition("=")[0]
        near = difflib.get_close_matches(word, self._option_string_actions, n=1) if word != message else []
        super().error(message + (f": did you mean {near[0]}?" if near else ""))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="flota scale",
        description="Change the number of workers of an async job while it runs.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "name", metavar="NAME", nargs="?", default="", help="of a job on Kubernetes; without one it is that of a launch"
    )
    parser.add_argument("--namespace", default="", help="its namespace (default: that of the context)")
    parser.add_argument("--context", default="", help="of kubectl's configuration (default: the current one)")
    parser.add_argument(
        "--workers",
        "--worker_num",
        "--worker-num",
        type=int,
        required=True,
        metavar="N",
        help="how many there shall be",
    )
    parser.add_argument(
        "--log_dir", "--log-dir", default="", metavar="DIR", help="that of the launch (default: log), in its folder"
    )
    parser.add_argument(
        "--servers", default="", metavar="LIST",
        help="host:port,… of all servers, for a job that no launch of this host looks after: its workers are then "
        f"started by hand; the secret comes from {config.SECRET} or {config.SECRET_FILE}",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", type=above_zero, default=_TIMEOUT, metavar="SECONDS",
        help="how long to wait for the next worker that comes or goes; it goes on without this command "
        "(default: %(default)g)",
    )  # fmt: skip
    return parser


def _by_launch(arguments: argparse.Namespace) -> int:
    for answer in ask(Path(arguments.log_dir or "log"), {"scale": arguments.workers}, arguments.timeout):
        if "end" not in answer:
            print(answer.get("say", ""), flush=True)
        elif answer.get("done"):
            print(answer["end"], flush=True)
            return 0
        else:
            print(f"flota scale: {answer['end']}", file=sys.stderr)
            return 1
    print("flota scale: the launch ended meanwhile", file=sys.stderr)
    return 1


def _on_cluster(arguments: argparse.Namespace) -> int:
    if given := [flag for flag in ("log_dir", "servers") if getattr(arguments, flag)]:
        raise InvalidArgument(
            f"--{given[0]} and the name {arguments.name} contradict each other: one of them says which job is meant"
        )
    from flota.launch.kubernetes import commands

    return commands.scale(commands.place(arguments), arguments.name, arguments.workers, arguments.timeout)


def _by_hand(arguments: argparse.Namespace) -> int:
    from flota.launch.envoy import connect, tell

    if arguments.log_dir:
        raise InvalidArgument("--servers and --log_dir contradict each other: one of them says which job is meant")
    time_ms = int(arguments.timeout * 1000)
    told = tell(connect(split(arguments.servers), time_ms), "scale", arguments.workers, time_ms)
    more, fewer = range(told.workers, told.wanted), range(told.wanted, told.workers)
    print(f"{workers_text(told.wanted)} ({told.workers} have joined)")
    if more:
        print(f"start {names(more)} with PADDLE_TRAINERS_NUM={told.wanted}, and they join")
    if fewer:
        print(f"{names(fewer)} will leave after the batch at hand")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        if not 1 <= arguments.workers <= 1 << 20:
            raise InvalidArgument(f"--workers={arguments.workers}: a job has at least one worker")
        if arguments.name:
            return _on_cluster(arguments)
        if given := [flag for flag in ("namespace", "context") if getattr(arguments, flag)]:
            raise InvalidArgument(f"--{given[0]} is of a job on Kubernetes: say its name, flota scale NAME --workers N")
        return _by_hand(arguments) if arguments.servers else _by_launch(arguments)
    except FlotaError as error:
        print(f"flota scale: {error}", file=sys.stderr)
        return 2 if isinstance(error, InvalidArgument) else 1
    except KeyboardInterrupt:
        print("flota scale: it goes on without this command", file=sys.stderr)
        return 130
