"""Settings from the environment: the only place that reads it, beside ``roles.py``."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from flota.errors import InvalidArgument

SECRET = "FLOTA_SECRET"
SECRET_FILE = "FLOTA_SECRET_FILE"
CERTS = "FLOTA_CERTS"
CERTS_TEXT = "FLOTA_CERTS_TEXT"
TLS_CERTIFICATE = "FLOTA_TLS_CERTIFICATE"
TLS_KEY = "FLOTA_TLS_KEY"
TLS_AUTHORITY = "FLOTA_TLS_AUTHORITY"
TLS_CLIENT_AUTHORITY = "FLOTA_TLS_CLIENT_AUTHORITY"
INSECURE = "FLOTA_INSECURE"
TIMEOUT = "FLOTA_TIMEOUT"
REPORT = "FLOTA_REPORT"
RESTARTS = "FLOTA_RESTARTS"
OBSERVE = "FLOTA_OBSERVE"
ENDPOINTS_FILE = "FLOTA_ENDPOINTS_FILE"
DURABLE_DIR = "FLOTA_DURABLE_DIR"
DURABLE_SYNC = "FLOTA_DURABLE_SYNC"
SNAPSHOT_SECONDS = "FLOTA_SNAPSHOT_SECONDS"
SNAPSHOT_MB = "FLOTA_SNAPSHOT_MB"
RECOVER_BEFORE_DAMAGE = "FLOTA_RECOVER_BEFORE_DAMAGE"
LISTEN = "FLOTA_LISTEN"
HEALTH_PORT = "FLOTA_HEALTH_PORT"
METRICS_PORT = "FLOTA_METRICS_PORT"
METRICS_HOST = "FLOTA_METRICS_HOST"
TENSORBOARD = "FLOTA_TENSORBOARD"
LOG_FORMAT = "FLOTA_LOG_FORMAT"
LOG_LEVEL = "FLOTA_LOG_LEVEL"
POD_IP = "POD_IP"
VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
THREADS = "OMP_NUM_THREADS"

DEFAULT_TIMEOUT = 30.0
DEFAULT_SNAPSHOT_SECONDS = 300.0
DEFAULT_SNAPSHOT_MB = 256.0
DEFAULT_METRICS_HOST = "127.0.0.1"
LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")  # the least first

# All that says how traffic between hosts is protected.
TLS_FILES = (TLS_CERTIFICATE, TLS_KEY, TLS_AUTHORITY, TLS_CLIENT_AUTHORITY)
PROTECTION = (CERTS, CERTS_TEXT, *TLS_FILES, INSECURE)
_HOW_DURABLE = (DURABLE_SYNC, SNAPSHOT_SECONDS, SNAPSHOT_MB, RECOVER_BEFORE_DAMAGE)
# Settings of a job that mean the same on each of its hosts.
_FORWARDED = (TIMEOUT, OBSERVE, DURABLE_DIR, *_HOW_DURABLE, THREADS, LOG_FORMAT, LOG_LEVEL)
# What it takes to ask a job's servers how they do: the secret, and what protects the traffic.
LOOKING = (SECRET, *PROTECTION, ENDPOINTS_FILE)
# What a command of the user's has no use for: it is given data, not the job.
_KEPT_BACK = (SECRET, SECRET_FILE, CERTS, CERTS_TEXT, *TLS_FILES)


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
        except UnicodeDecodeError:
            # Not "from": the cause would bring the secret's bytes with it.
            raise InvalidArgument(f"the secret in {SECRET_FILE}={file} is not text: write it as hexadecimal") from None
    raise InvalidArgument(
        f"no secret: pass secret=…, or set {SECRET} or {SECRET_FILE}; every process of a job needs the same one"
    )


def has_secret() -> bool:
    """Whether the environment names a secret; ``job_secret`` may still fail to read it."""
    return bool(os.environ.get(SECRET) or os.environ.get(SECRET_FILE))


def looking_environment() -> dict[str, str]:
    """What it takes to ask the servers of the job that this process is of, by variable; paths from everywhere."""
    found = {name: os.environ[name] for name in LOOKING if os.environ.get(name)}
    for name in (CERTS, ENDPOINTS_FILE, *TLS_FILES):
        if name in found:
            found[name] = str(Path(found[name]).resolve())
    if has_secret():
        found[SECRET] = job_secret()
    return found


def take_looking_environment(found: dict[str, str]) -> None:
    """This process asks that job's servers from here on, whatever its own environment said before."""
    for name in (SECRET_FILE, *LOOKING):
        os.environ.pop(name, None)
    os.environ.update({name: value for name, value in found.items() if name in LOOKING and value})


def tls_files() -> dict[str, str]:
    """The PEM files that the environment names, by variable; those that are not named are not in it."""
    return {name: os.environ[name] for name in TLS_FILES if os.environ.get(name)}


