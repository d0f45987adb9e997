"""A launch on several hosts, from its arguments to its exit status."""

from __future__ import annotations

import contextlib
import functools
import secrets
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from flota.errors import FlotaError, InvalidArgument, SystemFailure
from flota.launch import dashboard
from flota.launch.arguments import Arguments
from flota.launch.attaching import tell_lookers
from flota.launch.control import Control
from flota.launch.environment import configuration, configuration_table
from flota.launch.heads import control
from flota.launch.hosts import FIRST_PORT
from flota.launch.saying import say, show_table
from flota.launch.signals import Signals
from flota.launch.ssh import starting
from flota.launch.ssh.asking import Asking
from flota.launch.ssh.checks import Checks, Interrupted, on_each
from flota.launch.ssh.connection import load_fabric
from flota.launch.ssh.copies import Copies
from flota.launch.ssh.dispatch import dispatch
from flota.launch.ssh.inventory import read_hosts
from flota.launch.ssh.node import Node
from flota.launch.ssh.package import RESERVED, entries
from flota.launch.ssh.placing import endpoints, shares
from flota.launch.ssh.running import END, Run
from flota.launch.ssh.showing import Shown
from flota.launch.view import View, kind_of_view, make_view

DEFAULT_LOST_AFTER = 60.0
_LEAST_LOST_AFTER = 2.0  # seconds; less than this a busy machine may be silent for
_WORKSPACES = "~/flota-jobs"  # on each node, of packages
_RUN = 60.0  # seconds until an agent has started its part


def launch(asked: Arguments) -> int:
    """Runs the job to its end, on all its hosts."""
    view: Callable[[Shown], View] = functools.partial(make_view, kind_of_view(asked.view))
    if not asked.own["hosts"]:
        raise InvalidArgument("--on ssh needs --hosts: the hosts, or a file that names them")
    lost_after = asked.own["lost_after"] or DEFAULT_LOST_AFTER
    if lost_after < _LEAST_LOST_AFTER:
        raise InvalidArgument(f"--lost_after={lost_after:g}: at least {_LEAST_LOST_AFTER:g} seconds")
    starting.check_protection(asked)
    hosts = read_hosts(asked.own["hosts"])
    found = shares(hosts, asked)
    script, package = _script(asked)
    load_fabric()
    identity = secrets.token_hex(16)
    accept_new = bool(asked.own["accept_new_host_keys"])
    pairs = enumerate(zip(hosts, found, strict=True))
    nodes = [Node(i, host, share, accept_new=accept_new) for i, (host, share) in pairs]
    show_table("configuration", "what is in effect", configuration_table(asked), configuration(asked))
    signals = Signals()
    try:
        with dashboard.asked_for(asked) as page, control(asked.log_dir) as heard:
            view = view if page is None else page.beside(view)
            job = _prepare(asked, nodes, identity, script, package, lost_after, signals)
            return _run(asked, job, nodes, signals, view, heard)
    except Interrupted as interrupted:
        say(str(interrupted))
        return 128 + interrupted.number
    finally:
        for node in nodes:
            node.part()


def _script(asked: Arguments) -> tuple[str, Path | None]:
    """The script as nodes find it from their workspace on, and the package that is brought there."""
    package = Path(asked.own["job_dispatch_package"]) if asked.own["job_dispatch_package"] else None
    script = asked.training_script
    if package is None or not script:
        if script and not asked.own["job_workspace"] and not Path(script).is_file():
            raise InvalidArgument(f"there is no script {script} (in {Path.cwd()})")
        return script, package
    if not package.is_dir():
        raise InvalidArgument(f"--job_dispatch_package={package}: there is no such folder")
    if (package / script).is_file() and not Path(script).is_absolute():
        return script, package
    with contextlib.suppress(ValueError):
        inside = Path(script).resolve().relative_to(package.resolve())
        if Path(script).is_file():
            return str(inside), package
    raise InvalidArgument(f"there is no script {script} in the package {package}")


def _prepare(
    asked: Arguments, nodes: Sequence[Node], identity: str, script: str, package: Path | None, lost_after: float,
    signals: Signals,
) -> starting.Job:  # fmt: skip
    """Checks all nodes, brings them the package, and says what they are to run."""
    say(f"connecting to {', '.join(node.name for node in nodes)}")
    checks = Checks(nodes, signals)
    checks.connect()
    addresses = [node.address or node.host.address or node.name for node in nodes]
    _refuse_same(nodes, addresses)
    servers, workers = endpoints(addresses, [node.share for node in nodes], asked.own["first_port"] or FIRST_PORT)
    workspaces = {node: _workspace(asked, node, package) for node in nodes}
    checks.all(workspaces, "" if package else script, servers, workers, make=package is not None, job=identity)
    checks.refuse()
    groups = _groups(nodes, identity, signals)
    if package is not None:
        leaders = [node for node in nodes if groups[node][0] == node.index]
        logs = Path(asked.log_dir)
        excluded = [] if logs.is_absolute() else [asked.log_dir]
        for line in dispatch(package, entries(package, excluded), leaders, signals):
            say(line)
    certs, note = starting.certificates(asked, servers)
    if note:
        say(note)
    turn = [node.known_as for node in nodes if node.share.takes_workers]
    job = starting.Job(asked, script, servers, workers, starting.job_secret(), certs, lost_after, turn)
    _start(job, nodes, groups, identity, signals)
    return job


def _refuse_same(nodes: Sequence[Node], addresses: Sequence[str]) -> None:
    first: dict[str, Node] = {}
    for node, address in zip(nodes, addresses, strict=True):
        other = first.setdefault(address, node)
        if other is not node:
            raise InvalidArgument(
                f"{other.name} and {node.name} are the same host, {address}: name it once, with servers: and workers:"
            )


