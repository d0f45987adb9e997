"""The server that runs beside a rank of MPI, and the end of both: with each other, and with ``mpirun``."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

# The process whose server this one is.
RANK_PROCESS = "FLOTA_RANK_PROCESS"

# By what they speak to mpirun. Their numbers (OMPI_COMM_WORLD_…) stay: a script may ask for them to find its data.
_OF_MPIRUN = ("PMIX_", "OMPI_MCA_", "PRTE_")
_LAST_WAIT = 5.0  # seconds that a server has to end after its worker, and a worker after mpirun


def is_beside_a_rank() -> bool:
    return bool(os.environ.get(RANK_PROCESS))


def start_beside(told: Mapping[str, str]) -> None:
    """Starts this process's script once more, as the server that the settings say."""
    # The server is no rank: were it to speak to mpirun under its worker's name, both would fail.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OF_MPIRUN)}
    command = [sys.executable, *sys.orig_argv[1:]]
    settings = {**kept, **told, RANK_PROCESS: str(os.getpid())}
    server = subprocess.Popen(command, env=settings, stdin=subprocess.DEVNULL)
    atexit.register(_await, server)


def _await(server: subprocess.Popen[bytes]) -> None:
    """A server ends when all workers have; one that does not is left over from a job that failed."""
    for end in (server.terminate, server.kill):
        try:
            server.wait(_LAST_WAIT)
            return
        except subprocess.TimeoutExpired:
            end()
    server.wait()  # the kernel's promise


def end_with_rank() -> None:
    """The kernel stops this process when its worker is gone, in whatever way."""
    set_parent_death_signal = 1
    ctypes.CDLL(None, use_errno=True).prctl(set_parent_death_signal, signal.SIGTERM)
    if os.getppid() != int(os.environ[RANK_PROCESS]):
        raise SystemExit(0)  # it was gone before that


def end_with_mpirun() -> None:
    """This process ends when the daemon that started it is gone: mpirun, or its own on another host.

    One that is killed ends nothing itself; a rank may be a grandchild of it, by a script in between.
    """
    daemon = _daemon()
    if daemon is not None:
        threading.Thread(target=_watch, args=(daemon,), name="flota-mpirun", daemon=True).start()


def _daemon() -> int | None:
    """A descriptor of the nearest ancestor that is no rank; None where that cannot be known."""
    process = os.getppid()
    with contextlib.suppress(OSError, ValueError):
        while _is_rank(process):
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        if process > 1:
            return os.pidfd_open(process)
    return None


def _is_rank(process: int) -> bool:
    return b"\0OMPI_COMM_WORLD_RANK=" in b"\0" + Path(f"/proc/{process}/environ").read_bytes()


def _watch(daemon: int) -> None:
    ended = select.poll()
    ended.register(daemon, select.POLLIN)
    ended.poll()
    # Nothing is said: mpirun was what read it.
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_LAST_WAIT)
    os.kill(os.getpid(), signal.SIGKILL)