def certs_folder() -> str:
    """The folder of a set that ``flota certs`` made: ``FLOTA_CERTS``, or nothing."""
    folder = os.environ.get(CERTS, "")
    if folder and (files := tls_files()):
        raise InvalidArgument(f"{CERTS} names a set of certificates, and {next(iter(files))} a single file: set one")
    return folder


def certs_text() -> str:
    """A set of certificates itself, as ``flota certs --text`` prints it: ``FLOTA_CERTS_TEXT``, or nothing."""
    text = os.environ.get(CERTS_TEXT, "")
    if text and (others := [name for name in (CERTS, *TLS_FILES) if os.environ.get(name)]):
        raise InvalidArgument(f"{CERTS_TEXT} is a set of certificates, and {others[0]} names another: set one")
    return text


def has_certificates() -> bool:
    """Whether the environment names certificates, and so asks for TLS."""
    return bool(certs_folder() or certs_text() or tls_files())


def insecure() -> bool:
    """Whether traffic may leave this host without TLS: ``FLOTA_INSECURE=1``."""
    asked = _flag(INSECURE)
    if asked and has_certificates():
        raise InvalidArgument(f"{INSECURE}=1 contradicts {CERTS} or FLOTA_TLS_*: with certificates there is TLS")
    return asked


def durable_folder() -> str:
    """The folder in which each server of the job keeps what must outlive it: ``FLOTA_DURABLE_DIR``, or nothing."""
    return os.environ.get(DURABLE_DIR, "")


def how_durable() -> list[str]:
    """Which variables say how servers keep what they hold, beside where."""
    return [name for name in _HOW_DURABLE if os.environ.get(name, "") not in ("", "0")]


def durable_sync() -> bool:
    """Whether servers answer only once a change is on the disk: ``FLOTA_DURABLE_SYNC=1``."""
    return _flag(DURABLE_SYNC)


def snapshot_seconds() -> float:
    """Seconds between two snapshots of a server: ``FLOTA_SNAPSHOT_SECONDS``, or 300."""
    return _above_0(SNAPSHOT_SECONDS, DEFAULT_SNAPSHOT_SECONDS, "seconds")


def snapshot_mb() -> float:
    """MiB of redo log between two snapshots of a server, at least: ``FLOTA_SNAPSHOT_MB``, or 256."""
    return _above_0(SNAPSHOT_MB, DEFAULT_SNAPSHOT_MB, "MiB")


def recover_before_damage() -> bool:
    """Whether a damaged redo log is used up to its damage: ``FLOTA_RECOVER_BEFORE_DAMAGE=1``."""
    return _flag(RECOVER_BEFORE_DAMAGE)


def default_timeout() -> float:
    """Seconds that a call may take when nothing else is said: ``FLOTA_TIMEOUT``, or 30."""
    return _above_0(TIMEOUT, DEFAULT_TIMEOUT, "seconds")


def _flag(name: str) -> bool:
    text = os.environ.get(name, "")
    if text not in ("", "0", "1"):
        raise InvalidArgument(f"{name}={text}: it must be 1, or 0, which is also meant where it is not set")
    return text == "1"


def _above_0(name: str, default: float, unit: str) -> float:
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not number > 0:
        raise InvalidArgument(f"{name}={text} is not a number of {unit} above 0")
    return number


def observed() -> bool:
    """Whether workers tell the servers how they do, for people who look on: unless ``FLOTA_OBSERVE=0``."""
    return _flag(OBSERVE) if os.environ.get(OBSERVE) else True


def restarts() -> int:
    """How often this process was started before, as the launcher counts: ``FLOTA_RESTARTS``, or 0."""
    text = os.environ.get(RESTARTS) or "0"
    if not text.isdecimal():
        raise InvalidArgument(f"{RESTARTS}={text} is not a number of restarts")
    return int(text)


def forwarded() -> dict[str, str]:
    """What is set here of the settings that processes of the same job on other hosts are to have as well."""
    return {name: os.environ[name] for name in _FORWARDED if os.environ.get(name)}


def endpoints_file() -> str:
    """The file in which the launcher says where the job's servers are by now, a line each: ``FLOTA_ENDPOINTS_FILE``, or
    nothing where none of them moves."""
    return os.environ.get(ENDPOINTS_FILE, "")


def child_environment(**settings: str) -> dict[str, str]:
    """This process's environment with some settings on top, for a process that it starts."""
    return {**os.environ, **settings}


