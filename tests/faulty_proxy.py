"""A network that misbehaves: it stands between clients and one server, and every connection through it meets a fate.

Fates come from a seeded generator, so that a failing seed fails again (what happens in which order is still the
threads' affair). A connection that is cut while an answer is on its way makes the client send its request again, which
is how a server gets to see a push twice.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

# Bytes of the handshake: ClientHello up; ServerHello and ServerProof down. A frame's header has 32 more.
HELLO_UP, HELLO_DOWN, HEADER = 72, 96, 32

FATES = ("cut request", "cut reply", "lose reply", "drop", "damage request", "damage reply", "delay")


@dataclass(frozen=True)
class Fate:
    """What happens to a connection once `up` bytes went to the server, or `down` bytes came from it."""

    what: str
    up: int = 1 << 40
    down: int = 1 << 40
    reset: bool = False  # cut with a TCP reset, not with a polite end


def choose_fate(rng: random.Random, what: str) -> Fate:
    reset = rng.random() < 0.5
    if what == "cut request":
        return Fate(what, up=rng.randrange(0, 2000), reset=reset)
    if what == "cut reply":
        return Fate(what, down=rng.choice([rng.randrange(0, 600), rng.randrange(0, 6000)]), reset=reset)
    if what == "lose reply":
        return Fate(what, down=HELLO_DOWN, reset=reset)
    if what == "drop":
        return Fate(what, up=rng.randrange(0, 2000), reset=reset)
    if what == "damage request":
        return Fate(what, up=rng.randrange(HELLO_UP, HELLO_UP + 1500))
    if what == "damage reply":
        # The payload of the first answer: what is damaged there shows in its checksum.
        return Fate(what, down=HELLO_DOWN + HEADER + rng.randrange(8))
    return Fate(what, up=rng.randrange(500, 3000), reset=reset)


class FaultyProxy:
    """Listens on `endpoint` and passes connections on to the server at `target`, each with its fate.

    `fates` are those that connections get at random. With none, all is well but for what `force` says.
    """

    def __init__(self, target: str, seed: int = 0, fates: tuple[str, ...] = FATES) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._rng = random.Random(seed)
        self._fates = fates
        self._forced: list[Fate] = []
        self._lock = threading.Condition()
        self._sockets: set[socket.socket] = set()
        self._closed = False
        self.met: Counter[str] = Counter()
        self.before_cut: Callable[[], object] | None = None  # called when a fate is about to come true
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def force(self, fate: Fate) -> None:
        """The next connection meets this fate."""
        with self._lock:
            self._forced.append(fate)

    def cut_all(self) -> None:
        """Cuts every connection there is, and returns when all are."""
        with self._lock:
            doomed = set(self._sockets)
            for each in doomed:
                _wake(each)
            self._lock.wait_for(lambda: not doomed & self._sockets, timeout=10)

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()

    def __enter__(self) -> FaultyProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next_fate(self) -> Fate:
        with self._lock:
            if self._forced:
                fate = self._forced.pop(0)
            elif self._fates:
                fate = choose_fate(self._rng, self._rng.choice(self._fates))
            else:
                fate = Fate("pass")
            self.met[fate.what] += 1
            return fate

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets |= {client, server}
            threading.Thread(target=self._carry, args=(client, server, self._next_fate()), daemon=True).start()

    def _carry(self, client: socket.socket, server: socket.socket, fate: Fate) -> None:
        down = threading.Thread(target=self._pump, args=(server, client, fate, fate.down), daemon=True)
        down.start()
        self._pump(client, server, fate, fate.up)
        down.join()
        # Closed only now that no thread uses them: a number of a closed socket soon belongs to another one.
        for each in (client, server):
            if fate.reset:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with self._lock:
                self._sockets.discard(each)
                each.close()
                self._lock.notify_all()

    def _pump(self, source: socket.socket, sink: socket.socket, fate: Fate, limit: int) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if fate.what == "delay":
                    time.sleep(0.002)
                if passed + len(data) > limit:
                    before, after = data[: limit - passed], data[limit - passed :]
                    sink.sendall(before)
                    if self.before_cut is not None:
                        self.before_cut()
                    if not fate.what.startswith("damage"):
                        break
                    sink.sendall(bytes([after[0] ^ 0x10]) + after[1:])
                    limit = 1 << 40
                else:
                    sink.sendall(data)
                passed += len(data)
        if fate.what == "drop":
            time.sleep(0.02)  # what was sent is gone, and nobody says so yet
        for each in (source, sink):
            _wake(each)


def _wake(connection: socket.socket) -> None:
    """Whoever waits for bytes there waits no longer. The peer does not notice yet."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RD)
