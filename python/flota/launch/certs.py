"""``flota certs DIR``: certificates for TLS between the hosts of a job.

    flota certs certs --host node1 --host 10.0.0.7

An authority of the job's own, a certificate for its servers that names their hosts, and with ``--client`` one for its
workers, which servers then demand. Every file is there whole or not at all, and keys were never readable by others.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from flota import _core, config, tls
from flota.errors import FlotaError, InvalidArgument, SystemFailure

_DAYS = 365


def default_hosts() -> list[str]:
    return list(dict.fromkeys(["localhost", "127.0.0.1", "::1", socket.gethostname()]))


def make_set(folder: str | Path, hosts: Sequence[str], *, days: int, client: bool, authority_key: bool = True) -> Path:
    """Makes a set in ``folder``, which must not be there or be empty. ``authority_key=False`` forgets the key that more
    certificates could be signed with."""
    folder = Path(folder)
    authority = _core.make_authority("flota authority", days)
    server = _core.issue_certificate(
        authority, "flota server", [host.strip("[]") for host in hosts], _core.CertificateUse.server, days
    )
    files = {tls.AUTHORITY: authority.certificate, tls.SERVER: server.certificate, tls.SERVER_KEY: server.key}
    if authority_key:
        files[tls.AUTHORITY_KEY] = authority.key
    if client:
        worker = _core.issue_certificate(authority, "flota worker", [], _core.CertificateUse.client, days)
        files |= {tls.CLIENT: worker.certificate, tls.CLIENT_KEY: worker.key}
        files[tls.CLIENT_AUTHORITY] = authority.certificate
    try:
        _publish(folder, files)
    except OSError as error:
        raise SystemFailure(f"cannot write certificates to {folder}: {error.strerror}") from error
    return folder


def _publish(folder: Path, files: dict[str, str]) -> None:
    """One rename, which the kernel refuses where something is in the way: nothing is overwritten, nothing left half."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))  # mode 0700 from the start
    try:
        for name, text in files.items():
            mode = 0o600 if name.endswith(".key") else 0o644
            with open(os.open(draft / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as out:
                out.write(text)
        try:
            draft.rename(folder)  # an empty folder is replaced
        except OSError as error:
            if not os.path.lexists(folder):
                raise
            raise InvalidArgument(
                f"{folder} is there already, and certificates are never overwritten: name another folder, or take it "
                "away first"
            ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="flota certs",
        description="Make certificates for TLS between the hosts of a job.",
        allow_abbrev=False,
    )
    parser.add_argument("folder", metavar="DIR", help="folder to make; it must not be there yet, or be empty")
    parser.add_argument(
        "--host", action="append", metavar="NAME_OR_IP",
        help="a server's host as --servers names it; give it for each (default: localhost and this host's name)",
    )  # fmt: skip
    parser.add_argument("--days", type=int, default=_DAYS, metavar="N", help="days of validity (default: %(default)s)")
    parser.add_argument("--client", action="store_true", help="a certificate for workers as well; servers demand it")
    return parser


def _explain(folder: Path, hosts: Sequence[str], days: int, *, client: bool) -> str:
    worker = f"{tls.AUTHORITY}, {tls.CLIENT} and {tls.CLIENT_KEY}" if client else tls.AUTHORITY
    server = f"{tls.SERVER} and {tls.SERVER_KEY}" + (f" and {tls.CLIENT_AUTHORITY}" if client else "")
    return "\n".join(
        [
            f"made {folder}: certificates for {', '.join(hosts)}, valid for {days} days",
            f"  hosts of servers need {server}, those of workers {worker}",
            f"  {tls.AUTHORITY_KEY} signs further ones: no process of a job needs it; keep it to yourself or delete it",
            f"next: export {config.CERTS}={folder.resolve()}   on every host, for all processes of the job",
            f"  or: flota launch --certs {folder} …",
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    hosts = arguments.host or default_hosts()
    try:
        folder = make_set(arguments.folder, hosts, days=arguments.days, client=arguments.client)
    except FlotaError as error:
        print(f"flota certs: {error}", file=sys.stderr)
        return 2 if isinstance(error, InvalidArgument) else 1
    print(_explain(folder, hosts, arguments.days, client=arguments.client))
    return 0
