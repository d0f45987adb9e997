"""``flota launch --dashboard``: the job's page, a process beside the job that may die without harm.

The page looks at the job as anybody with its secret does (``flota.observe.page``): it asks this launch which job that
is, and gets neither secret nor key by its command line. The socket is opened here, so that a port that is taken is
refused before anything runs. It ends with the launch: the kernel ends it when the launcher is killed, its input ends
too, and the last line there tells how the processes have ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from flota import config
from flota.launch.arguments import Arguments
from flota.launch.attaching import plain
from flota.launch.listening import check_protected, listen, read_place
from flota.launch.rows import Shown
from flota.launch.saying import say
from flota.launch.view import View

FLAG = "--dashboard"
LOG = "dashboardlog"  # in the folder of the logs
_LAST_WAIT = 3.0  # seconds that the page may take to tell its readers of the end

_Shown = TypeVar("_Shown", bound=Shown)


class Dashboard:
    """The page of one launch. ``start`` it once the launch answers who attaches (``attaching.tell_lookers``)."""

    def __init__(self, asked: Arguments) -> None:
        """Opens the socket. Requires: ``asked.dashboard`` is not None."""
        place = read_place(FLAG, asked.dashboard or "auto")
        check_protected(FLAG, place, certs=bool(asked.certs), insecure=asked.insecure)
        self._socket = listen(FLAG, place)
        self._host = place.host
        self._logs = Path(asked.log_dir)
        self._process: subprocess.Popen[bytes] | None = None
        self._told = b""
        self._shown: Shown | None = None

    def start(self, shown: Shown | None = None) -> None:
        """``shown``: the job, where this launch knows of its processes. Requires: the main thread calls it."""
        self._shown = shown
        command = [
            sys.executable, "-m", "flota.observe.page", f"--log_dir={self._logs}", f"--socket={self._socket.fileno()}",
            f"--listen={self._url_host()}", f"--launcher={os.getpid()}",
        ]  # fmt: skip
        try:
            with (self._logs / LOG).open("wb") as log:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=config.child_environment(),
                    pass_fds=[self._socket.fileno()], start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            say(f"the dashboard could not be started: {error}; the job goes on without it")
            return
        finally:
            self._socket.close()
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def update(self) -> None:
        """Says what the page has said, and that it has ended, once."""
        if self._process is None:
            return
        assert self._process.stdout is not None
        with contextlib.suppress(BlockingIOError):
            self._told += os.read(self._process.stdout.fileno(), 4096)
        *lines, self._told = self._told.split(b"\n")
        for line in lines:
            say(line.decode(errors="replace"))
        status = self._process.poll()
        if status is not None:
            ended = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            say(
                f"the dashboard {ended} ({self._logs / LOG}); the job goes on without it, and `flota dashboard "
                f"--log_dir={self._logs}` opens another"
            )
            self._forget()

    def close(self) -> None:
        """Tells the page how the job's processes have ended, and ends it."""
        self._socket.close()
        if self._process is None:
            return
        assert self._process.stdin is not None
        rows = [plain(row) for row in self._shown.rows()] if self._shown is not None else []
        with contextlib.suppress(OSError):
            # More than a pipe holds is not waited for: the page ends as well without it.
            os.set_blocking(self._process.stdin.fileno(), False)
            os.write(self._process.stdin.fileno(), json.dumps({"processes": rows}).encode() + b"\n")
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        until = time.monotonic() + _LAST_WAIT
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, until - time.monotonic()))
        self._process.kill()
        self._process.wait()
        self._forget()

    def beside(self, make: Callable[[_Shown], View]) -> Callable[[_Shown], View]:
        """What makes a view of the job that looks after the page, too: it starts with the view and ends with it."""
        return lambda shown: _Beside(make(shown), self, shown)

    def _url_host(self) -> str:
        port = self._socket.getsockname()[1]
        return f"[{self._host}]:{port}" if ":" in self._host else f"{self._host}:{port}"

    def _forget(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        self._process = None


class _Beside:
    def __init__(self, view: View, page: Dashboard, shown: Shown) -> None:
        self._view = view
        self._page = page
        page.start(shown)

    def update(self) -> None:
        self._page.update()
        self._view.update()

    def close(self) -> None:
        try:
            self._view.close()
        finally:
            self._page.close()


@contextlib.contextmanager
def asked_for(asked: Arguments) -> Iterator[Dashboard | None]:
    """The page, if ``--dashboard`` asks for one."""
    if asked.dashboard is None:
        yield None
        return
    with contextlib.closing(Dashboard(asked)) as page:
        yield page
