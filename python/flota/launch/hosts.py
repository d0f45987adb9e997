"""Endpoints, which of them are on this host, and which ports are free."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from flota.errors import InvalidArgument, SystemFailure

# Fleet's: endpoints given without ports, in the order servers, workers, count up from here.
FIRST_PORT = 6170

# Below the range from which the kernel takes the ports of outgoing connections: a port found free here stays free until
# the process that it is meant for has started, which takes seconds.
_FREE_RANGE = range(10_000, 32_768)


@dataclass(frozen=True)
class Endpoint:
    host: str  # as written; an IPv6 address has its brackets, so that host:port is what every process compares
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def address(self) -> str:
        return self.host.strip("[]")


def split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_endpoints(flag: str, text: str, first_port: int) -> list[Endpoint]:
    """Reads ``host:port,host:port``; the i-th without a port gets ``first_port`` + i."""
    endpoints = []
    for i, part in enumerate(split(text)):
        host, colon, port = part.rpartition(":")
        if part.endswith("]") or not colon:
            host, port = part, str(first_port + i)
        if not host or (":" in host and not host.startswith("[")):
            raise InvalidArgument(f"{flag}: {part} is not host:port (an IPv6 address needs brackets: [::1]:6170)")
        if not port.isdecimal() or not 1 <= int(port) <= 65535:
            raise InvalidArgument(f"{flag}: {part}: a port is a number between 1 and 65535")
        endpoints.append(Endpoint(host, int(port)))
    return endpoints


def _addresses(host: str) -> set[str]:
    """The numeric addresses of a host; none when its name means nothing here."""
    with contextlib.suppress(OSError, UnicodeError):
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_DGRAM)
        return {str(entry[4][0]) for entry in found}
    return set()


def _can_bind(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return True
    return False


def _is_here(host: str) -> bool:
    # An address is this host's exactly when it can be bound, whatever the interface.
    return host == socket.gethostname() or any(map(_can_bind, _addresses(host)))


def _is_loopback(host: str) -> bool:
    return any(address.startswith("127.") or address == "::1" for address in _addresses(host))


def local_hosts(hosts: Iterable[str], named: str) -> set[str]:
    """Those of a job's hosts that are this one.

    ``named`` is the address that somebody said this host has in the job: then only that one counts, which tells apart
    hosts that share a machine. A job whose only host is a loopback address can be nowhere else.
    """
    hosts = set(hosts)
    if len(hosts) == 1 and _is_loopback(next(iter(hosts))):
        return hosts
    if named:
        addresses = _addresses(named)
        return {host for host in hosts if host == named or _addresses(host) & addresses}
    return {host for host in hosts if _is_here(host)}


def this_host() -> str:
    """This host's name and addresses, for messages."""
    name = socket.gethostname()
    addresses = _addresses(name)
    # The address that it would use towards others; nothing is sent.
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        addresses.add(probe.getsockname()[0])
    return f"{name} ({', '.join(sorted({'127.0.0.1', *addresses}))})"


def bound(address: str, port: int, *, reuse: bool) -> socket.socket:
    family, kind, protocol, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        listener.bind(where)
        listener.listen(1)
    except OSError:
        listener.close()
        raise
    return listener


def free_ports(address: str, count: int, taken: Collection[int] = (), among: range = _FREE_RANGE) -> list[int]:
    """Ports of this host that nobody uses, all different and none of ``taken``: each was bound and given back."""
    if not any(map(_can_bind, _addresses(address))):
        raise InvalidArgument(f"{address} is no address of this host, {this_host()}: no port can be chosen there")
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        for _ in range(100 * count):
            if len(ports) == count:
                break
            port = random.choice(among)
            with contextlib.suppress(OSError):
                held.enter_context(bound(address, port, reuse=False))
                if port not in taken:
                    ports.append(port)
    if len(ports) < count:
        raise SystemFailure(f"found only {len(ports)} free ports on {address}, and the job needs {count}")
    return ports


def check_free(name: str, endpoint: Endpoint) -> None:
    """Refuses an endpoint of this host at which nobody could listen."""
    try:
        # As a server would bind it: connections that a former one left in their last wait are no obstacle.
        bound(endpoint.address, endpoint.port, reuse=True).close()
    except OSError as error:
        # An address that others know this host by, and that no interface has (a router translates it).
        if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
            return
        if error.errno == errno.EADDRINUSE:
            raise SystemFailure(
                f"port {endpoint.port} is in use: {name} cannot listen at {endpoint}; choose another"
            ) from error
        raise SystemFailure(f"{name} cannot listen at {endpoint}: {error.strerror}") from error
