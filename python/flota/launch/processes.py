"""The processes of a job: what they have in common, and those of this host, which are started, watched and ended
together with all that they start."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from flota.errors import SystemFailure
from flota.launch.guard import Guard
from flota.launch.plan import Member
from flota.log import as_json, line_of

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

# Seconds between looks at processes that were told to end. Looked at, not waited for: several may end, or a second
# Ctrl-C may come, and there is a deadline.
_LOOK = 0.02
_KILLED_WAIT = 5.0  # seconds that the kernel may take to end one that was killed


def die_with(launcher: int) -> Callable[[], None]:
    """What a child does before it becomes the script's: it asks the kernel for SIGKILL when the launcher ends.

    Requires: the launcher's main thread starts it; to the kernel the parent is that thread.
    """

    def ask() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != launcher:  # it ended before the kernel was asked
            os._exit(1)  # between fork and exec nothing of the launcher's may run, not even an exception's way out

    return ask


class Process(ABC):
    """One process of the job, wherever it runs: what is known of it, and what may be done to it. It may be started
    again under its name, and then is another process to its kernel."""

    def __init__(self, member: Member, log: Path, starts_before: int = 0) -> None:
        """``starts_before``: of this member of the job, by launches before this one."""
        self.member = member
        self.name = member.name
        self.log = log
        self.log_begin = 0  # byte of the log at which this launch's part begins
        self.status: int | None = None  # as subprocess has it: below 0 for a signal
        self.asked_to_stop = False
        self.leaving = False  # a worker that the job goes on without
        self.starts = 0  # by this launch
        self.used_restarts = 0  # of those that it may have
        self.due: float | None = None  # when it is to be started again; infinite: when there is a place for it
        self._starts_before = starts_before
        self._began = 0.0  # when it was started last
        self._ran = 0.0

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """Its number on its host, once it was started."""

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether it was started, and its end was not seen by ``poll``."""

    @abstractmethod
    def poll(self) -> bool:
        """Whether the process has ended, by now; then what it started has, too."""

    @abstractmethod
    def signal(self, number: int) -> None:
        """Sends a signal to it, and to all that it has started."""

    @property
    def waiting(self) -> bool:
        """Whether it does not run, and is to be started by itself."""
        return self.due is not None

    @property
    def restarts(self) -> int:
        """How often it was started before, by whichever launch: what it is told as ``FLOTA_RESTARTS``."""
        return self._starts_before + max(0, self.starts - 1)

    @property
    def next_restarts(self) -> int:
        """What ``restarts`` will be for the next start."""
        return self._starts_before + self.starts

    @property
    def ran(self) -> float:
        """Seconds from its last start to its end; 0 where that start did not succeed."""
        return self._ran

    @property
    def ended_for(self) -> float:
        """Seconds since its end. Requires: it has ended, and was started."""
        return time.monotonic() - self._began - self._ran

    def wait_for_restart(self, seconds: float, used: int) -> None:
        self.used_restarts = used
        self.due = time.monotonic() + seconds

    def _begin_start(self) -> None:
        """Counts a start that is being made. Where it does not succeed, how long the one before it ran is no merit of
        its own."""
        self.starts += 1
        self.due = None
        self._ran = 0.0

    def _open_log(self) -> BinaryIO:
        """Where the process that is being started writes. The log goes on where this member of the job has run
        before."""
        log = self.log.open("ab" if self.restarts else "wb")
        if self.starts == 1:
            self.log_begin = log.tell()
        self._mark(log)
        return log

    def _mark(self, log: BinaryIO) -> None:
        """Says in the log that another process goes on from here."""
        if not self.restarts:
            return
        ended = f": {self.ending}" if self.status is not None else ""
        what = f"{self.name}, restart {self.restarts}{ended}"
        line = f"--- {datetime.now():%Y-%m-%d %H:%M:%S} {what} ---\n"
        if as_json():
            line = line_of("restarting", what, "info", process=self.name) + "\n"
        with contextlib.suppress(OSError):  # a full disk
            log.write((line if not log.tell() else f"\n{line}").encode())
            log.flush()

    @property
    def exit_status(self) -> int:
        """What a shell would say: 128 + the signal's number for a process that one ended."""
        status = self.status or 0
        return status if status >= 0 else 128 - status

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.status is None:
            return "runs"
        if self.status >= 0:
            return f"ended with exit status {self.status}"
        try:
            return f"was killed by {signal.Signals(-self.status).name}"
        except ValueError:
            return f"was killed by signal {-self.status}"

    def last_lines(self, count: int) -> list[str]:
        """The end of its log."""
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - 256 * count))
            return log.read().decode(errors="replace").splitlines()[-count:]
        return []


class LocalProcess(Process):
    """One of this host's: the leader of a group (and session) of its own, which ends with it."""

    def __init__(self, member: Member, log: Path, guard: Guard, starts_before: int = 0) -> None:
        super().__init__(member, log, starts_before)
        self._guard = guard
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self.status is None

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Starts it, or starts it again."""
        self._begin_start()
        try:
            with self._open_log() as log:
                self._began = time.monotonic()
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,  # the terminal's Ctrl-C reaches the launcher alone
                    preexec_fn=die_with(os.getpid()),  # safe: there are no threads
                )
        except OSError as error:
            raise SystemFailure(f"{self.name} could not be started: {error}") from error
        self.status = None
        self._guard.add(self._process.pid)

    def poll(self) -> bool:
        if not self.running or self._process is None:
            return True
        ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return False
        # Until the leader is waited for, its number is that of this group and can be no other's.
        self.signal(signal.SIGKILL)
        self._guard.remove(self._process.pid)
        self.status = self._process.wait()
        self._ran = time.monotonic() - self._began
        return True

    def signal(self, number: int) -> None:
        if self.running and self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)


def stop(processes: Sequence[Process], grace: float, hurry: Callable[[], bool]) -> None:
    """Ends processes: SIGTERM, then SIGKILL for those that are left after ``grace`` seconds, or when told to hurry."""
    running = [process for process in processes if not process.poll()]
    for process in running:
        process.asked_to_stop = True
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGCONT)  # one that is paused hears nothing
    deadline = time.monotonic() + grace
    while not all(process.poll() for process in running) and time.monotonic() < deadline and not hurry():
        time.sleep(_LOOK)
    for process in running:
        process.signal(signal.SIGKILL)
    deadline = time.monotonic() + _KILLED_WAIT
    while not all(process.poll() for process in running):
        if time.monotonic() > deadline:
            left = ", ".join(f"{process.name} (pid {process.pid})" for process in running if process.running)
            raise SystemFailure(f"the kernel has not ended {left} {_KILLED_WAIT:g} s after SIGKILL")
        time.sleep(_LOOK)
