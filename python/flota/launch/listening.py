"""Where a page for people listens: on loopback unless another address is asked for.

auto               127.0.0.1, the first port that is free from 6180 on
6200               127.0.0.1, this port or none
node1              an address that others can reach, with TLS or --insecure
node1:6200, [::]:6200
"""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass

from flota import config, tls
from flota.errors import InvalidArgument, SystemFailure

LOOPBACK = "127.0.0.1"
FIRST_PORT = 6180
_TRIES = 64  # ports that are tried where none is asked for
_WAITING = 64  # connections that the kernel holds for the page


@dataclass(frozen=True)
class Place:
    host: str = LOOPBACK
    port: int | None = None  # None: the first that is free from FIRST_PORT on

    @property
    def is_loopback(self) -> bool:
        return self.host != "::" and tls.is_loopback(f"{self.host}:0")


def read_place(flag: str, text: str) -> Place:
    text = text.strip()
    if text == "auto":
        return Place()
    host, colon, port = text.rpartition(":")
    if text.isdecimal():
        host, port = LOOPBACK, text
    elif text.endswith("]") or not colon:
        host, port = text, ""
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise InvalidArgument(f"{flag}={text}: an IPv6 address needs brackets, as in [::1]:{FIRST_PORT}")
    if not host or (colon and not text.endswith("]") and not port):
        raise InvalidArgument(f"{flag}={text}: it must be PORT, HOST or HOST:PORT")
    if port and (not port.isdecimal() or not 1 <= int(port) <= 65535):
        raise InvalidArgument(f"{flag}={text}: a port is a number between 1 and 65535")
    return Place(host.strip("[]"), int(port) if port else None)


def check_protected(flag: str, place: Place, *, certs: bool = False, insecure: bool = False) -> None:
    """Refuses a place that others reach without TLS. ``certs``, ``insecure``: what flags say, beside the
    environment."""
    if place.is_loopback or certs or insecure or config.has_certificates() or config.insecure():
        return
    raise InvalidArgument(
        f"{flag}={place.host}: others can reach it, and there are no certificates: make some with `flota certs` and "
        f"give them by --certs or {config.CERTS}, allow a page that anybody on that network can read with --insecure, "
        "or leave the host out and reach this one's loopback by ssh -L"
    )


def listen(flag: str, place: Place) -> socket.socket:
    """A socket there. A port that was asked for and is taken is an error; else the first that is free is taken."""
    ports = [place.port] if place.port is not None else range(FIRST_PORT, FIRST_PORT + _TRIES)
    for port in ports:
        try:
            return _bound(place.host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                why = error.strerror or str(error)
                raise InvalidArgument(f"{flag}: cannot listen on {place.host}, port {port}: {why}") from error
    if place.port is not None:
        raise InvalidArgument(f"{flag}: port {place.port} is taken on {place.host}: leave it out, or give another one")
    raise SystemFailure(f"{flag}: ports {ports[0]} to {ports[-1]} are all taken on {place.host}: give another one")


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_WAITING)
    except BaseException:
        listener.close()
        raise
    return listener
