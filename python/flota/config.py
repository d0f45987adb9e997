"""Settings from the environment: the only place that reads it, beside ``roles.py``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from flota.errors import InvalidArgument

SECRET = "FLOTA_SECRET"
SECRET_FILE = "FLOTA_SECRET_FILE"
TIMEOUT = "FLOTA_TIMEOUT"
REPORT = "FLOTA_REPORT"
POD_IP = "POD_IP"
VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
THREADS = "OMP_NUM_THREADS"

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


def has_secret() -> bool:
    """Whether the environment names a secret; ``job_secret`` may still fail to read it."""
    return bool(os.environ.get(SECRET) or os.environ.get(SECRET_FILE))


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


def command_environment() -> dict[str, str]:
    """What a user's command gets: this process's environment without the job's secret. ``python`` is this one, also
    where its virtual environment is not activated."""
    kept = {name: value for name, value in os.environ.items() if name not in (SECRET, SECRET_FILE)}
    kept["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), kept.get("PATH", os.defpath)])
    return kept


def pod_ip() -> str:
    """The address that the job knows this host by, where somebody has said so: ``POD_IP``, or nothing."""
    return os.environ.get(POD_IP, "").strip()


def visible_devices() -> str | None:
    """The GPUs that this process and those it starts may use: ``CUDA_VISIBLE_DEVICES``; None when nobody has said."""
    return os.environ.get(VISIBLE_DEVICES)


def threads() -> str | None:
    """How many threads each process computes with, as torch has it: ``OMP_NUM_THREADS``; None when nobody has said."""
    return os.environ.get(THREADS)


def report_address() -> tuple[str, int] | None:
    """Where a worker reports its progress, and as which worker; None when nobody listens.

    ``FLOTA_REPORT`` is the path of a Unix datagram socket that ``flota launch`` opened; it is set for servers as well,
    which have no steps to report.
    """
    path = os.environ.get(REPORT)
    if not path or os.environ.get("TRAINING_ROLE") != "TRAINER":
        return None
    index = os.environ.get("PADDLE_TRAINER_ID", "")
    return (path, int(index)) if index.isdecimal() else None


def lend_modules(folder: str) -> None:
    """Processes that this one starts find modules in ``folder`` first."""
    rest = os.environ.get("PYTHONPATH", "")
    if folder not in rest.split(os.pathsep):
        os.environ["PYTHONPATH"] = folder + (os.pathsep + rest if rest else "")