def command_environment() -> dict[str, str]:
    """What a user's command gets: this process's environment without the job's secret and keys. ``python`` is this one,
    also where its virtual environment is not activated."""
    kept = {name: value for name, value in os.environ.items() if name not in _KEPT_BACK}
    kept["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), kept.get("PATH", os.defpath)])
    return kept


def pod_ip() -> str:
    """The address that the job knows this host by, where somebody has said so: ``POD_IP``, or nothing."""
    return os.environ.get(POD_IP, "").strip()


def listen_host() -> str:
    """The address that a server listens on, where that is not its name in the job: ``FLOTA_LISTEN``, or nothing."""
    return os.environ.get(LISTEN, "").strip().strip("[]")


def health_port() -> int | None:
    """The port at which a server tells whether it is well: ``FLOTA_HEALTH_PORT``; None: nowhere."""
    return _port(HEALTH_PORT)


def metrics_port() -> int | None:
    """The port at which this process tells Prometheus what it counts: ``FLOTA_METRICS_PORT``; None: nowhere. To a
    launch it is the first of those of its processes."""
    return _port(METRICS_PORT)


def metrics_host() -> str:
    """The address of that port: ``FLOTA_METRICS_HOST``, or loopback."""
    return os.environ.get(METRICS_HOST, "").strip().strip("[]") or DEFAULT_METRICS_HOST


def tensorboard_folder() -> str:
    """Where workers write event files: ``FLOTA_TENSORBOARD``, or nothing."""
    return os.environ.get(TENSORBOARD, "")


def log_format() -> str:
    """How flota's own lines are written: ``FLOTA_LOG_FORMAT``, or text."""
    return _one_of(LOG_FORMAT, LOG_FORMATS, "text")


def log_level() -> str:
    """The least level of lines that are written: ``FLOTA_LOG_LEVEL``, or info."""
    return _one_of(LOG_LEVEL, LOG_LEVELS, "info")


def log_settings() -> dict[str, str]:
    """What is set here of how lines are said."""
    return {name: os.environ[name] for name in (LOG_FORMAT, LOG_LEVEL) if os.environ.get(name)}


def take_log_format(form: str) -> None:
    """This process, and those that it starts, say their lines so from here on."""
    os.environ[LOG_FORMAT] = form


def _one_of(name: str, known: tuple[str, ...], default: str) -> str:
    text = os.environ.get(name, "").strip().lower() or default
    if text not in known:
        raise InvalidArgument(f"{name}={text}: it is one of {', '.join(known)}")
    return text


def _port(name: str) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 65535:
        raise InvalidArgument(f"{name}={text}: a port is a number between 1 and 65535")
    return int(text)


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
    index = worker_index()
    return None if index is None else (path, index)


def worker_index() -> int | None:
    """Which worker of its job this process is, or looks after; None: none."""
    index = os.environ.get("PADDLE_TRAINER_ID", "")
    return int(index) if index.isdecimal() else None


def server_list() -> str:
    """The job's servers, as the environment names them: host:port,…; empty: it does not."""
    return os.environ.get("PADDLE_PSERVERS_IP_PORT_LIST", "")


def worker_count() -> int | None:
    """How many workers the environment says that there are; None: it does not say it."""
    count = os.environ.get("PADDLE_TRAINERS_NUM", "")
    return int(count) if count.isdecimal() else None


def lend_modules(folder: str) -> None:
    """Processes that this one starts find modules in ``folder`` first."""
    rest = os.environ.get("PYTHONPATH", "")
    if folder not in rest.split(os.pathsep):
        os.environ["PYTHONPATH"] = folder + (os.pathsep + rest if rest else "")


# What processes on other hosts are told by those that start them there, where the engine does not tell them all: the
# job's settings, and where Python finds modules.
_CARRIED = ("FLOTA_", "OMP_NUM_THREADS", "PYTHONPATH")
_OWN = (REPORT, RESTARTS, DURABLE_DIR)  # of one process or host


def carried_names() -> list[str]:
    """The names of this process's settings that hold for the whole job."""
    return [name for name in os.environ if name.startswith(_CARRIED) and name not in _OWN]


@dataclass(frozen=True)
class Allocation:
    """Nodes that Slurm has given this job, as it lists them."""

    job: str
    nodes: str
    components: int


def slurm_allocation() -> Allocation | None:
    """The one that this process runs in."""
    job, nodes = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_JOB_NODELIST")
    if not job or not nodes:
        return None
    components = os.environ.get("SLURM_HET_SIZE") or "1"
    return Allocation(job, nodes, int(components) if components.isdecimal() else 1)


@dataclass(frozen=True)
class Node:
    name: str  # as the engine knows it
    first: bool
    by_mpirun: bool


def leave_engine() -> Node:
    """Who this process is to mpirun or srun. From here on neither it nor what it starts is a rank or a task of theirs:
    several processes that all said they were would be in each other's way."""
    rank = os.environ.get("OMPI_COMM_WORLD_RANK")
    place = rank or os.environ.get("SLURM_NODEID") or "0"
    node = os.environ.get("SLURMD_NODENAME", "") if rank is None else ""
    if node:
        os.environ[POD_IP] = node  # the lists are of Slurm's names, whatever the host calls itself
    for variable in [name for name in os.environ if name.startswith(("OMPI_", "PMIX_", "PRTE_", "SLURM_"))]:
        del os.environ[variable]
    return Node(node or socket.gethostname(), place == "0", rank is not None)
