"""Who gets which secrets: the job's secret, and certificates for TLS between its nodes.

They go from the driver to a seat as arguments of a call, and from there through a pipe into files that only this user
can read and into the environment of one process: never into Ray's control store, a command line or a log. What Ray does
with a call's arguments on the way is Ray's (docs/security.md).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flota import config, tls
from flota.errors import InvalidArgument, SystemFailure
from flota.launch.arguments import Arguments

if TYPE_CHECKING:
    from flota import _core

_DAYS = 365  # no job takes this long
_FILES = {
    "server": (tls.SERVER, tls.SERVER_KEY, tls.CLIENT_AUTHORITY),
    "worker": (tls.AUTHORITY, tls.CLIENT, tls.CLIENT_KEY),
}
# What a node's own environment says about jobs is not this one's.
_UNSET = dict.fromkeys((config.SECRET_FILE, *config.PROTECTION), "")


def check_protection(arguments: Arguments) -> None:
    """Refuses what contradicts itself or cannot be sent, before Ray is asked for anything."""
    if config.has_secret():
        config.job_secret()
    if arguments.certs and arguments.insecure:
        raise InvalidArgument("--certs and --insecure contradict each other: with certificates there is TLS")
    if arguments.insecure:
        return
    if not arguments.certs and (files := config.tls_files()):
        raise InvalidArgument(
            f"{next(iter(files))} is a path of this host: give --certs (a folder that flota certs made), which is sent "
            "to the nodes, or nothing, and the launch makes certificates"
        )
    if certs := arguments.certs or config.certs_folder():
        tls.server_set(certs)
        tls.client_set(certs)


class Protection:
    """Requires: ``check_protection`` passed."""

    def __init__(self, arguments: Arguments, hosts: Sequence[str], folder: Path) -> None:
        """``hosts``: of the servers. ``folder``: for what this launch's own processes need of it; can be entered by
        this user alone."""
        self._secret = config.job_secret() if config.has_secret() else secrets.token_hex(32)
        self._insecure = arguments.insecure or (not arguments.certs and config.insecure())
        self._set = "" if self._insecure else arguments.certs or config.certs_folder()
        self._authority: _core.Certificate | None = None
        self._client: dict[str, str] = {}
        self._folder = folder / "certs"
        self.note: str | None = None
        if self._insecure or self._set or all(tls.is_loopback(f"{host}:0") for host in hosts):
            return
        from flota import _core  # which other launches do without

        self._authority = _core.make_authority("flota authority", _DAYS)
        worker = _core.issue_certificate(self._authority, "flota worker", [], _core.CertificateUse.client, _DAYS)
        self._client = {
            tls.AUTHORITY: self._authority.certificate, tls.CLIENT: worker.certificate, tls.CLIENT_KEY: worker.key
        }  # fmt: skip
        self._folder.mkdir(mode=0o700)
        for name, text in self._client.items():
            with open(os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
                out.write(text)
        self.note = (
            f"TLS for {', '.join(dict.fromkeys(hosts))}: this launch makes certificates, which end with it "
            "(--insecure: none)"
        )

    @property
    def environment(self) -> dict[str, str]:
        """For every process of the job; where its certificates are, it is told where they are written."""
        insecure = {config.INSECURE: "1"} if self._insecure else {}
        return {**_UNSET, config.SECRET: self._secret, **insecure}

    @property
    def environment_here(self) -> dict[str, str]:
        """For processes of the launch itself that speak with servers."""
        certs = self._set or (str(self._folder) if self._client else "")
        return {**self.environment, **({config.CERTS: certs} if certs else {})}

    def files(self, role: str, host: str) -> dict[str, str]:
        """The certificates for a process of this role on this host, by the names that they have in a set."""
        if self._set:
            there = [name for name in _FILES[role] if Path(self._set, name).exists()]
            try:
                return {name: Path(self._set, name).read_text(encoding="ascii") for name in there}
            except (OSError, UnicodeDecodeError) as error:
                raise SystemFailure(f"cannot read the certificates in {self._set}: {error}") from error
        if self._authority is None:
            return {}
        if role == "worker":
            return self._client
        from flota import _core

        # Made when a server is started: it may come back at an address that nobody knew when the job began.
        own = _core.issue_certificate(self._authority, "flota server", [host], _core.CertificateUse.server, _DAYS)
        return {
            tls.SERVER: own.certificate, tls.SERVER_KEY: own.key, tls.CLIENT_AUTHORITY: self._authority.certificate
        }  # fmt: skip
