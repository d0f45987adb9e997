"""The secret that processes of one user on one host share when nobody has set one."""

from __future__ import annotations

import os
from pathlib import Path

from flota import config
from flota.errors import SystemFailure
from flota.roles.placement import Placement
from flota.tls import is_loopback


def share_own_secret(placement: Placement) -> None:
    """Gives a job that was started by hand this user's secret, where it has none and all its servers are at loopback
    addresses: who can reach them there and is another user does not know it."""
    servers = placement.server_endpoints
    if servers and not config.has_secret() and all(map(is_loopback, servers)):
        use_own_secret()


def use_own_secret() -> None:
    """Where nobody has set a secret, processes that were started by hand on one host share one that only this user can
    read: it is kept in ``~/.config/flota/secret``, and made when it is first needed."""
    file = Path.home() / ".config" / "flota" / "secret"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            draft = file.with_name(f"draft-{os.getpid()}")
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
                out.write(os.urandom(32).hex() + "\n")
            try:
                os.link(draft, file)  # of several that start at once, one makes it
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        state = file.stat()
    except OSError as error:
        raise SystemFailure(
            f"cannot keep a secret in {file} ({error.strerror}): set {config.SECRET}, the same for all processes"
        ) from error
    if state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise SystemFailure(f"{file} can be read by others: chmod 600 it, or set {config.SECRET}")
    os.environ[config.SECRET_FILE] = str(file)
