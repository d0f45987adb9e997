"""``flota launch --on slurm``: srun starts a launch on each node of the allocation; salloc makes one if there is none.

sbatch --nodes=3 train.sbatch                # which runs flota launch --on slurm …
flota launch --on slurm --slurm_flags "--nodes=3 --time=1:00:00" train.py
"""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import subprocess
import sys

from flota import config
from flota.errors import InvalidArgument, SystemFailure
from flota.launch.arguments import Arguments
from flota.launch.heads import asked
from flota.launch.nodes import asking, flags, job_settings, node_command, script
from flota.launch.saying import say
from flota.launch.starting import find, run
from flota.roles.nodelist import expand_nodes

_GET = "give the command on a host of the cluster, or load Slurm's module"
_ASK = 20.0  # seconds that the controller may take to answer


def launch(arguments: Arguments) -> int:
    allocation = config.slurm_allocation()
    extra = shlex.split(arguments.own["slurm_flags"] or "")
    if allocation is None:
        return _allocate(arguments, extra)
    if allocation.components > 1:
        raise InvalidArgument(
            "--on slurm takes an allocation of one component, and this job has "
            f"{allocation.components}: start the script itself, srun --het-group=0-{allocation.components - 1} python "
            f"{arguments.training_script or 'train.py'}"
        )
    nodes = expand_nodes("SLURM_JOB_NODELIST", allocation.nodes)
    srun = find("srun", "starts the nodes", _GET)
    command = node_command(arguments, dict.fromkeys(nodes, 1))
    name = f"flota-{secrets.token_hex(4)}"
    words = [
        srun, f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}", "--ntasks-per-node=1", f"--job-name={name}",
        # The whole of every node, also where this runs within a step; a node that fails ends the others.
        "--overlap", "--cpu-bind=none", "--kill-on-bad-exit=1", "--wait=0", "--input=none", "--export=ALL",
        *extra, *command,
    ]  # fmt: skip
    say(f"srun starts a launch on each of {', '.join(nodes)}, in job {allocation.job}")
    settings = job_settings(arguments, nodes)

    def stop(pid: int) -> None:
        _stop(allocation.job, name, pid)

    with asked(arguments, asking(arguments, command, settings)) as tend:
        return run(words, config.child_environment(**settings), stop, arguments.timeout, tend)


def _allocate(arguments: Arguments, extra: list[str]) -> int:
    """Becomes salloc, which runs this command again once it has the nodes, and gives them back at its end."""
    salloc = find("salloc", "asks Slurm for nodes", _GET)
    again = [sys.executable, "-m", "flota.launch", "--on=slurm", *flags(arguments, lists=False), *script(arguments)]
    say(f"salloc asks for nodes: {shlex.join(extra) or 'one, as nothing else is said (--slurm_flags=--nodes=N)'}")
    os.execv(salloc, [salloc, *extra, *again])
    raise AssertionError("not reached")


def _stop(job: str, name: str, srun: int) -> None:
    """SIGTERM to every process of the step: srun itself would pass on nothing but SIGKILL."""
    try:
        steps = _ask(["squeue", "--noheader", "--steps", f"--job={job}", "--format=%i %j"])
        mine = [line.split()[0] for line in steps.splitlines() if line.split()[1:] == [name]]
        if mine:
            _ask(["scancel", "--signal=TERM", *mine])
            return
    except SystemFailure as error:
        say(f"{error}; srun is told to end at once")
    os.kill(srun, signal.SIGTERM)


def _ask(words: list[str]) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_ASK)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SystemFailure(f"{words[0]}: {error}") from error
    if done.returncode != 0:
        raise SystemFailure(f"{words[0]}: {done.stderr.strip()}")
    return done.stdout
