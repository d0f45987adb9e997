"""A place on a node for one process of the job: what Ray places, and places again when the node is lost.

It starts a keeper, passes on to it what the driver says, and keeps what it answers until the driver has taken it. Each
call is safe to repeat: the driver does so when it does not know whether a call came through.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from importlib import metadata
from pathlib import Path
from typing import Any

from flota import config
from flota.errors import SystemFailure
from flota.launch.hosts import free_ports

# Above those that Ray gives its own processes (10002 to 19999), below the kernel's for outgoing connections.
_PORTS = range(20_000, 32_768)
_MOST = 16 << 20  # bytes of what was printed that wait for the driver; beyond, the oldest go
_MOST_AT_ONCE = 1 << 20
_LONGEST_WAIT = 1.0  # seconds that a call may wait for news
_END_WAIT = 10.0
_FORGOTTEN = 86_400.0  # seconds without a change, after which what was kept for a job is no job's

ON_NODES = "flota-ray-"  # what servers keep on their nodes is in folders whose names begin so


class Seat:
    """The actor. Its methods run in threads of Ray's, several at a time."""

    def __init__(self) -> None:
        self._token = secrets.token_hex(8)  # another one after each start of this actor, wherever it is
        self._news: deque[tuple[int, dict[str, Any]]] = deque()
        self._last = 0
        self._bytes = 0
        self._lost = 0
        self._starts = 0
        self._changed = threading.Condition()
        self._orders = threading.Lock()
        _sweep()
        self._keeper = self._new_keeper()

    def hello(self) -> dict[str, Any]:
        """Which node this is, and what is there."""
        import ray

        return {
            "token": self._token,
            "node": ray.get_runtime_context().get_node_id(),
            "address": _address(),
            "host": socket.gethostname(),
            "flota": metadata.version("flota"),
        }

    def has(self, *files: str) -> list[bool]:
        """Which of these files are on this node."""
        return [Path(file).exists() for file in files]

    def reads(self, file: str) -> str | None:
        """What is in a file, as this node sees it."""
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return Path(file).read_text(encoding="utf-8")
        return None

    def free_ports(self, count: int, taken: list[int]) -> list[int]:
        return free_ports(_address(), count, taken, _PORTS)

    def start(self, token: str, order: dict[str, Any]) -> bool:
        """Begins the ``order["start"]``-th start of the process; False: this is not the actor that was meant."""
        if token != self._token:
            return False
        with self._changed:
            is_new = order["start"] > self._starts
            self._starts = max(self._starts, order["start"])
        if is_new:
            if self._keeper.poll() is not None:
                self._keeper = self._new_keeper()
            lock, environment = "", dict(order["environment"])
            if order["kept"]:
                folder = _path(order["kept"])
                folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock, environment[config.DURABLE_DIR] = str(folder / "lock"), str(folder.parent)
            self._order({**order, "do": "start", "lock": lock, "environment": environment})
        return True

    def signal(self, token: str, number: int) -> None:
        if token == self._token:
            self._order({"do": "signal", "number": number})

    def hear(self, token: str, taken: int, kept: str, endpoints: list[str] | None) -> dict[str, Any]:
        """The news after the ``taken``-th, as soon as there are any: those up to it are forgotten. Also whether there
        is anything in the folder ``kept``. ``endpoints``: where the servers are from now on; None: where they were."""
        self._order({"do": "heard"} if endpoints is None else {"do": "endpoints", "lines": endpoints})
        deadline = time.monotonic() + _LONGEST_WAIT
        with self._changed:
            while token == self._token and self._news and self._news[0][0] <= taken:
                self._bytes -= len(self._news.popleft()[1].get("log", ""))
            while token == self._token and not self._news and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            sizes = itertools.accumulate(len(news.get("log", "")) for _, news in self._news)
            news = [entry for entry, size in zip(self._news, sizes, strict=True) if size <= _MOST_AT_ONCE]
        return {"token": self._token, "news": news, "holds": _holds(kept)}

    def end(self, leavings: list[str]) -> None:
        """Ends the process and its keeper, and takes away these folders of the job's on this node."""
        with self._orders, contextlib.suppress(OSError):
            assert self._keeper.stdin is not None
            self._keeper.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._keeper.wait(_END_WAIT)
        for folder in leavings:
            shutil.rmtree(_path(folder), ignore_errors=True)

    def _new_keeper(self) -> subprocess.Popen[bytes]:
        folder = tempfile.mkdtemp(prefix="flota-seat-", dir=_short_folder())
        keeper = subprocess.Popen(
            [sys.executable, "-m", "flota.launch.ray.keeper", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, args=(keeper,), daemon=True).start()
        return keeper

    def _order(self, order: dict[str, Any]) -> None:
        # Where the keeper has ended, whoever listens to it says so.
        with self._orders, contextlib.suppress(OSError, ValueError):
            assert self._keeper.stdin is not None
            self._keeper.stdin.write(json.dumps(order).encode() + b"\n")
            self._keeper.stdin.flush()

    def _listen(self, keeper: subprocess.Popen[bytes]) -> None:
        assert keeper.stdout is not None
        for line in keeper.stdout:
            self._add(json.loads(line))
        self._add({"gone": f"its keeper (pid {keeper.pid}) ended with status {keeper.wait()}"})

    def _add(self, news: dict[str, Any]) -> None:
        with self._changed:
            self._last += 1
            self._news.append((self._last, news))
            self._bytes += len(news.get("log", ""))
            if self._bytes > _MOST:
                self._forget_oldest()
            self._changed.notify_all()

    def _forget_oldest(self) -> None:
        """Of what was printed, a half: a node that is cut off neither fills its memory nor holds up the process."""
        kept: deque[tuple[int, dict[str, Any]]] = deque()
        for number, news in self._news:
            size = len(news.get("log", ""))
            if size and self._bytes > _MOST // 2:
                self._bytes -= size
                self._lost += size
                continue
            if size and self._lost:
                note = f"\n--- {self._lost} bytes of this log were lost: nobody took them ---\n"
                self._lost = 0
                self._bytes += len(note)
                news = {"log": note + news["log"]}
            kept.append((number, news))
        self._news = kept


def _address() -> str:
    """This node's, as Ray knows it."""
    from ray.util import get_node_ip_address

    return str(get_node_ip_address())  # type: ignore[no-untyped-call]


def _path(folder: str) -> Path:
    """A folder of what a server keeps: in this node's place for temporary files, if it is no path from the root."""
    return Path(tempfile.gettempdir(), folder)


def _holds(kept: str) -> bool:
    """Whether a server has kept something: there is more than its lock in its folder."""
    with contextlib.suppress(OSError):
        return any(name != "lock" for name in os.listdir(_path(kept))) if kept else False
    return False


def _sweep() -> None:
    """Takes away what servers kept on this node for launches that were killed, and could not do so themselves."""
    for folder in Path(tempfile.gettempdir()).glob(f"{ON_NODES}*"):
        with contextlib.suppress(OSError):
            newest = max(file.stat().st_mtime for file in [folder, *folder.rglob("*")])
            if time.time() - newest > _FORGOTTEN:
                shutil.rmtree(folder, ignore_errors=True)


def _short_folder() -> str:
    """Where a socket's path is not too long for the kernel."""
    place = tempfile.gettempdir()
    if len(place) > 60:
        place = "/tmp"
    if not os.access(place, os.W_OK):
        raise SystemFailure(f"cannot write to {place}")
    return place
