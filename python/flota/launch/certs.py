"""``flota certs DIR``: certificates for TLS between the hosts of a job.

    flota certs certs --host node1 --host 10.0.0.7

An authority of the job's own, a certificate for its servers that names their hosts, and with ``--client`` one for its
workers, which servers then demand. Every file is there whole or not at all, and keys were never readable by others.
"""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from flota import certificates, config
from flota.certificates import job_set_as_text
from flota.certificates import make_set as make_set
from flota.errors import FlotaError, InvalidArgument

_DAYS = 365


def default_hosts() -> list[str]:
    return list(dict.fromkeys(["localhost", "127.0.0.1", "::1", socket.gethostname()]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="flota certs",
        description="Make certificates for TLS between the hosts of a job.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "folder", metavar="DIR", nargs="?", help="folder to make; it must not be there yet, or be empty"
    )
    parser.add_argument(
        "--host", action="append", metavar="NAME_OR_IP",
        help="a server's host as --servers names it; give it for each (default: localhost and this host's name)",
    )  # fmt: skip
    parser.add_argument("--days", type=int, default=_DAYS, metavar="N", help="days of validity (default: %(default)s)")
    parser.add_argument("--client", action="store_true", help="a certificate for workers as well; servers demand it")
    parser.add_argument(
        "--text", action="store_true",
        help=f"make no folder: print a set for one job, client certificates and all, as a value of {config.CERTS_TEXT}",
    )  # fmt: skip
    return parser


def _explain(folder: Path, hosts: Sequence[str], days: int, *, client: bool) -> str:
    worker = (
        f"{certificates.AUTHORITY}, {certificates.CLIENT} and {certificates.CLIENT_KEY}"
        if client
        else certificates.AUTHORITY
    )
    server = f"{certificates.SERVER} and {certificates.SERVER_KEY}" + (
        f" and {certificates.CLIENT_AUTHORITY}" if client else ""
    )
    return "\n".join(
        [
            f"made {folder}: certificates for {', '.join(hosts)}, valid for {days} days",
            f"  hosts of servers need {server}, those of workers {worker}",
            f"  {certificates.AUTHORITY_KEY} signs further ones: no process of a job needs it; keep it to yourself or "
            "delete it",
            f"next: export {config.CERTS}={folder.resolve()}   on every host, for all processes of the job",
            f"  or: flota launch --certs {folder} …",
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    hosts = arguments.host or default_hosts()
    try:
        if arguments.text:
            if arguments.folder:
                raise InvalidArgument(f"--text makes no folder: leave {arguments.folder} out")
            print(job_set_as_text(hosts, days=arguments.days))
            return 0
        if not arguments.folder:
            raise InvalidArgument("name the folder to make, or say --text")
        folder = make_set(arguments.folder, hosts, days=arguments.days, client=arguments.client)
    except FlotaError as error:
        print(f"flota certs: {error}", file=sys.stderr)
        return 2 if isinstance(error, InvalidArgument) else 1
    print(_explain(folder, hosts, arguments.days, client=arguments.client))
    return 0
