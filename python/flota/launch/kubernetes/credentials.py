"""The contents of a job's Secret: what proves that a pod is of the job, and the certificates of its servers."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

from flota import config, tls
from flota.errors import InvalidArgument
from flota.launch.kubernetes.pods import SECRET_KEY, SERVER_FILES, WORKER_FILES
from flota.launch.kubernetes.settings import Settings

_DAYS = 365


def make_contents(settings: Settings) -> dict[str, str]:
    """By key, the texts. The secret and the set of certificates that the user has named, or new ones, which name the
    servers. Requires: the job has no Secret already (``--secret``)."""
    secret = config.job_secret() if config.has_secret() else secrets.token_hex(32)
    if settings.insecure:
        return {SECRET_KEY: secret}
    if settings.certs:
        return {SECRET_KEY: secret, **_files(Path(settings.certs))}
    from flota.launch.certs import make_set  # with the core, which --insecure does without

    with tempfile.TemporaryDirectory(prefix="flota-") as folder:  # mode 0700
        made = make_set(Path(folder) / "certs", settings.server_hosts, days=_DAYS, client=True, authority_key=False)
        return {SECRET_KEY: secret, **_files(made)}


def _files(folder: Path) -> dict[str, str]:
    # Checks that a server and a worker find theirs.
    tls.server_set(folder)
    tls.client_set(folder)
    absent = [name for name in (*SERVER_FILES, *WORKER_FILES) if not (folder / name).is_file()]
    if absent:
        raise InvalidArgument(
            f"--certs={folder}: {absent[0]} is not there, and on a network that other pods are on workers have "
            "certificates too: make the set with flota certs --client, or leave --certs out and a new one is made"
        )
    try:
        return {name: (folder / name).read_text(encoding="ascii") for name in (*SERVER_FILES, *WORKER_FILES)}
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"--certs={folder}: {error}") from error
