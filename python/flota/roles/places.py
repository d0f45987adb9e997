"""How a pserver of 0.10 learns which one it is: the first trainer tells it.

All pservers of a job are started by the same command, and only the trainers have the list of them. So a pserver that is
not the only one first waits at its port for its number; from then on it serves there. Both sides prove that they know
the job's secret, by HMAC-SHA-256 over a number that is used once; workers that come too early do not understand the
greeting, and try again.
"""

from __future__ import annotations

import hashlib
import hmac
import os
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
_LOOK = 0.2  # seconds between two looks for a signal, or for a pserver that is not there yet


def await_place(host: str, port: int, count: int, stopped: Callable[[], bool]) -> int | None:
    """Waits at a port for this pserver's number among ``count``; None when it was stopped before."""
    secret = config.job_secret().encode()
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        raise SystemFailure(f"cannot listen at {host}:{port}: {error.strerror}") from error
    with listener:
        listener.settimeout(_LOOK)
        while not stopped():
            try:
                peer, _ = listener.accept()
            except TimeoutError:
                continue
            with peer:
                place = _hear(peer, count, secret)
            if place is not None:
                return place
    return None


def _hear(peer: socket.socket, count: int, secret: bytes) -> int | None:
    peer.settimeout(_PEER_TIME)
    greeting = _GREETING + os.urandom(_NONCE)
    try:
        peer.sendall(greeting)
        said = _receive(peer, _PLACE.size)
        if not hmac.compare_digest(_receive(peer, _MAC), _mac(secret, b"trainer", greeting, said)):
            return None
        place, told = _PLACE.unpack(said)
        answer = _ANSWER.pack(0 if told == count else count)
        peer.sendall(answer + _mac(secret, b"pserver", greeting, said, answer))
    except OSError:
        return None  # a worker that came too early, or a stranger
    return int(place) if told == count else None


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
            greeting = _receive(peer, len(_GREETING))
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
