"""``python -m flota.launch.ssh.agent open JOB`` starts a job's agent on this node and talks to it on standard input and
output; ``attach JOB`` talks to the one that is there. A launch starts both through SSH."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from flota.launch.ssh.protocol import BANNER, encode

_READ = 1 << 16


def _folder(job: str) -> Path:
    """The job's private folder. A socket's path is short, so it is in /tmp where the user's own place is not."""
    place = tempfile.gettempdir() if len(tempfile.gettempdir()) < 40 else "/tmp"
    return Path(place) / f"flota-agent-{os.getuid()}-{job}"


def _open(job: str) -> socket.socket:
    """Makes the folder and the agent, and connects to it."""
    folder = _folder(job)
    folder.mkdir(mode=0o700)  # refused by the kernel where somebody else has made it
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(folder / "socket"))
    listener.listen(8)
    sys.stdout.flush()
    if os.fork() == 0:
        status = 1
        try:
            _keep(folder, listener)
            status = 0
        finally:
            os._exit(status)
    listener.close()
    return _attach(job)


def _keep(folder: Path, listener: socket.socket) -> None:
    """Becomes the agent: of a session of its own, with nothing of the connection's open."""
    from flota.launch.ssh.agent.keeper import Keeper

    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if os.fork() != 0:  # nobody's child: whoever started it need not wait for it
        os._exit(0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    errors = os.open(folder / "errors", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.dup2(errors, 2)
    os.closerange(3, listener.fileno())
    os.closerange(listener.fileno() + 1, 256)
    try:
        Keeper(folder, listener).run()
    except BaseException:
        traceback.print_exc()
        raise


def _attach(job: str) -> socket.socket:
    folder = _folder(job)
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder} is not this user's alone")
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.connect(str(folder / "socket"))
    return peer


def _connect(peer: socket.socket) -> None:
    """Copies bytes both ways until either end is closed."""
    with selectors.DefaultSelector() as selector, contextlib.suppress(ConnectionError):
        selector.register(0, selectors.EVENT_READ)
        selector.register(peer, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == 0:
                    data = os.read(0, _READ)
                    peer.sendall(data)
                else:
                    data = peer.recv(_READ)
                    view = memoryview(data)
                    while view:
                        view = view[os.write(1, view) :]
                if not data:
                    return


def main(words: Sequence[str]) -> int:
    if len(words) != 2 or words[0] not in ("open", "attach") or not re.fullmatch(r"[0-9a-f]{32}", words[1]):
        print(f"usage: python -m {__package__} open|attach JOB (flota launch --hosts calls it)", file=sys.stderr)
        return 2
    what, job = words
    try:
        peer = _open(job) if what == "open" else _attach(job)
    except (FileNotFoundError, ConnectionRefusedError):
        sys.stdout.buffer.write(BANNER + encode("gone"))
        return 0
    except OSError as error:
        print(f"{error.strerror or error}: {error.filename or _folder(job)}", file=sys.stderr)
        return 1
    with peer:
        _connect(peer)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
