"""The values that flags of a job on Kubernetes may have: what a cluster takes; others are refused."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flota import config
from flota.errors import InvalidArgument

# Longer ones would not fit where Kubernetes appends to them: NAME-server-REVISION is a label, of at most 63 letters.
LONGEST_NAME = 40
_DEFAULT_CPU, _DEFAULT_MEMORY, DEFAULT_VOLUME = "1", "2Gi", "10Gi"
DEFAULT_USER = 1000
_MOST_SCRIPT = 900_000  # bytes; an object has at most 1 MiB, and says more than the script

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CPU = re.compile(r"(\d+(?:\.\d{1,3})?)(m?)")
_BYTES = re.compile(r"\d+(\.\d+)?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
LABEL = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")

# Set for each pod by what is rendered: another value would make it somebody else.
_OURS = {
    "TRAINING_ROLE", "PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ID", "PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_PORT",
    "POD_IP", "POD_NAME", config.LISTEN, config.HEALTH_PORT, config.METRICS_HOST, config.RESTARTS, config.REPORT,
    config.DURABLE_DIR, config.SECRET_FILE, *config.PROTECTION,
}  # fmt: skip
_BY_FLAG = {
    config.SECRET: "--secret, or set it where you launch", config.DURABLE_SYNC: "--durable_sync",
    config.METRICS_PORT: "--metrics_port", config.LOG_FORMAT: "--log_format",
    config.SNAPSHOT_SECONDS: "--snapshot_seconds", config.SNAPSHOT_MB: "--snapshot_mb",
}  # fmt: skip


@dataclass(frozen=True)
class Mount:
    """A volume that is there already, in every pod of the job."""

    claim: str
    path: str
    read_only: bool


@dataclass(frozen=True)
class Resources:
    """What a pod asks for. ``memory`` is also its limit where the user has said it; GPUs always are."""

    cpu: str
    memory: str
    memory_is_limit: bool
    gpus: int = 0


def one_of(flag: str, text: str, known: Sequence[str]) -> str:
    if text in known:
        return text
    near = difflib.get_close_matches(text, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it is one of {', '.join(filter(None, known))}"
    raise InvalidArgument(f"{flag}={text}: {hint}")


def optional(check: Callable[[str, str], str], flag: str, text: str | None) -> str:
    return check(flag, text) if text else ""


def job_name(flag: str, text: str) -> str:
    if not _NAME.fullmatch(text) or len(text) > LONGEST_NAME:
        raise InvalidArgument(
            f"{flag}={text}: at most {LONGEST_NAME} small letters, digits and dashes, the first a letter and the last "
            "no dash"
        )
    return text


def object_name(flag: str, text: str) -> str:
    if not _SUBDOMAIN.fullmatch(text) or len(text) > 253:
        raise InvalidArgument(f"{flag}={text}: the name of an object has small letters, digits, dashes and dots")
    return text


def name_of(script: str) -> str:
    text = re.sub(r"[^a-z0-9]+", "-", Path(script).stem.lower()).strip("-")[:LONGEST_NAME].strip("-")
    if not _NAME.fullmatch(text):
        raise InvalidArgument(f"--name: {script} gives the job no name that Kubernetes takes; say one")
    return text


def image(text: str | None) -> str:
    if not text:
        raise InvalidArgument("--image: say which image has the script, its packages and flota (deploy/Dockerfile)")
    if any(c.isspace() for c in text) or text.startswith("-"):
        raise InvalidArgument(f"--image={text} is no image's name, such as registry.example.com/ads:1")
    return text


def number(flag: str, number: int | None, most: int) -> int:
    if number is None:
        raise InvalidArgument(f"{flag}: say how many")
    if not 1 <= number <= most:
        raise InvalidArgument(f"{flag}={number}: from 1 to {most}")
    return number


def resources(role: str, own: Mapping[str, Any]) -> Resources:
    cpu, memory = own[f"{role}_cpu"], own[f"{role}_memory"]
    if cpu and (not (found := _CPU.fullmatch(cpu)) or float(found[1]) == 0 or (found[2] and "." in found[1])):
        raise InvalidArgument(f"--{role}_cpu={cpu}: cores such as 2, 0.5 or 500m")
    return Resources(
        cpu=cpu or _DEFAULT_CPU,
        memory=amount(f"--{role}_memory", memory or _DEFAULT_MEMORY),
        memory_is_limit=bool(memory),
        gpus=(own["worker_gpus"] or 0) if role == "worker" else 0,
    )


def amount(flag: str, text: str) -> str:
    if not _BYTES.fullmatch(text) or float(re.match(r"[\d.]+", text)[0]) == 0:  # type: ignore[index]
        raise InvalidArgument(f"{flag}={text}: bytes such as 512Mi or 4Gi")
    if text.isdecimal() and int(text) < 1 << 20:
        raise InvalidArgument(f"{flag}={text} would be {text} bytes: write {text}Gi or {text}Mi")
    return text


def user(number: int) -> int:
    if not 1 <= number < 1 << 31:
        raise InvalidArgument(f"--run_as={number}: the number of a user that is not root")
    return number


def pairs(flag: str, entries: Sequence[str], names: re.Pattern[str]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or not names.fullmatch(name):
            raise InvalidArgument(f"{flag}={entry}: write NAME=VALUE")
        if found.setdefault(name, value) != value:
            raise InvalidArgument(f"{flag}: {name} is given twice, as {found[name]} and as {value}")
    return tuple(found.items())


def variables(entries: Sequence[str]) -> tuple[tuple[str, str], ...]:
    # Not quoted in errors: a value may be a credential.
    for entry in entries:
        if "=" not in entry or not _ENV.fullmatch(entry.partition("=")[0]):
            raise InvalidArgument(f"--env={entry.partition('=')[0]}: write --env NAME=VALUE, once for each")
    names = [entry.partition("=")[0] for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument(f"--env: {name} is given twice")
        if name in _BY_FLAG:
            raise InvalidArgument(f"--env={name}: say it by {_BY_FLAG[name]}")
        if name in _OURS:
            raise InvalidArgument(f"--env={name}: every pod of the job is told its own by what is rendered")
    return tuple((entry.partition("=")[0], entry.partition("=")[2]) for entry in entries)


def mounts(entries: Sequence[str]) -> tuple[Mount, ...]:
    found: list[Mount] = []
    for entry in entries:
        claim, _, rest = entry.partition(":")
        path, _, mode = rest.partition(":")
        if not _SUBDOMAIN.fullmatch(claim) or not path.startswith("/") or mode not in ("", "ro", "rw"):
            raise InvalidArgument(f"--mount={entry}: write CLAIM:/path, or CLAIM:/path:ro")
        if any(
            path == other or path.startswith(f"{other}/") for other in ("/run/flota", "/tmp", "/dev", "/proc", "/sys")
        ):
            raise InvalidArgument(f"--mount={entry}: {path} is the job's own in every pod; choose another path")
        if path.rstrip("/") == "" or any(path == mount.path for mount in found):
            raise InvalidArgument(f"--mount={entry}: {path} is taken already")
        found.append(Mount(claim, path, mode == "ro"))
    return tuple(found)


def script_text(script: str) -> str:
    file = Path(script)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"--send_script: cannot read {script} here: {error}") from error
    if len(text.encode()) > _MOST_SCRIPT:
        raise InvalidArgument(f"--send_script: {script} has more than {_MOST_SCRIPT} bytes: put it into the image")
    return text
