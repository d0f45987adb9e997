"""The command by which an engine starts a job's hosts: run to its end, and ended in order when a signal comes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from flota.errors import SystemFailure
from flota.launch.saying import say
from flota.launch.signals import Signals

_LOOK = 0.2  # seconds between looks, when no signal wakes this
_SPARE = 5.0  # seconds that an engine may take beyond what the hosts' launches do


_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def end_with_parent() -> None:
    """The kernel sends this process SIGTERM when the one that started it has ended, in whatever way."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def find(program: str, what: str, get: str) -> str:
    """The path of an engine's program."""
    path = shutil.which(program)
    if path is None:
        raise SystemFailure(f"there is no {program} in PATH, which {what}: {get}")
    return path


def run(
    command: Sequence[str], environment: Mapping[str, str], stop: Callable[[int], None], grace: float,
    tend: Callable[[], None],
) -> int:  # fmt: skip
    """Runs the engine's command, and returns the launch's exit status. ``tend``: called several times a second.

    ``stop(pid)`` asks it, or by other ways the hosts, to end in order; what is left ``grace`` and a few seconds later,
    or when a second signal comes, is killed.
    """
    signals = Signals()
    launcher = os.getpid()

    def end_with_launcher() -> None:
        end_with_parent()
        if os.getppid() != launcher:
            os._exit(1)

    # A session of its own: Ctrl-C reaches this process alone, which knows what is to be done about it.
    process = subprocess.Popen(
        command, env=dict(environment), stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=end_with_launcher
    )
    try:
        while process.poll() is None and not signals.received:
            tend()
            _pause(signals)
        if process.poll() is not None:
            return _shell_status(process.returncode)
        number = signals.received.pop(0)
        say(f"{signal.Signals(number).name}: stopping the job")
        stop(process.pid)
        deadline = time.monotonic() + grace + _SPARE
        while process.poll() is None and not signals.received and time.monotonic() < deadline:
            _pause(signals)
        return 128 + number
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2 * _SPARE)  # mpirun itself waits twice before it kills
            process.kill()
            process.wait(_SPARE)


def _pause(signals: Signals) -> None:
    select.select([signals.wake], [], [], _LOOK)
    with contextlib.suppress(BlockingIOError):
        signals.wake.recv(4096)


def _shell_status(status: int) -> int:
    return status if status >= 0 else 128 - status
