"""``flota trace``: where the time of a few steps of a running job goes, as a timeline and as a table.

flota trace                                      # of the launch whose logs are in log/
flota trace --steps 50 --workers 0,1 -o a.json   # more steps, of these workers
flota trace --servers node1:6170,node2:6170      # from any machine that has the job's secret
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flota.errors import FlotaError, InvalidArgument
from flota.launch.parser import above_zero
from flota.observe import attach
from flota.observe.sight import Server
from flota.observe.top.columns import seconds, short
from flota.observe.trace import chrome
from flota.observe.trace.asking import MOST_UNNAMED, Gathered, gather
from flota.observe.trace.clocks import Clocks, align
from flota.observe.trace.summary import WorkerSummary, as_data, lines, summary_of
from flota.timeline import MOST_STEPS

_MOST_SERVERS = 8  # of which it is shown how they did
_REQUESTS = ("pull", "push")


def _workers(text: str) -> list[int] | None:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() for word in words):
        raise argparse.ArgumentTypeError(f"{text!r}: workers are numbers with commas between them, such as 0,3")
    return sorted({int(word) for word in words})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="flota trace",
        description="Show where the time of a few steps goes: reading, pull, forward, backward, push, waiting. Writes "
        "a timeline for https://ui.perfetto.dev or chrome://tracing, and prints what each part takes.",
        allow_abbrev=False,
    )
    attach.add_arguments(parser)
    parser.add_argument(
        "--steps", type=int, default=20, metavar="N", help=f"of each worker, 1 to {MOST_STEPS} (default: %(default)d)"
    )
    parser.add_argument(
        "--workers", type=_workers, default=None, metavar="LIST",
        help=f"0,3,…: only these (default: all, or the first {MOST_UNNAMED})",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", default="trace.json", metavar="FILE", help="the timeline (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="the table as JSON")
    parser.add_argument(
        "--timeout", type=above_zero, default=30.0, metavar="SECONDS",
        help="that the workers may take for the steps; then there is what they have made (default: %(default)g)",
    )  # fmt: skip
    return parser


def _said_of_clocks(clocks: Clocks) -> str:
    if not clocks.within:
        return "all workers are on one host and have its clock"
    exact = f"times of different hosts are exact to {seconds(clocks.within)}"
    put_right = ", ".join(f"{host}'s clock is {ahead:+.3f} s off, put right" for host, ahead in clocks.wrong.items())
    return f"{exact}; {put_right}" if put_right else exact


def _of_server(server: Server) -> dict[str, Any]:
    """What it did while the workers were traced."""
    found: dict[str, Any] = {"server": server.index}
    for kind in _REQUESTS:
        if kind in server.requests:
            requests = server.requests[kind]
            found[kind] = {"per_second": requests.per_second, "p50": requests.p50, "p99": requests.p99}
    return found


def _line_of_server(told: dict[str, Any]) -> str:
    parts = []
    for kind in _REQUESTS:
        if kind in told:
            of = told[kind]
            parts.append(f"{kind} {short(of['per_second'])}/s {seconds(of['p50'])}/{seconds(of['p99'])}")
    # At most 76 columns, for servers of three digits.
    return f"server {told['server']}: " + (f"{', '.join(parts)} (p50/p99)" if parts else "nothing asked")


def _show(
    summaries: list[WorkerSummary], servers: list[dict[str, Any]], found: Gathered, clocks: Clocks, output: Path
) -> None:
    for line in lines(summaries):
        print(line)
    for told in servers[:_MOST_SERVERS]:
        print(_line_of_server(told))
    fewer = [
        f"worker {each.worker}: {each.steps} of {each.asked} steps" for each in summaries if each.steps < each.asked
    ]
    if fewer:
        print("; ".join(fewer))
    if found.unasked:
        print(f"{found.unasked} more workers were not asked: --workers names them")
    print(_said_of_clocks(clocks))
    print(f"open {output} at https://ui.perfetto.dev or chrome://tracing")


def _trace(arguments: argparse.Namespace) -> int:
    output = Path(arguments.output)
    if not 1 <= arguments.steps <= MOST_STEPS:
        raise InvalidArgument(f"--steps={arguments.steps}: it is a number from 1 to {MOST_STEPS}")
    if output.is_dir() or not output.parent.is_dir():
        raise InvalidArgument(f"--output={output}: name a file in a folder that is there")
    attached = attach.attach(arguments)
    found = gather(attached.servers, arguments.steps, arguments.workers, arguments.timeout, 2.0)
    traces = [found.heard[worker].trace for worker in sorted(found.heard)]
    if traces:
        clocks = align(found.heard.values())
        servers = [_of_server(server) for server in found.servers if server.alive]
        summaries = [summary for trace in traces if (summary := summary_of(trace)) is not None]
        about = {"job": attached.title, "clocks": _said_of_clocks(clocks), "servers": servers}
        chrome.write(output, traces, clocks, about)
        if arguments.json:
            told = {"output": str(output), "workers": as_data(summaries), "servers": servers, "missing": found.missing}
            told["clocks"] = {"within": clocks.within, "wrong": clocks.wrong}
            print(json.dumps(told), flush=True)
        else:
            _show(summaries, servers, found, clocks, output)
    for worker, why in found.missing.items():
        print(f"flota trace: no answer of worker {worker}: {why}", file=sys.stderr)
    return 1 if found.missing else 0


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        return _trace(arguments)
    except FlotaError as error:
        print(f"flota trace: {error}", file=sys.stderr)
        return 2 if isinstance(error, InvalidArgument) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0
