"""The command line of a launch: Fleet's flags, and a few of flota's own."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flota.errors import InvalidArgument
from flota.launch.restarts import DEFAULT_RESTARTS

_HETER = ("heter_workers", "heter_worker_num", "heter_devices")
_NO_HETER = "flota has one kind of worker, which may use GPUs (--gpus): there are no heter workers"

_NO_SCRIPT = "\0"

VIEWS = ("auto", "live", "plain", "none")


@dataclass(frozen=True)
class Arguments:
    """What was asked for; the names are those of the flags. None and "" mean: not said."""

    certs: str
    durable: str
    durable_sync: bool
    gpus: str | None
    http_port: int | None
    insecure: bool
    ips: str
    keep_durable: bool
    log_dir: str
    max_restarts: int
    no_durable: bool
    nproc_per_node: int | None
    paddle: bool
    resume: bool
    server_num: int | None
    servers: str
    snapshot_mb: float | None
    snapshot_seconds: float | None
    training_script: str
    training_script_args: list[str]
    worker_num: int | None
    workers: str
    timeout: float
    view: str


class _Once(argparse.Action):
    """Keeps a flag's value; another value for it, also by an alias, is refused: one of the two would be ignored."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        seen: dict[str, Any] = namespace.__dict__.setdefault("_seen", {})
        if seen.setdefault(self.dest, values) != values:
            parser.error(f"{option}={values} contradicts {self.option_strings[0]}={seen[self.dest]}, given before it")
        setattr(namespace, self.dest, values)


def _count(text: str) -> int | None:
    """A number that may be left empty, as scripts do with a variable that is not set."""
    if not text.strip():
        return None
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must not be negative, not {number}")
    return number


_count.__name__ = "number"  # argparse's word for it in "invalid number value: 'two'"


def _port(text: str) -> int | None:
    number = _count(text)
    if number is not None and not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"a port is between 1 and 65535, not {number}")
    return number


_port.__name__ = "port"


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1e6:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not {text}")
    return number


_seconds.__name__ = "number"


def _above_zero(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f"must be above 0 and below 1e9, not {text}")
    return number


_above_zero.__name__ = "number"


class _Parser:
    """An argparse parser whose flags may be written with dashes, and which knows the nearest name of a misspelt one."""

    def __init__(self, prog: str) -> None:
        self.argparse = argparse.ArgumentParser(
            prog=prog,
            description="Start the servers and workers of a job, show how they do, and stop them together.",
            usage="%(prog)s [flags] train.py [arguments of train.py]",
            epilog="The job's secret comes from FLOTA_SECRET or FLOTA_SECRET_FILE, certificates also from FLOTA_CERTS "
            "or FLOTA_TLS_*; a job on one host makes its own.",
            allow_abbrev=False,
        )
        self.flags: list[str] = []

    def add(self, group: argparse._ArgumentGroup, *names: str, **options: Any) -> None:
        """Adds a flag under all its names, each with underscores and with dashes."""
        spellings = [spelling for name in names for spelling in (name, "--" + name[2:].replace("_", "-"))]
        self.flags += spellings
        options.setdefault("action", _Once)
        group.add_argument(*dict.fromkeys(spellings), **options)

    def parse(self, argv: Sequence[str] | None) -> argparse.Namespace:
        words = sys.argv[1:] if argv is None else list(argv)
        # argparse has no script that may be left out before arguments that are not its own: one is put at the end, and
        # is the script exactly when there is no other.
        known, unknown = self.argparse.parse_known_args([*words, _NO_SCRIPT] if "--resume" in words else words)
        if known.training_script == _NO_SCRIPT:
            known.training_script = ""
        elif "--resume" in words:
            known.training_script_args.pop()
        if unknown:
            flag = unknown[0].partition("=")[0]
            near = difflib.get_close_matches(flag, self.flags, n=1)
            self.argparse.error(f"there is no flag {flag}" + (f": did you mean {near[0]}?" if near else ""))
        return known


