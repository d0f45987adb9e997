"""How traffic between hosts is protected: which certificates a process uses, or that it may do without.

What is passed to a function wins over the environment; of that, ``FLOTA_CERTS`` names a folder that ``flota certs``
made, ``FLOTA_CERTS_TEXT`` is such a set itself, ``FLOTA_TLS_*`` names single files, and ``FLOTA_INSECURE=1`` allows
traffic in the clear. Where none of them is there, the core refuses every connection that would leave this host
(docs/security.md).
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flota import certificates, config
from flota.errors import InvalidArgument

if TYPE_CHECKING:
    from flota import _core

# The files of a set.
AUTHORITY, AUTHORITY_KEY = certificates.AUTHORITY, certificates.AUTHORITY_KEY
SERVER, SERVER_KEY = certificates.SERVER, certificates.SERVER_KEY
CLIENT, CLIENT_KEY = certificates.CLIENT, certificates.CLIENT_KEY
CLIENT_AUTHORITY = certificates.CLIENT_AUTHORITY


@dataclass(frozen=True)
class Tls:
    """PEM files for TLS: the authority that signed the servers' certificates, and a certificate of one's own if they
    ask for one. ``check_host=False`` takes any certificate of that authority."""

    authority: str
    certificate: str = ""
    key: str = ""
    check_host: bool = True


@dataclass(frozen=True)
class ServerTls:
    """PEM files of a server: its certificate and key; with ``client_authority`` it demands certificates of clients that
    this authority signed."""

    certificate: str = ""
    key: str = ""
    client_authority: str = ""


def protect_server(options: _core.ServerOptions, given: ServerTls | None = None, *, insecure: bool = False) -> None:
    """Fills in a server's certificates, or that it may do without: as given, else as the environment says."""
    if given is not None and insecure:
        raise InvalidArgument("a server with certificates is not insecure: give the one or the other")
    tls = given or (ServerTls() if insecure else _server_tls())
    options.insecure = insecure or (given is None and config.insecure())
    options.tls.certificate = tls.certificate
    options.tls.key = tls.key
    options.tls.authority = tls.client_authority


def protect_client(options: _core.ClientOptions, given: Tls | None = None, *, insecure: bool = False) -> None:
    """Fills in a client's certificates, or that it may do without: as given, else as the environment says."""
    if given is not None and insecure:
        raise InvalidArgument("insecure=True and tls=… contradict each other: with certificates there is TLS")
    if given is not None and not given.authority:
        raise InvalidArgument("tls needs an authority to check the servers' certificates with")
    tls = given or (None if insecure else _client_tls())
    options.insecure = insecure or (given is None and config.insecure())
    if tls is not None:
        options.tls.authority = tls.authority
        options.tls.certificate = tls.certificate
        options.tls.key = tls.key
        options.tls.check_host = tls.check_host


def server_set(folder: str | Path) -> ServerTls:
    """A server's part of a set that ``flota certs`` made."""
    folder = Path(folder)
    authority = folder / CLIENT_AUTHORITY
    return ServerTls(
        certificate=_needed(folder, SERVER, "a server"),
        key=_needed(folder, SERVER_KEY, "a server"),
        client_authority=str(authority) if authority.exists() else "",
    )


def client_set(folder: str | Path) -> Tls:
    """A client's part of a set that ``flota certs`` made."""
    folder = Path(folder)
    authority = _needed(folder, AUTHORITY, "a client")
    if not (folder / CLIENT).exists():
        return Tls(authority)
    return Tls(authority, certificate=str(folder / CLIENT), key=_needed(folder, CLIENT_KEY, "a client"))


def is_loopback(endpoint: str) -> bool:
    """Whether only this host can reach it."""
    host = endpoint.rpartition(":")[0].strip("[]")
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return False
    return all(address.startswith("127.") or address == "::1" for address in found)


def _server_tls() -> ServerTls:
    if folder := _folder():
        return server_set(folder)
    files = config.tls_files()
    if files and config.TLS_CERTIFICATE not in files:
        raise InvalidArgument(f"{next(iter(files))} is set and {config.TLS_CERTIFICATE} is not: a server needs one")
    return ServerTls(
        certificate=files.get(config.TLS_CERTIFICATE, ""),
        key=files.get(config.TLS_KEY, ""),
        client_authority=files.get(config.TLS_CLIENT_AUTHORITY, ""),
    )


def _client_tls() -> Tls | None:
    if folder := _folder():
        return client_set(folder)
    files = config.tls_files()
    if not files:
        return None
    if config.TLS_AUTHORITY not in files:
        raise InvalidArgument(f"{next(iter(files))} is set and {config.TLS_AUTHORITY} is not: it checks the servers")
    return Tls(files[config.TLS_AUTHORITY], files.get(config.TLS_CERTIFICATE, ""), files.get(config.TLS_KEY, ""))


def _folder() -> str | Path:
    """The folder of the environment's set; of one that came as text, this process makes it."""
    text = config.certs_text()
    return certificates.unpacked(text) if text else config.certs_folder()


def _needed(folder: Path, name: str, who: str) -> str:
    file = folder / name
    if not file.is_file():
        raise InvalidArgument(f"{folder} has no {name}, which {who} needs: make a set with flota certs")
    return str(file)
