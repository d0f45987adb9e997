"""Looks after one process of a job on a node: starts it, ends it, and says what it prints and reports.

    python -m flota.launch.ray.keeper FOLDER

It is told what to do by lines of JSON on its standard input, and answers on its standard output (``orders`` and
``news`` below). A process of its own, not a thread of the actor that it works for: what it starts is to end with it,
for which the kernel wants a parent that has one thread. It ends when its input does, as when the actor or the node's
raylet is killed, and also when it has heard nothing from the launch for ``UNHEARD`` seconds: a node that is cut off
must not go on with a job that others go on with elsewhere.

Orders: {"do": "start", "start": n, "command": […], "environment": {…}, "files": {…}, "lock": path, "folder": path}
        {"do": "signal", "number": 15} · {"do": "endpoints", "lines": […]} · {"do": "heard"}
News:   {"started": n, "pid": p} · {"ended": n, "status": s} · {"failed": n, "why": text}
        {"log": text, a character for each byte} · {"report": text, "age": seconds}
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

from flota import config, report
from flota.errors import SystemFailure
from flota.launch.guard import Guard
from flota.launch.hosts import Endpoint
from flota.launch.plan import Member
from flota.launch.processes import LocalProcess, stop

UNHEARD = 40.0  # seconds; Ray by itself takes up to 65 to give up a node that is cut off
LOCK_WAIT = 120.0  # seconds that a server of before may take to let go of its folder, on a node that is lost
_GRACE = 5.0
_TICK = 0.2
_CHUNK = 1 << 16
_ENDED = 3.0  # seconds that are spent on the last words of a process that has ended


class _Piped(LocalProcess):
    """A process that writes into a pipe."""

    def __init__(self, name: str, guard: Guard) -> None:
        role, _, index = name.partition(" ")
        super().__init__(Member(role, int(index), Endpoint("", 0)), Path(os.devnull), guard)
        self.writing = -1

    def _open_log(self) -> BinaryIO:
        return os.fdopen(os.dup(self.writing), "wb", buffering=0)


class Keeper:
    def __init__(self, folder: Path, guard: Guard) -> None:
        self._folder = folder
        self._guard = guard
        self._process: _Piped | None = None
        self._start = 0
        self._waiting: dict[str, Any] | None = None  # a start that waits for a lock, until _wait_until
        self._wait_until = 0.0
        self._heard = time.monotonic()
        self._orders = b""
        self._open = True
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._reports = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._reports.setblocking(False)
        self._reports.bind(str(folder / "report"))

    def run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for source in (sys.stdin, self._reading, self._reports):
                selector.register(source, selectors.EVENT_READ)
            os.set_blocking(sys.stdin.fileno(), False)
            while self._open:
                selector.select(_TICK)
                self._take_orders()
                self._pass_on()
                self._look()
                if time.monotonic() - self._heard > UNHEARD:
                    print(f"flota: nothing heard from the launch for {UNHEARD:g} s; ending", file=sys.stderr)
                    break
        self._end_process()

    # --- orders ---

    def _take_orders(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                data = os.read(sys.stdin.fileno(), _CHUNK)
                if not data:
                    self._open = False
                    break
                self._orders += data
                if len(data) < _CHUNK:
                    break
        *lines, self._orders = self._orders.split(b"\n")
        for line in lines:
            self._heard = time.monotonic()
            self._obey(json.loads(line))

    def _obey(self, order: dict[str, Any]) -> None:
        if order["do"] == "start" and order["start"] > self._start:
            self._end_process()
            self._start = order["start"]
            self._waiting = order
            self._wait_until = time.monotonic() + LOCK_WAIT
            self._begin()
        elif order["do"] == "signal" and self._waiting is not None:
            self._waiting = None
            say(ended=self._start, status=-order["number"])
        elif order["do"] == "signal" and self._process is not None:
            self._process.asked_to_stop = True
            self._process.signal(order["number"])
        elif order["do"] == "endpoints":
            self._write("endpoints", "".join(f"{line}\n" for line in order["lines"]))

    def _begin(self) -> None:
        """Starts what waits to be started, once the folder that it keeps things in is nobody else's."""
        order = self._waiting
        if order is None:
            return
        if order["lock"] and not _is_free(Path(order["lock"])):
            if time.monotonic() > self._wait_until:
                self._waiting = None
                say(failed=self._start, why=f"another process still has {order['lock']} after {LOCK_WAIT:g} s")
            return
        self._waiting = None
        for name, text in order["files"].items():
            self._write(f"certs/{name}", text)
        self._write("endpoints", "".join(f"{line}\n" for line in order["endpoints"]))
        process = self._process = _Piped(order["name"], self._guard)
        process.writing = self._writing
        try:
            os.chdir(order["folder"] or ".")
            process.start([sys.executable, *order["command"]], self._environment(order))
        except (SystemFailure, OSError) as error:
            self._process = None
            say(failed=self._start, why=str(error))
        else:
            say(started=self._start, pid=process.pid)

    def _environment(self, order: dict[str, Any]) -> dict[str, str]:
        own = {config.REPORT: "report", config.ENDPOINTS_FILE: "endpoints", "PADDLE_GLOO_FS_PATH": "shared"}
        if order["files"]:
            own[config.CERTS] = "certs"
        paths = {name: str(self._folder / place) for name, place in own.items()}
        return config.child_environment(**{**order["environment"], **paths})

    def _write(self, name: str, text: str) -> None:
        """Replaces a file of the private folder at once; nobody else can read it."""
        file = self._folder / name
        file.parent.mkdir(mode=0o700, exist_ok=True)
        draft = file.with_name(f".{file.name}.new")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(text)
        draft.replace(file)

    # --- news ---

    def _pass_on(self) -> None:
        with contextlib.suppress(BlockingIOError):
            say(log=os.read(self._reading, _CHUNK).decode("latin-1"))
        with contextlib.suppress(BlockingIOError):
            while True:
                datagram = self._reports.recv(report.MAX_BYTES + 1).decode(errors="replace")
                say(report=datagram, age=_age(datagram))

    def _look(self) -> None:
        self._begin()
        process = self._process
        if process is None or not process.poll():
            return
        # All that it wrote and reported comes before the news of its end.
        deadline = time.monotonic() + _ENDED
        while _ready(self._reading, self._reports.fileno()) and time.monotonic() < deadline:
            self._pass_on()
        self._process = None
        say(ended=self._start, status=process.status)

    def _end_process(self) -> None:
        if self._process is not None:
            stop([self._process], 0.0 if not self._open else _GRACE, hurry=lambda: False)
            self._look()


def _ready(*files: int) -> bool:
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        return bool(selector.select(0))


def say(**news: Any) -> None:
    """To the actor. Where it is gone, so is this process's reason to be, which it will notice."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(news) + "\n")
        sys.stdout.flush()


def _age(datagram: str) -> float:
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        return max(0.0, time.monotonic() - float(json.loads(datagram)["time"]))
    return 0.0


def _is_free(lock: Path) -> bool:
    """Whether nobody holds the lock of a server's folder; one that is not there is nobody's."""
    with contextlib.suppress(FileNotFoundError), lock.open("r+b") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def main() -> None:
    folder = Path(sys.argv[1])
    (folder / "shared").mkdir()
    # It ends when its input does. Heard and not heeded, since what is ignored would be so by the script, too; for the
    # same reason nothing stays blocked that a thread of Ray's had blocked.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    with contextlib.closing(Guard(folder)) as guard:
        Keeper(folder, guard).run()


if __name__ == "__main__":
    main()
