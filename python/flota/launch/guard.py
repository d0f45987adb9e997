"""A process that ends the job's processes, and takes away its folder, when the launcher is killed.

SIGKILL leaves the launcher no time. The kernel ends its children then (see ``processes``), but not theirs: readers of
data, commands in a pipe. The guard holds the reading end of a pipe whose other end only the launcher has; when that
closes, in whatever way, it kills every process group that it was told of. Until they have ended it keeps the lock of
the job's durable folder, so that a launch that resumes the job does not meet them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import time
from pathlib import Path

_KILLED_WAIT = 5.0  # seconds that the kernel may take to end what was killed
_LOOK = 0.01


def runs(pid: int) -> bool:
    """Whether there is such a process that has not ended yet."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


class Guard:
    def __init__(self, folder: Path, lock: int | None = None) -> None:
        """Starts the guard. Requires: no threads yet, since the guard is a copy of this process."""
        reading, self._writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _watch(reading, folder, lock)
            finally:
                # Not sys.exit: this is a copy of the launcher, whose handlers and buffers are not its to run and flush.
                os._exit(0)
        os.close(reading)

    def add(self, group: int) -> None:
        self._tell(f"+{group}\n")

    def remove(self, group: int) -> None:
        """Takes back a group. Requires: its leader is not waited for yet; after that its number may mean another."""
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """Ends the guard, the groups that were not taken back, and the folder."""
        os.close(self._writing)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _tell(self, line: str) -> None:
        # Somebody may have killed the guard; the job goes on without it.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._writing, line.encode())


def _watch(reading: int, folder: Path, lock: int | None) -> None:
    # No signal that is meant for the launcher reaches this process.
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Nor does it hold open what the launcher's readers wait to see closed, least of all the pipe's other end.
    kept = fcntl.fcntl(reading, fcntl.F_DUPFD, 3)
    open_still = sorted({kept} if lock is None else {kept, lock})
    for begin, end in zip([-1, *open_still], [*open_still, os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(begin + 1, end)
    groups: set[int] = set()
    with os.fdopen(kept, encoding="ascii") as lines:
        for line in lines:
            (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    deadline = time.monotonic() + _KILLED_WAIT
    while any(map(runs, groups)) and time.monotonic() < deadline:
        time.sleep(_LOOK)
    shutil.rmtree(folder, ignore_errors=True)
