"""How a pserver of 0.10 learns which one it is: the first trainer tells it.

All pservers of a job are started by the same command, and only the trainers have the list of them. So a pserver that is
not the only one first waits at its port for its number; from then on it serves there. Both sides prove that they know
the job's secret, by HMAC-SHA-256 over a number that is used once; workers that come too early do not understand the
greeting, and try again.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import selectors
import socket
import struct
import time
from collections.abc import Callable, Sequence

from flota import config
from flota.errors import InvalidArgument, ServerUnavailable, SystemFailure

_GREETING = b"flota pserver, place? 1\n"
_NONCE = 32
_PLACE = struct.Struct("<II")  # a pserver's number, and how many there are
_ANSWER = struct.Struct("<I")  # 0, or how many the pserver was told of
_MAC = 32
_PEER_TIME = 2.0  # seconds that a peer has to say its part
_MAX_PEERS = 64  # that are heard at a time
_LOOK = 0.2  # seconds between two looks for a signal, or for a pserver that is not there yet


class _Peer:
    """Somebody who came to tell a place, and what was heard of it so far."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.greeting = _GREETING + os.urandom(_NONCE)
        self.heard = b""
        self.until = time.monotonic() + _PEER_TIME
        connection.setblocking(False)
        connection.send(self.greeting)  # into an empty buffer, which has room for it

    def hear(self) -> bool:
        """Takes what has arrived; whether all of it is there. An ``OSError`` when the peer is gone."""
        part = self.connection.recv(_PLACE.size + _MAC - len(self.heard))
        if not part:
            raise ConnectionResetError("the connection was closed")
        self.heard += part
        return len(self.heard) == _PLACE.size + _MAC

    def answer(self, count: int, secret: bytes) -> int | None:
        """The place that it told, or None where it does not know the secret or speaks of another job."""
        said, proof = self.heard[: _PLACE.size], self.heard[_PLACE.size :]
        if not hmac.compare_digest(proof, _mac(secret, b"trainer", self.greeting, said)):
            return None
        place, told = _PLACE.unpack(said)
        answer = _ANSWER.pack(0 if told == count else count)
        self.connection.send(answer + _mac(secret, b"pserver", self.greeting, said, answer))
        return int(place) if told == count else None


class _Hearing:
    """Hears several peers side by side, so that one that says nothing, or too little, is in nobody's way: a few at a
    time, each for a moment, and the oldest goes for a new one."""

    def __init__(self, listener: socket.socket, count: int, secret: bytes) -> None:
        self._listener = listener
        self._count = count
        self._secret = secret
        self._peers: list[_Peer] = []  # oldest first
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        listener.setblocking(False)

    def look(self) -> int | None:
        """Waits a moment; the place, if somebody told it."""
        for key, _ in self._selector.select(_LOOK):
            if key.data is None:
                self._welcome()
            elif key.data in self._peers and (place := self._hear(key.data)) is not None:
                return place
        for peer in [peer for peer in self._peers if peer.until < time.monotonic()]:
            self._dismiss(peer)
        return None

    def close(self) -> None:
        for peer in list(self._peers):
            self._dismiss(peer)
        self._selector.close()

    def _welcome(self) -> None:
        with contextlib.suppress(OSError):  # it left again
            peer = _Peer(self._listener.accept()[0])
            if len(self._peers) == _MAX_PEERS:
                self._dismiss(self._peers[0])
            self._peers.append(peer)
            self._selector.register(peer.connection, selectors.EVENT_READ, peer)

    def _hear(self, peer: _Peer) -> int | None:
        place = None
        with contextlib.suppress(OSError):  # a worker that came too early, or a stranger
            if not peer.hear():
                return None
            place = peer.answer(self._count, self._secret)
        self._dismiss(peer)
        return place

    def _dismiss(self, peer: _Peer) -> None:
        self._peers.remove(peer)
        self._selector.unregister(peer.connection)
        peer.connection.close()


def await_place(host: str, port: int, count: int, stopped: Callable[[], bool]) -> int | None:
    """Waits at a port for this pserver's number among ``count``; None when it was stopped before."""
    secret = config.job_secret().encode()
    try:
        listener = socket.create_server((host, port), backlog=128)
    except OSError as error:
        raise SystemFailure(f"cannot listen at {host}:{port}: {error.strerror}") from error
    place = None
    with listener, contextlib.closing(_Hearing(listener, count, secret)) as hearing:
        while place is None and not stopped():
            place = hearing.look()
    return place


def tell_places(endpoints: Sequence[str]) -> None:
    """Tells the pservers at these first ports their numbers. One that serves already is left alone: if it has another
    number than it should, connecting to it says so."""
    secret = config.job_secret().encode()
    end = time.monotonic() + config.default_timeout()
    for place, endpoint in enumerate(endpoints):
        while not _tell(endpoint, place, len(endpoints), secret):
            if time.monotonic() > end:
                raise ServerUnavailable(
                    f"pserver {place} ({endpoint}) did not answer within {config.default_timeout():g} s; is it running?"
                )
            time.sleep(_LOOK)


def _tell(endpoint: str, place: int, count: int, secret: bytes) -> bool:
    host, _, port = endpoint.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _PEER_TIME) as peer:
            try:
                greeting = _receive(peer, len(_GREETING))
            except TimeoutError:
                return (
                    config.has_certificates()
                )  # a server with TLS says nothing before its client does: it serves already
            if greeting != _GREETING:
                return True
            greeting += _receive(peer, _NONCE)
            said = _PLACE.pack(place, count)
            peer.sendall(said + _mac(secret, b"trainer", greeting, said))
            try:
                answer = _receive(peer, _ANSWER.size)
            except ConnectionError as error:
                raise InvalidArgument(
                    f"pserver {place} ({endpoint}) refused this trainer's secret; both must be given the same one "
                    f"({config.SECRET})"
                ) from error
            if not hmac.compare_digest(_receive(peer, _MAC), _mac(secret, b"pserver", greeting, said, answer)):
                raise InvalidArgument(f"what answers at {endpoint} does not know the job's secret: it is not ours")
    except OSError:
        return False
    (other,) = _ANSWER.unpack(answer)
    if other:
        raise InvalidArgument(
            f"pserver {place} ({endpoint}) was started with --num_gradient_servers={other}; pservers names {count}: "
            "make them agree"
        )
    return True


def _receive(peer: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = peer.recv(size - len(received))
        if not part:
            raise ConnectionResetError("the connection was closed")
        received += part
    return received


def _mac(secret: bytes, who: bytes, *parts: bytes) -> bytes:
    return hmac.new(secret, b"".join((b"flota place ", who, *parts)), hashlib.sha256).digest()
