"""``flota launch --on mpi``: mpirun starts a launch on each host.

flota launch --on mpi --hostfile machines --worker_num 6 train.py
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

from flota import config
from flota.errors import InvalidArgument, SystemFailure
from flota.launch.arguments import Arguments
from flota.launch.heads import asked
from flota.launch.hosts import split
from flota.launch.nodes import asking, job_settings, node_command
from flota.launch.saying import say
from flota.launch.starting import find, run

_GET = "install Open MPI (apt-get install openmpi-bin), or load its module"
# Where a host's launch fails, mpirun lets this many seconds pass before it sends SIGTERM to those of the others, and as
# many again before SIGKILL: enough for most jobs to end in order, and of the rest nothing is left either.
_PATIENCE = "2"
_ASK = 20.0  # seconds that mpirun may take to say which it is


def launch(arguments: Arguments) -> int:
    slots = _slots(arguments)
    mpirun = _mpirun()
    command = node_command(arguments, slots)
    settings = job_settings(arguments, list(slots))
    carried = sorted({*config.carried_names(), *settings})
    words = [
        mpirun, "-n", str(len(slots)), "--host", ",".join(slots), "--map-by", "ppr:1:node", "--bind-to", "none",
        "--mca", "odls_base_sigkill_timeout", _PATIENCE, *_noticing_lost_hosts(),
        *(word for name in carried for word in ("-x", name)), *shlex.split(arguments.own["mpirun_flags"] or ""),
        *command,
    ]  # fmt: skip
    say(f"mpirun starts a launch on each of {', '.join(slots)}")
    with asked(arguments, asking(arguments, command, settings)) as tend:
        return run(words, config.child_environment(**settings), _stop, arguments.timeout, tend)


def _noticing_lost_hosts() -> list[str]:
    """mpirun takes a host for lost that it hears nothing of for five sixths of the workers' deadline. By itself
    it would after eight minutes, and later still once it has something to say to that host: that the job is over."""
    deadline = config.default_timeout()
    settings = {"time": deadline / 3, "intvl": deadline / 10, "probes": 5}
    return [
        word
        for name, value in settings.items()
        for word in ("--mca", f"oob_tcp_keepalive_{name}", f"{max(1, value):.0f}")
    ]


def _stop(mpirun: int) -> None:
    """mpirun passes it on to the hosts' launches, which stop as by SIGTERM; that one it would not pass on at once."""
    os.kill(mpirun, signal.SIGUSR1)


def _mpirun() -> str:
    path = find("mpirun", "starts the job's hosts", _GET)
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_ASK).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SystemFailure(f"{path} --version: {error}") from error
    if "Open MPI" not in said:
        raise InvalidArgument(f"{path} is not Open MPI's, whose flags this uses, but {said.strip()[:60]!r}: {_GET}")
    return path


def _slots(arguments: Arguments) -> dict[str, int]:
    """The hosts, and how many workers each has where no flag says their number."""
    hosts, hostfile = arguments.own["hosts"], arguments.own["hostfile"]
    if bool(hosts) == bool(hostfile):
        raise InvalidArgument("say where the job runs: --hosts h1,h2 or --hostfile FILE, one of them")
    slots = _read(Path(hostfile)) if hostfile else _from_list(hosts)
    if not slots:
        raise InvalidArgument(f"{hostfile or hosts} names no host")
    return slots


def _from_list(text: str) -> dict[str, int]:
    if text.endswith((".yaml", ".yml")):
        raise InvalidArgument(f"--hosts={text}: give the names, h1,h2, or mpirun's own file with --hostfile")
    names = split(text)
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument(f"--hosts={text} names {name} twice")
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
            raise InvalidArgument(f"--hosts={text}: {name!r} is not the name of a host or its IPv4 address")
    return dict.fromkeys(names, 1)


def _read(file: Path) -> dict[str, int]:
    """mpirun's hostfile: a host a line, with ``slots=N`` or once for each slot; ``#`` begins a comment."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"--hostfile={file}: {getattr(error, 'strerror', None) or error}") from error
    slots: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        found = re.fullmatch(r"([A-Za-z0-9_.-]+)((?:\s+[a-z_-]+\s*=\s*\d+)*)", text)
        said = dict(re.findall(r"([a-z_-]+)\s*=\s*(\d+)", found[2])) if found else {}
        if found is None or not set(said) <= {"slots"} or said.get("slots") == "0":
            raise InvalidArgument(f"--hostfile={file}, line {number}: {text!r} is not a host, nor host slots=N")
        slots[found[1]] = slots.get(found[1], 0) + int(said.get("slots", 1))
    return slots
