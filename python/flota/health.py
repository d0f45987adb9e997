"""A port that tells, over HTTP, whether a process is well: what Kubernetes and load balancers ask.

    GET /healthz    200 from the moment the port is open, also while a durable folder is recovered
    GET /readyz     200 while the server serves, 503 before

``FLOTA_HEALTH_PORT`` opens it in ``init_server``, ``--health_port`` in ``python -m flota.server``. Whoever reaches the
port may ask, so it tells nothing else, and a stranger costs little: one thread, at most 32 connections of two seconds
and two KiB each. One more sends the oldest away, so a flood keeps nobody out for longer than it takes to connect.
``pages`` has room for others: ``flota.prometheus`` tells at ``/metrics`` what a process counts.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from flota import config
from flota.errors import SystemFailure

MOST_PEERS = 32
MOST_BYTES = 2048  # of a request
SECONDS = 2.0  # that a peer may take for its request and our answer together

_TICK = 0.25  # seconds between two looks for peers that took too long
_AT_ONCE = 64  # connections taken before the others' bytes are looked at
_NO_DESCRIPTOR_WAIT = 0.05

_REASONS = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 431: "Request Too Large",
    500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    status: int
    text: str
    kind: str = "text/plain; charset=utf-8"

    def encode(self, *, body: bool) -> bytes:
        content = self.text.encode()
        head = (
            f"HTTP/1.1 {self.status} {_REASONS[self.status]}\r\nContent-Type: {self.kind}\r\n"
            f"Content-Length: {len(content)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return head.encode("ascii") + (content if body else b"")


Page = Callable[[], Answer]


@dataclass
class _Peer:
    socket: socket.socket
    until: float
    request: bytearray = field(default_factory=bytearray)
    answer: bytes | None = None


class HealthPort:
    """The port, open until ``close``. Set ``ready`` when the process serves. Thread safety: any thread.

    ``pages``: more paths, each with what answers there. It is called on the port's thread, which it must not keep.
    ``threaded``: False for a process that may have no threads: then it calls ``turn`` whenever ``fileno`` is readable,
    and several times a second, and is that thread itself. ``purpose``, ``chosen_by``: words for errors.
    """

    def __init__(
        self, host: str, port: int, *, pages: Mapping[str, Page] | None = None, not_ready: str = "starting",
        threaded: bool = True, purpose: str = "health", chosen_by: str = f"{config.HEALTH_PORT} or --health_port",
    ) -> None:  # fmt: skip
        self.ready = False
        self._not_ready = not_ready
        self._pages: dict[str, Page] = {
            "/healthz": lambda: Answer(200, "ok\n"),
            "/readyz": self._readiness,
            **(pages or {}),
        }
        self._listener = _listen(host, port, purpose, chosen_by)
        self._peers: dict[socket.socket, _Peer] = {}  # oldest first
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        # Closing it is heard by the thread, whatever that waits for.
        self._wake, self._waked = socket.socketpair()
        self._selector.register(self._waked, selectors.EVENT_READ)
        self._thread: threading.Thread | None = None
        if threaded:
            self._thread = threading.Thread(target=self._run, name=f"flota-{purpose}", daemon=True)
            self._thread.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        """Ends the thread and frees the port; a second call does nothing."""
        self._wake.close()
        if self._thread is not None:
            self._thread.join(SECONDS)
        else:
            self._free()

    def fileno(self) -> int:
        """Readable when there is something to do."""
        return self._selector.fileno()

    def turn(self) -> None:
        """Does what can be done without waiting. Requires: it has no thread."""
        self._turn(0.0)

    def _readiness(self) -> Answer:
        return Answer(200, "ok\n") if self.ready else Answer(503, f"{self._not_ready}\n")

    def _run(self) -> None:
        try:
            while self._turn(_TICK):
                pass
        finally:
            self._free()

    def _free(self) -> None:
        for peer in list(self._peers.values()):
            self._end(peer)
        self._selector.close()
        self._listener.close()
        self._waked.close()

    def _turn(self, seconds: float) -> bool:
        """Serves those that have something to say; False: the end."""
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._waked:
                return False
            if key.fileobj is self._listener:
                self._accept()
            elif peer := self._peers.get(key.fileobj):  # type: ignore[call-overload]
                self._serve(peer)
        now = time.monotonic()
        for peer in [peer for peer in self._peers.values() if peer.until < now]:
            self._end(peer)
        return True

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection = self._listener.accept()[0]
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError:  # no descriptors left: whoever has one of ours longest gives it back
                self._end_oldest()
                time.sleep(_NO_DESCRIPTOR_WAIT)
                return
            if len(self._peers) >= MOST_PEERS:
                self._end_oldest()
            connection.setblocking(False)
            self._peers[connection] = _Peer(connection, time.monotonic() + SECONDS)
            self._selector.register(connection, selectors.EVENT_READ)

    def _serve(self, peer: _Peer) -> None:
        try:
            if peer.answer is None:
                piece = peer.socket.recv(MOST_BYTES + 1 - len(peer.request))
                peer.request += piece
                complete = b"\r\n\r\n" in peer.request or b"\n\n" in peer.request
                if not piece or not (complete or len(peer.request) > MOST_BYTES):
                    if not piece:
                        self._end(peer)
                    return
                peer.answer = self._answer(bytes(peer.request), complete=complete)
                self._selector.modify(peer.socket, selectors.EVENT_WRITE)
            peer.answer = peer.answer[peer.socket.send(peer.answer) :]
            if not peer.answer:
                peer.socket.shutdown(socket.SHUT_WR)
                self._end(peer)
        except BlockingIOError:
            pass
        except OSError:
            self._end(peer)

    def _answer(self, request: bytes, *, complete: bool) -> bytes:
        if not complete:
            return Answer(431, "too long\n").encode(body=True)
        words = request.split(b"\n", 1)[0].strip().split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return Answer(400, "not HTTP\n").encode(body=True)
        if words[0] not in (b"GET", b"HEAD"):
            return Answer(405, "GET only\n").encode(body=True)
        page = self._pages.get(words[1].partition(b"?")[0].decode("latin-1"))
        body = words[0] == b"GET"
        if page is None:
            return Answer(404, "no such page\n").encode(body=body)
        try:
            return page().encode(body=body)
        except Exception:  # of a page of somebody else's making: the port outlives it, and says nothing about it
            return Answer(500, "failed\n").encode(body=body)

    def _end_oldest(self) -> None:
        for peer in list(self._peers.values())[:1]:
            self._end(peer)

    def _end(self, peer: _Peer) -> None:
        if self._peers.pop(peer.socket, None) is None:
            return
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(peer.socket)
        peer.socket.close()


def _listen(host: str, port: int, purpose: str, chosen_by: str) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
        return listener
    except OSError as error:
        raise SystemFailure(
            f"the {purpose} port {port} cannot be opened on {host}: {error.strerror}; choose another with {chosen_by}"
        ) from error


def open_health_port(host: str, port: int | None, *, not_ready: str = "starting") -> HealthPort | None:
    """The port, if one is asked for: ``port``, or what ``FLOTA_HEALTH_PORT`` says."""
    asked = config.health_port() if port is None else port
    return None if asked is None else HealthPort(host.strip("[]"), asked, not_ready=not_ready)
