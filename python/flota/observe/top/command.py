"""``flota top``: how a running job does, in a terminal: servers, workers, tables, hot keys and skew.

flota top                                        # of the launch whose logs are in log/
flota top --servers node1:6170,node2:6170        # from any machine that has the job's secret
flota top --once                                 # one picture, for a script or a mail
flota top --json --count 60                      # a line of JSON a second, for a minute
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from flota.errors import FlotaError, InvalidArgument, ServerUnavailable
from flota.launch.parser import above_zero
from flota.observe import attach
from flota.observe.sight import Sight
from flota.observe.whole import tables

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_OVER_AFTER = 5.0  # seconds without an answer of any server, after which a job that was seen is taken for over


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="flota top",
        description="Show how a running job does: servers, workers, tables, hot keys and skew. q or Ctrl-C ends it.",
        allow_abbrev=False,
    )
    attach.add_arguments(parser)
    parser.add_argument(
        "--every", type=above_zero, default=1.0, metavar="SECONDS", help="between two looks (default: %(default)g)"
    )
    parser.add_argument("--count", type=int, default=0, metavar="N", help="end after so many (default: with the job)")
    parser.add_argument("--once", action="store_true", help="the same as --count 1, with rates over --every seconds")
    parser.add_argument("--json", action="store_true", help="all that is seen as a line of JSON for each look")
    parser.add_argument("--hot", type=int, default=5, metavar="N", help="hot keys of each table (default: %(default)d)")
    parser.add_argument("--no_color", "--no-color", action="store_true", help="as with NO_COLOR in the environment")
    parser.add_argument(
        "--timeout", type=above_zero, default=2.0, metavar="SECONDS",
        help="that a server may take to answer (default: %(default)g)",
    )  # fmt: skip
    return parser


class Over(Exception):
    """The job is no longer there."""


class _Eye:
    """Looks at one job, until it is over."""

    def __init__(self, attached: attach.Attached, arguments: argparse.Namespace) -> None:
        self._attached = attached
        self._looker = attached.looker(arguments.timeout)
        self._every: float = arguments.every
        self._seen_at: float | None = None
        self.processes: list[dict[str, Any]] = []

    def look(self) -> Sight:
        sight = self._looker.look()
        self.processes = self._attached.processes()
        now = time.monotonic()
        if any(server.alive for server in sight.servers):
            self._seen_at = now
        elif self._seen_at is None and not self.processes:
            raise ServerUnavailable(f"no server of this job answers: {sight.servers[0].error}")
        elif self._seen_at is not None and not self.processes and now - self._seen_at > _OVER_AFTER:
            raise Over
        return sight

    def first(self) -> Sight:
        """The first look has no rates; what is shown has."""
        self.look()
        time.sleep(min(self._every, 1.0))
        return self.look()

    def close(self) -> None:
        self._looker.close()


def _as_json(title: str, sight: Sight, processes: Sequence[dict[str, Any]]) -> str:
    whole = [dataclasses.asdict(table) for table in tables(sight)]
    found = {"title": title, **dataclasses.asdict(sight), "tables": whole, "processes": list(processes)}
    return json.dumps(found)


@contextlib.contextmanager
def _keys() -> Iterator[int | None]:
    """The terminal from which single keys come, if there is one."""
    if not sys.stdin.isatty():
        yield None
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _wait(seconds: float, keys: int | None) -> bool:
    """Returns whether somebody has pressed q."""
    if keys is None:
        time.sleep(seconds)
        return False
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        if select.select([keys], [], [], left)[0]:
            pressed = os.read(keys, 64)
            if not pressed or b"q" in pressed or b"Q" in pressed:
                return True
    return False


def _picture(console: Console, title: str, eye: _Eye, sight: Sight, hot: int, *, live: bool) -> RenderableType:
    from flota.observe.top import picture

    plain = not console.encoding.lower().startswith("utf")
    frame = picture.Frame(console.width, console.height if live else None, plain, hot)
    return picture.of_job(title, sight, eye.processes, frame)


def _show(arguments: argparse.Namespace, attached: attach.Attached, eye: _Eye) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(no_color=True if arguments.no_color else None, highlight=False)
    live = console.is_terminal and not console.is_dumb_terminal and not arguments.once
    most = 1 if arguments.once else arguments.count
    sight, shown = eye.first(), 0
    with contextlib.ExitStack() as stack:
        keys = stack.enter_context(_keys()) if live else None
        screen = stack.enter_context(Live(console=console, screen=True, auto_refresh=False)) if live else None
        while True:
            painted = _picture(console, attached.title, eye, sight, arguments.hot, live=live)
            if screen is not None:
                screen.update(painted, refresh=True)
            else:
                console.print(painted, "")
            shown += 1
            if shown == most or _wait(arguments.every, keys):
                return
            sight = eye.look()


def _tell(arguments: argparse.Namespace, attached: attach.Attached, eye: _Eye) -> None:
    most = 1 if arguments.once else arguments.count
    sight, shown = eye.first(), 0
    while True:
        print(_as_json(attached.title, sight, eye.processes), flush=True)
        shown += 1
        if shown == most:
            return
        time.sleep(arguments.every)
        sight = eye.look()


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        if arguments.count < 0 or arguments.hot < 0:
            raise InvalidArgument("--count and --hot are numbers from 0")
        if arguments.once and arguments.count > 1:
            raise InvalidArgument(f"--once and --count={arguments.count} contradict each other")
        attached = attach.attach(arguments)
        eye = _Eye(attached, arguments)
        try:
            (_tell if arguments.json else _show)(arguments, attached, eye)
        finally:
            eye.close()
    except Over:
        print("flota top: the job is over", file=sys.stderr)
    except FlotaError as error:
        print(f"flota top: {error}", file=sys.stderr)
        return 2 if isinstance(error, InvalidArgument) else 1
    except (KeyboardInterrupt, BrokenPipeError):
        with contextlib.suppress(OSError):
            sys.stdout.close()
    return 0
