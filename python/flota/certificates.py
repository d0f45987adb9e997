"""Sets of certificates: made for a job, written to a folder, and packed as text for hosts that share no folder."""

from __future__ import annotations

import atexit
import base64
import binascii
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from flota import config
from flota.errors import InvalidArgument, SystemFailure

# A set that is made for one job ends with it; no job takes this long.
DAYS_OF_A_JOB = 365

AUTHORITY = "authority.pem"
AUTHORITY_KEY = "authority.key"
SERVER = "server.pem"
SERVER_KEY = "server.key"
CLIENT = "client.pem"
CLIENT_KEY = "client.key"
# In a server's folder it means: demand certificates of clients. Of its own, because every process has the authority.
CLIENT_AUTHORITY = "client_authority.pem"

_MAX_TEXT = 1 << 20  # bytes; a set has about 5,000
# What processes of a job need, and so what is packed: no key that signs further certificates.
_PACKED = (AUTHORITY, SERVER, SERVER_KEY, CLIENT, CLIENT_KEY, CLIENT_AUTHORITY)


def make_set(folder: str | Path, hosts: Sequence[str], *, days: int, client: bool, authority_key: bool = True) -> Path:
    """Makes a set in ``folder``, which must not be there or be empty. ``authority_key=False`` forgets the key that more
    certificates could be signed with."""
    from flota import _core  # here alone: who finds a set ready does without the core

    folder = Path(folder)
    authority = _core.make_authority("flota authority", days)
    server = _core.issue_certificate(
        authority, "flota server", [host.strip("[]") for host in hosts], _core.CertificateUse.server, days
    )
    files = {AUTHORITY: authority.certificate, SERVER: server.certificate, SERVER_KEY: server.key}
    if authority_key:
        files[AUTHORITY_KEY] = authority.key
    if client:
        worker = _core.issue_certificate(authority, "flota worker", [], _core.CertificateUse.client, days)
        files |= {CLIENT: worker.certificate, CLIENT_KEY: worker.key}
        files[CLIENT_AUTHORITY] = authority.certificate
    try:
        _publish(folder, files)
    except OSError as error:
        raise SystemFailure(f"cannot write certificates to {folder}: {error.strerror}") from error
    return folder


def make_job_set(folder: str | Path, hosts: Sequence[str], *, days: int = DAYS_OF_A_JOB) -> Path:
    """A set for one job, whose workers have certificates as well, and which nobody can add to."""
    return make_set(folder, hosts, days=days, client=True, authority_key=False)


def pack(folder: str | Path) -> str:
    """A set as one line of letters, digits, ``-``, ``_`` and ``=``, which any launcher passes on in the environment.
    It holds keys: whoever reads it can pose as a process of the job, if it also has the secret."""
    files = {name: (Path(folder) / name).read_text() for name in _PACKED if (Path(folder) / name).exists()}
    return pack_files(files)


def pack_files(files: Mapping[str, str]) -> str:
    """The same of PEM files by their names in a set."""
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(dict(files)).encode(), 9)).decode()


def job_set_as_text(hosts: Sequence[str], *, days: int = DAYS_OF_A_JOB) -> str:
    """A set for one job, of which nothing is left on the disk."""
    with tempfile.TemporaryDirectory(prefix="flota-certs-") as folder:
        return pack(make_job_set(Path(folder) / "set", hosts, days=days))


def unpack(text: str, folder: str | Path) -> Path:
    """Writes the set to ``folder``, which must not be there or be empty."""
    try:
        unzip = zlib.decompressobj()
        found = json.loads(unzip.decompress(base64.urlsafe_b64decode(text.encode()), _MAX_TEXT))
        files = {name: found[name] for name in _PACKED if name in found}
        whole = {AUTHORITY, SERVER, SERVER_KEY} <= set(files) == set(found)
        if not whole or not all(isinstance(pem, str) for pem in files.values()):
            raise ValueError("not a set")
    except (ValueError, TypeError, binascii.Error, zlib.error) as error:
        # Not "from": the cause may bring a part of a key with it.
        raise InvalidArgument(
            f"{config.CERTS_TEXT} is not a set of certificates as flota certs --text prints it ({type(error).__name__})"
        ) from None
    try:
        _publish(Path(folder), files)
    except OSError as error:
        raise SystemFailure(f"cannot write certificates to {folder}: {error.strerror}") from error
    return Path(folder)


_unpacked: dict[str, Path] = {}  # by this process, for as long as it runs


def unpacked(text: str, within: Path | None = None) -> Path:
    """The folder of this set, which goes away with this process. ``within``: the folder to make it in."""
    if text not in _unpacked:
        folder = Path(tempfile.mkdtemp(prefix="flota-certs-", dir=within))
        atexit.register(_remove, folder, os.getpid())
        _unpacked[text] = unpack(text, folder / "set")
    return _unpacked[text]


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not a copy of it, which ends before
        shutil.rmtree(folder, ignore_errors=True)


def _publish(folder: Path, files: Mapping[str, str]) -> None:
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
