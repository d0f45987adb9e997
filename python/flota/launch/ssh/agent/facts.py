"""What a launch wants to know of a node before anything starts there."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import selectors
import socket
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from flota.launch.hosts import bound
from flota.tls import is_loopback

_BACKLOG = 4096
_ONLY_HERE = "means a loopback address on this host: say by address: in hosts.yaml how others reach it"


def facts() -> dict[str, Any]:
    """Of this Python and what it has. torch is looked for and not imported, which would take seconds."""
    from flota import _core

    return {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "flota": metadata.version("flota"),
        "wire": _core.PROTOCOL_VERSION,
        "torch": _torch(),
        "cores": len(os.sched_getaffinity(0)),
    }


def _torch() -> str:
    if find_spec("torch") is None:
        return ""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version("torch")
    return "unknown"


def find_workspace(text: str, *, make: bool) -> tuple[Path, str]:
    """The folder that ``text`` means here, and what is wrong with it."""
    try:
        path = Path(text).expanduser()
        path = path if path.is_absolute() else Path.home() / path
        if make:
            path.mkdir(parents=True, exist_ok=True)
        if not path.is_dir():
            return path, f"there is no folder {path}"
        path = path.resolve()
    except (OSError, RuntimeError) as error:
        return Path(text), f"{text}: {getattr(error, 'strerror', None) or error}"
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return path, f"{path} cannot be written to by this user"
    return path, ""


class Listeners:
    """Whoever would listen here, before it does: to find out whether others can come."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def open(self, places: Sequence[tuple[str, str, int]], *, alone: bool) -> list[str]:
        """Listens at each (name, address, port), and says what is wrong with those at which nobody can. ``alone``: no
        other host is to reach them."""
        problems = []
        for name, address, port in places:
            if not alone and is_loopback(f"{address}:{port}"):
                problems.append(f"{address}, at which {name} is to be reached, {_ONLY_HERE}")
                continue
            try:
                listener = bound(address, port, reuse=True)
                listener.listen(_BACKLOG)  # nobody accepts: the kernel has room for all nodes of the job
                self._sockets.append(listener)
            except OSError as error:
                problems.append(_why_not(name, address, port, error))
        return problems

    def close(self) -> None:
        while self._sockets:
            self._sockets.pop().close()


def _why_not(name: str, address: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use, and {name} is to have it: give another --first_port, or end what has it"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"no interface has the address {address}, at which {name} is to be reached: say address: in hosts.yaml"
    return f"{name} cannot listen at {address}:{port}: {error.strerror or error}"


def unreached(targets: Sequence[tuple[str, int]], timeout: float) -> dict[int, str]:
    """Connects to all of them at once; why it did not work, by place in the list."""
    failures: dict[int, str] = {}
    with selectors.DefaultSelector() as selector:
        for i, (address, port) in enumerate(targets):
            try:
                family, kind, protocol, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
                peer = socket.socket(family, kind, protocol)
                peer.setblocking(False)
                number = peer.connect_ex(where)
            except OSError as error:  # its name means nothing here
                failures[i] = str(error.strerror or error)
                continue
            if number not in (0, errno.EINPROGRESS):
                failures[i] = os.strerror(number)
                peer.close()
                continue
            selector.register(peer, selectors.EVENT_WRITE, i)
        _wait_for_all(selector, failures, timeout)
    return failures


def _wait_for_all(selector: selectors.BaseSelector, failures: dict[int, str], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while selector.get_map() and (left := deadline - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            peer = key.fileobj
            assert isinstance(peer, socket.socket)
            number = peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number:
                failures[key.data] = os.strerror(number)
            selector.unregister(peer)
            peer.close()
    for key in list(selector.get_map().values()):
        failures[key.data] = f"no answer for {timeout:g} s"
        selector.unregister(key.fileobj)
        assert isinstance(key.fileobj, socket.socket)
        key.fileobj.close()