def _parser(prog: str) -> _Parser:
    parser = _Parser(prog)
    job = parser.argparse.add_argument_group("the job")
    parser.add(
        job, "--server_num", type=_count, metavar="N", help="servers of the whole job; one for each host unless said"
    )
    parser.add(
        job, "--worker_num", "--trainer_num", type=_count, metavar="N",
        help="workers of the whole job; unless said, one for each of --gpus or each host",
    )  # fmt: skip
    parser.add(
        job, "--gpus", "--devices", metavar="LIST",
        help="0,1,…: the i-th worker of this host sees device i of these alone",
    )  # fmt: skip
    parser.add(job, "--nproc_per_node", type=_count, metavar="N", help="workers of each host")

    hosts = parser.argparse.add_argument_group("several hosts", "Give the same command on each of them.")
    parser.add(hosts, "--servers", default="", metavar="LIST", help="host:port,… of every server; ports from 6170")
    parser.add(
        hosts, "--workers", "--trainers", default="", metavar="LIST",
        help="host:port,… of every worker; ports from 6170 + servers",
    )  # fmt: skip
    parser.add(
        hosts, "--ips", default="", metavar="LIST",
        help="the hosts, when only numbers are given: they take servers and workers in turn, from port 6170; "
        "beside --servers or --workers, the address among theirs that this host has",
    )  # fmt: skip
    parser.add(
        hosts, "--http_port", type=_port, metavar="PORT",
        help="port of PADDLE_GLOO_HTTP_ENDPOINT, an address kept for the script's own use",
    )  # fmt: skip

    parser.add(
        hosts, "--certs", default="", metavar="DIR",
        help="certificates for TLS, as flota certs makes them; a job on one host makes its own where it needs some",
    )  # fmt: skip
    parser.add(hosts, "--insecure", action="store_true", help="traffic between hosts in the clear, without TLS")

    _add_recovery(parser)
    here = parser.argparse.add_argument_group("this launch")
    parser.add(
        here, "--log_dir", default="log", metavar="DIR", help="folder of serverlog.N and workerlog.N (default: log)"
    )
    parser.add(
        here, "--paddle", action="store_true", help="in the job's processes `import paddle` is flota's front end for it"
    )
    parser.add(
        here, "--timeout", type=_seconds, default=10.0, metavar="SECONDS",
        help="time that processes have to end before they are killed (default: 10)",
    )  # fmt: skip
    parser.add(
        here, "--view", choices=VIEWS, default="auto", help="a table that moves (live), lines (plain), or nothing"
    )
    parser.add(
        here, "--no_view", dest="view", action="store_const", const="none", default="auto", help="same as --view none"
    )

    refused = parser.argparse.add_argument_group(
        "refused unless empty", f"{', '.join('--' + name for name in _HETER)}: {_NO_HETER}"
    )
    for name in _HETER:
        parser.add(refused, "--" + name, default="", metavar="…", help=argparse.SUPPRESS)

    parser.argparse.add_argument("training_script", help=argparse.SUPPRESS)
    parser.argparse.add_argument("training_script_args", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _add_recovery(parser: _Parser) -> None:
    recovery = parser.argparse.add_argument_group(
        "when a process dies", "It is started again; servers come back with all they had, from what they keep on disk."
    )
    parser.add(
        recovery, "--max_restarts", type=_count, default=DEFAULT_RESTARTS, metavar="N",
        help="how often a process is started again before the job ends (default: %(default)s; 0: never)",
    )  # fmt: skip
    parser.add(
        recovery, "--resume", action="store_true",
        help="go on with the job that was killed or failed; the script and the numbers may be left out",
    )  # fmt: skip
    parser.add(
        recovery, "--durable", default="", metavar="DIR",
        help="folder of what servers keep, a disk of this host (default: FLOTA_DURABLE_DIR, or durable in --log_dir)",
    )  # fmt: skip
    parser.add(recovery, "--no_durable", action="store_true", help="servers keep nothing: one that dies ends the job")
    parser.add(
        recovery, "--durable_sync", action="store_true",
        help="servers answer only when the disk has it, so that it outlives the host and not the process alone",
    )  # fmt: skip
    parser.add(
        recovery, "--snapshot_seconds", type=_above_zero, metavar="S", help="seconds between two snapshots of a server"
    )
    parser.add(
        recovery, "--snapshot_mb", type=_above_zero, metavar="M", help="MiB of log after which a snapshot is due"
    )
    parser.add(
        recovery, "--keep_durable", action="store_true", help="leave what servers kept, also when the job has finished"
    )


def _refuse_without_durable(arguments: Arguments) -> None:
    if not arguments.no_durable:
        return
    for name in ("durable", "durable_sync", "keep_durable", "resume", "snapshot_mb", "snapshot_seconds"):
        if getattr(arguments, name):
            raise InvalidArgument(f"--{name} and --no_durable contradict each other: servers keep something or nothing")


def parse(argv: Sequence[str] | None, prog: str) -> Arguments:
    """Reads the command line. What is no number, no flag or no file is refused here; what contradicts, by the plan."""
    given = vars(_parser(prog).parse(argv))
    given.pop("_seen", None)
    for name in _HETER:
        value = given.pop(name)
        if value.strip() not in ("", "0"):
            raise InvalidArgument(f"--{name}={value}: {_NO_HETER}")
    given["gpus"] = given["gpus"] or None
    if given["max_restarts"] is None:
        given["max_restarts"] = DEFAULT_RESTARTS
    arguments = Arguments(**given)
    _refuse_without_durable(arguments)
    if arguments.resume and not arguments.training_script:
        return arguments
    script = Path(arguments.training_script)
    if not script.is_file():
        raise InvalidArgument(f"there is no script {script} (in {Path.cwd()})")
    return arguments
