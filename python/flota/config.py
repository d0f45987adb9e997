"""Settings from the environment: the only place that reads it, beside ``roles.py``."""

from __future__ import annotations

import os
from pathlib import Path

from flota.errors import InvalidArgument

SECRET = "FLOTA_SECRET"
SECRET_FILE = "FLOTA_SECRET_FILE"
TIMEOUT = "FLOTA_TIMEOUT"

DEFAULT_TIMEOUT = 30.0


def job_secret() -> str:
    """The job's secret: ``FLOTA_SECRET``, or the contents of the file that ``FLOTA_SECRET_FILE`` names."""
    secret = os.environ.get(SECRET)
    if secret:
        return secret
    file = os.environ.get(SECRET_FILE)
    if file:
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise InvalidArgument(f"cannot read the secret from {SECRET_FILE}={file}: {error.strerror}") from error
    raise InvalidArgument(
        f"no secret: pass secret=…, or set {SECRET} or {SECRET_FILE}; every process of a job needs the same one"
    )


def default_timeout() -> float:
    """Seconds that a call may take when nothing else is said: ``FLOTA_TIMEOUT``, or 30."""
    text = os.environ.get(TIMEOUT)
    if text is None:
        return DEFAULT_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds > 0:
        raise InvalidArgument(f"{TIMEOUT}={text} is not a number of seconds above 0")
    return seconds


def child_environment(**settings: str) -> dict[str, str]:
    """This process's environment with some settings on top, for a process that it starts."""
    return {**os.environ, **settings}
