"""The command line of a launch: Fleet's flags, and a few of flota's own."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flota import config
from flota.errors import InvalidArgument
from flota.launch.engines import ENGINES, LOCAL, Flag
from flota.launch.parser import Once, Parser, above_zero, count, or_auto, port, seconds
from flota.launch.restarts import DEFAULT_RESTARTS

_HETER = ("heter_workers", "heter_worker_num", "heter_devices")
_NO_HETER = "flota has one kind of worker, which may use GPUs (--gpus): there are no heter workers"

# Of a flag that an engine does not take, what does the same there.
_INSTEAD = {"dashboard": "flota dashboard --servers=HOST:PORT,… shows such a job, from where its servers are reached"}

VIEWS = ("auto", "live", "plain", "none")


@dataclass(frozen=True)
class Arguments:
    """What was asked for; the names are those of the flags. None and "" mean: not said."""

    certs: str
    dashboard: str | None  # where its page listens; None: there is none
    durable: str
    durable_sync: bool
    gpus: str | None
    http_port: int | None
    insecure: bool
    ips: str
    keep_durable: bool
    log_dir: str
    log_format: str
    max_restarts: int
    metrics_host: str
    metrics_port: int | None
    no_durable: bool
    nproc_per_node: int | None
    on: str
    own: Mapping[str, Any]  # flags of the engine alone, by their names
    paddle: bool
    resume: bool
    server_num: int | None
    servers: str
    snapshot_mb: float | None
    snapshot_seconds: float | None
    tensorboard: str
    training_script: str
    training_script_args: list[str]
    worker_num: int | None
    workers: str
    timeout: float
    view: str


def _parser(prog: str) -> Parser:
    parser = Parser(prog)
    job = parser.argparse.add_argument_group("the job")
    parser.add(
        job, "--server_num", type=count, metavar="N", help="servers of the whole job; one for each host unless said"
    )
    parser.add(
        job, "--worker_num", "--trainer_num", type=count, metavar="N",
        help="workers of the whole job; unless said, one for each of --gpus or each host",
    )  # fmt: skip
    parser.add(
        job, "--gpus", "--devices", metavar="LIST",
        help="0,1,…: the i-th worker of this host sees device i of these alone",
    )  # fmt: skip
    parser.add(job, "--nproc_per_node", type=count, metavar="N", help="workers of each host")

    hosts = parser.argparse.add_argument_group("several hosts", "Give the same command on each of them.")
    parser.add(hosts, "--servers", default="", metavar="LIST", help="host:port,… of every server; ports from 6170")
    parser.add(
        hosts, "--workers", "--trainers", default="", metavar="LIST",
        help="host:port,… of every worker; ports from 6170 + servers",
    )  # fmt: skip
    parser.add(
        hosts, "--ips", default="", metavar="LIST",
        help="the hosts, when only numbers are given: they take servers and workers in turn, from port 6170; "
        "beside --servers or --workers, the address among theirs that this host has, or several: the hosts that take "
        "workers which come later",
    )  # fmt: skip
    parser.add(
        hosts, "--http_port", type=port, metavar="PORT",
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
        here, "--timeout", type=seconds, default=10.0, metavar="SECONDS",
        help="time that processes have to end before they are killed (default: 10)",
    )  # fmt: skip
    parser.add(
        here, "--view", choices=VIEWS, default="auto", help="a table that moves (live), lines (plain), or nothing"
    )
    parser.add(
        here, "--dashboard", type=or_auto, metavar="[HOST:]PORT",
        help="show the job on a page for browsers; --dashboard alone: on this host's loopback, port 6180 or the next "
        "one that is free; a HOST that others reach needs --certs or --insecure",
    )  # fmt: skip
    parser.may_be_bare.add("--dashboard")
    parser.add(
        here, "--no_view", dest="view", action="store_const", const="none", default="auto", help="same as --view none"
    )

    _add_outlets(parser)
    _add_engines(parser)
    refused = parser.argparse.add_argument_group(
        "refused unless empty", f"{', '.join('--' + name for name in _HETER)}: {_NO_HETER}"
    )
    for name in _HETER:
        parser.add(refused, "--" + name, default="", metavar="…", help=argparse.SUPPRESS)

    parser.argparse.add_argument("training_script", help=argparse.SUPPRESS)
    parser.argparse.add_argument("training_script_args", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _add_engines(parser: Parser) -> None:
    where = parser.argparse.add_argument_group("where it runs")
    parser.add(
        where, "--on", choices=tuple(ENGINES), metavar="ENGINE",
        help=f"{', '.join(ENGINES)} (default: {LOCAL}, the hosts on which this command is given; with --hosts, ssh)",
    )  # fmt: skip
    added: set[str] = set()
    for engine in ENGINES.values():
        new = [flag for flag in engine.flags if flag.name not in added]
        known = sorted(flag.name for flag in engine.flags if flag.name in added)
        added |= {flag.name for flag in new}
        group = parser.argparse.add_argument_group(engine.title, f"Also {', '.join(known)}." if known else None)
        for flag in new:
            # As text: engines that share a flag may read it differently.
            action = "store_true" if flag.switch else "append" if flag.many else "store"
            shown = {} if flag.switch else {"metavar": flag.metavar}
            parser.add(group, flag.name, action=Once if action == "store" else action, help=flag.help, **shown)


def _own_flags(given: dict[str, Any]) -> dict[str, Any]:
    """Takes the flags that only some engines have out of what was given; one that the engine has not is refused."""
    on = given["on"]
    own = {flag.key: flag for flag in ENGINES[on].flags}
    found: dict[str, Any] = {key: False if flag.switch else flag.default for key, flag in own.items()}
    for key in {flag.key: None for engine in ENGINES.values() for flag in engine.flags}:
        value = given.pop(key)
        if value is None or value is False or value == "":
            continue
        if key not in own:
            takers = [name for name, engine in ENGINES.items() if key in {flag.key for flag in engine.flags}]
            raise InvalidArgument(f"--{key}={value}: it is for --on {' or '.join(takers)}, not --on {on}")
        found[key] = _read(own[key], value)
    return found


def _read(flag: Flag, value: Any) -> Any:
    if flag.switch:
        return value
    try:
        return [flag.type(text) for text in value] if flag.many else flag.type(value)
    except (argparse.ArgumentTypeError, ValueError) as error:
        why = str(error) if isinstance(error, argparse.ArgumentTypeError) else f"it must be a {flag.type.__name__}"
        raise InvalidArgument(f"{flag.name}={value}: {why}") from error


def _refuse_what_would_not_act(given: dict[str, Any], defaults: dict[str, Any]) -> None:
    engine = ENGINES[given["on"]]
    for name in sorted(set().union(*(other.takes for other in ENGINES.values())) - engine.takes):
        if given[name] not in (defaults[name], "", None):
            instead = _INSTEAD.get(name, "leave it out")
            raise InvalidArgument(f"--{name}={given[name]} does nothing under --on {given['on']}: {instead}")


def _add_recovery(parser: Parser) -> None:
    recovery = parser.argparse.add_argument_group(
        "when a process dies", "It is started again; servers come back with all they had, from what they keep on disk."
    )
    parser.add(
        recovery, "--max_restarts", type=count, default=DEFAULT_RESTARTS, metavar="N",
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
        recovery, "--snapshot_seconds", type=above_zero, metavar="S", help="seconds between two snapshots of a server"
    )
    parser.add(recovery, "--snapshot_mb", type=above_zero, metavar="M", help="MiB of log after which a snapshot is due")
    parser.add(
        recovery, "--keep_durable", action="store_true", help="leave what servers kept, also when the job has finished"
    )


def _add_outlets(parser: Parser) -> None:
    seeing = parser.argparse.add_argument_group("seeing the job", "Beside its own table, and flota top.")
    parser.add(
        seeing, "--metrics_port", type=port, metavar="PORT",
        help="Prometheus: this launch at PORT, servers and then workers at those after it (default: "
        f"{config.METRICS_PORT}, or none)",
    )  # fmt: skip
    parser.add(
        seeing, "--metrics_host", default="", metavar="HOST",
        help=f"address of these ports (default: {config.METRICS_HOST}, or {config.DEFAULT_METRICS_HOST})",
    )  # fmt: skip
    parser.add(
        seeing, "--tensorboard", default="", metavar="DIR",
        help=f"folder of event files that workers write (default: {config.TENSORBOARD}, or none)",
    )  # fmt: skip
    parser.add(
        seeing, "--log_format", choices=config.LOG_FORMATS, default="",
        help=f"flota's own lines as text, or as a JSON object each (default: {config.LOG_FORMAT}, or text)",
    )  # fmt: skip


def _take_outlets(given: dict[str, Any]) -> None:
    """What the environment says of them is as if it were said by flags."""
    if given["metrics_port"] is None:
        given["metrics_port"] = config.metrics_port()
    if given["metrics_host"] and given["metrics_port"] is None:
        raise InvalidArgument("--metrics_host is the address of ports that nobody asked for: give --metrics_port")
    if given["metrics_port"] is not None and config.metrics_host() != config.DEFAULT_METRICS_HOST:
        given["metrics_host"] = given["metrics_host"] or config.metrics_host()
    given["tensorboard"] = given["tensorboard"] or config.tensorboard_folder()


def _refuse_without_durable(arguments: Arguments) -> None:
    if not arguments.no_durable:
        return
    for name in ("durable", "durable_sync", "keep_durable", "resume", "snapshot_mb", "snapshot_seconds"):
        if getattr(arguments, name):
            raise InvalidArgument(f"--{name} and --no_durable contradict each other: servers keep something or nothing")


def parse(argv: Sequence[str] | None, prog: str) -> Arguments:
    """Reads the command line. What is no number, no flag or no file is refused here; what contradicts, by the plan."""
    parser = _parser(prog)
    given = vars(parser.parse(argv))
    given.pop("_seen", None)
    for name in _HETER:
        value = given.pop(name)
        if value.strip() not in ("", "0"):
            raise InvalidArgument(f"--{name}={value}: {_NO_HETER}")
    given["gpus"], given["dashboard"] = given["gpus"] or None, given["dashboard"] or None
    if given["max_restarts"] is None:
        given["max_restarts"] = DEFAULT_RESTARTS
    given["on"] = given["on"] or ("ssh" if given["hosts"] else LOCAL)
    _take_outlets(given)
    own = _own_flags(given)
    _refuse_what_would_not_act(given, {name: parser.argparse.get_default(name) for name in given})
    arguments = Arguments(own=own, **given)
    _refuse_without_durable(arguments)
    if arguments.resume and not arguments.training_script:
        return arguments
    script = Path(arguments.training_script)
    if ENGINES[arguments.on].has_script and not script.is_file():
        raise InvalidArgument(f"there is no script {script} (in {Path.cwd()})")
    return arguments