def _workspace(asked: Arguments, node: Node, package: Path | None) -> str:
    if asked.own["job_workspace"]:
        return str(asked.own["job_workspace"])
    if node.host.workspace:
        return node.host.workspace
    return f"{_WORKSPACES}/{package.resolve().name}" if package is not None else str(Path.cwd())


def _groups(nodes: Sequence[Node], identity: str, signals: Signals) -> dict[Node, list[int]]:
    """By node, the numbers of those whose workspace is the very same folder: it itself, and others on a file system
    that they share."""
    seen = on_each(nodes, lambda node: node.ask("marks", 60.0, job=identity)["nodes"], signals)
    return {node: _good(node, found) for node, found in seen.items()}


def _good(node: Node, result: list[int] | FlotaError) -> list[int]:
    if isinstance(result, FlotaError):
        raise SystemFailure(f"nothing was started: {node.name}: {result}")
    return result


def _start(
    job: starting.Job, nodes: Sequence[Node], groups: dict[Node, list[int]], identity: str, signals: Signals
) -> None:
    asked = job.arguments

    def start(node: Node) -> None:
        # Hosts that see the same folder would write to the same files.
        shared = len(groups[node]) > 1 or Path(asked.log_dir).is_absolute()
        logs = str(Path(asked.log_dir) / node.name) if shared else asked.log_dir
        node.logs = str(Path(asked.log_dir) / node.name)
        note = f"{logs}/nodefile" if len(groups[node]) > 1 else "nodefile"
        with _marked(Path(node.logs), f"{RESERVED}head-{identity}") as mark:
            answer = node.ask("run", _RUN, spec=starting.spec(job, node, logs, note, mark))
        if not answer["logs_are_here"]:
            node.copies = Copies(Path(node.logs), go_on=asked.resume)
            node.copies.make_links(node.share.servers, node.share.workers)

    try:
        results = on_each(nodes, start, signals)
    except Interrupted as interrupted:
        say("interrupted as the job began: what has started is ended")
        _abandon(job, nodes, signals)
        raise Interrupted(interrupted.number, "interrupted as the job began") from None
    wrong = [f"  {node.name}: {result}" for node, result in results.items() if isinstance(result, FlotaError)]
    if wrong:
        begun = [node for node, result in results.items() if not isinstance(result, FlotaError)]
        _abandon(job, begun, signals)
        raise SystemFailure("the job ended as it began, for not all hosts could start their part:\n" + "\n".join(wrong))


def _abandon(job: starting.Job, nodes: Sequence[Node], signals: Signals) -> None:
    _tell_left(Run(job, nodes, signals, Shown("", nodes, Path(), 0), END, None).abandon(), job.lost_after)


@contextlib.contextmanager
def _marked(folder: Path, name: str) -> Iterator[str]:
    """A file in the head's folder of a node's logs: a node that sees it in its own writes there already, and what it
    would send would come back to it."""
    mark = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mark.touch()
    except OSError as error:
        raise SystemFailure(f"--log_dir: {error.strerror}: {error.filename}") from error
    try:
        yield name
    finally:
        mark.unlink(missing_ok=True)


def _run(
    asked: Arguments, job: starting.Job, nodes: Sequence[Node], signals: Signals, view: object, heard: Control
) -> int:
    first = next(node for node in nodes if 0 in node.share.workers)
    log = Path(first.logs) / "workerlog.0"
    begin = log.stat().st_size if asked.resume and log.exists() else 0
    title = Path(job.script).name or "the resumed job"
    shown = Shown(title, nodes, log, begin)
    for node in nodes:
        runs = [*(f"server {i}" for i in node.share.servers), *(f"worker {i}" for i in node.share.workers)]
        say(f"{node.name} runs {', '.join(runs)}")
    say(f"the logs of each host are in {Path(asked.log_dir)}/HOST/")
    tell_lookers(heard, title, Path(asked.log_dir), starting.looking(job), shown)
    run = Run(job, nodes, signals, shown, asked.own["if_lost"] or END, Asking(heard))
    status = 1
    try:
        status = run.run(view)  # type: ignore[arg-type]
    finally:
        left = run.end()
        _tell_end(asked, nodes, left, shown, status, job.lost_after)
    return status


def _tell_end(
    asked: Arguments, nodes: Sequence[Node], left: Sequence[Node], shown: Shown, status: int, lost_after: float
) -> None:
    _tell_left(left, lost_after)
    for node in nodes:
        if node.copies is not None and node.copies.trouble:
            say(node.copies.trouble)
    if status == 0:
        say(f"done: {', '.join(shown.summary())}; logs in {Path(asked.log_dir)}/HOST/")
    elif not asked.no_durable:
        say(f"if the servers have kept something by now, the job goes on from there with {_resume(asked)}")


def _tell_left(left: Sequence[Node], lost_after: float) -> None:
    for node in left:
        end = time.strftime(
            "%H:%M:%S", time.localtime(time.time() + max(0.0, lost_after + node.heard - time.monotonic()))
        )
        say(f"{node.name} was not reached any more: its agent ends what runs there by itself at {end}")


def _resume(asked: Arguments) -> str:
    """The command that goes on with this job."""
    words = ["flota launch --resume", f"--hosts={asked.own['hosts']}"]
    for name in ("server_num", "worker_num", "nproc_per_node", "durable", "gpus"):
        if getattr(asked, name):
            words.append(f"--{name}={getattr(asked, name)}")
    for name in ("job_dispatch_package", "job_workspace"):
        if asked.own[name]:
            words.append(f"--{name}={asked.own[name]}")
    if asked.log_dir != "log":
        words.append(f"--log_dir={asked.log_dir}")
    return " ".join([words[0], *map(shlex.quote, words[1:])])
