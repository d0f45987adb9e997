"""The nodes of a job, as ``--hosts`` names them: ``node1,me@node2:2222``, or a file in YAML.

    defaults: {user: trainer, key: ~/.ssh/cluster}
    hosts:
      - node1
      - {name: node2, address: 10.0.0.2, port: 2222, servers: 0, workers: 2, gpus: "0,1"}

A list of hosts alone is a file, too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flota.errors import InvalidArgument
from flota.launch.hosts import split

_FILE_NAMES = (".yaml", ".yml", ".json")
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Names become folders of logs; what ssh and name servers take is narrower still.
_NAME = re.compile(r"[A-Za-z0-9_.:%-]+")


@dataclass(frozen=True)
class Host:
    """A node as somebody wrote it down; what is empty or None is not said."""

    name: str  # as for ssh: a name in ssh_config, or an address
    address: str = ""  # by which the job's other nodes reach it
    user: str = ""
    port: int | None = None  # of its sshd
    key: str = ""  # file of a private key
    python: str = ""
    workspace: str = ""
    servers: int | None = None
    workers: int | None = None
    gpus: str = ""
    env: Mapping[str, str] = field(default_factory=dict)


# Of each entry: what it must be. Numbers are also taken where a text is wanted (gpus: 0), as YAML makes them of it.
_TEXT, _COUNT, _PORT, _ENV = "text", "count", "port", "env"
_ENTRIES = {
    "name": _TEXT, "address": _TEXT, "user": _TEXT, "port": _PORT, "key": _TEXT, "python": _TEXT, "workspace": _TEXT,
    "servers": _COUNT, "workers": _COUNT, "gpus": _TEXT, "env": _ENV,
}  # fmt: skip


def read_hosts(text: str) -> list[Host]:
    """The nodes that ``--hosts`` names, in their order; refused where one is named twice or an entry is unknown."""
    hosts = _from_file(Path(text)) if _is_file(text) else [_from_words(word, "--hosts") for word in split(text)]
    if not hosts:
        raise InvalidArgument(f"--hosts={text} names no host")
    seen: set[str] = set()
    for host in hosts:
        if host.name in seen:
            raise InvalidArgument(f"--hosts={text} names {host.name} twice: say there how many servers and workers run")
        seen.add(host.name)
    return hosts


def _is_file(text: str) -> bool:
    return text.endswith(_FILE_NAMES) or "/" in text


def _from_words(text: str, where: str) -> Host:
    """``user@name:port``, where all but the name may be left out."""
    user, at, rest = text.rpartition("@")
    name, colon, port = rest.rpartition(":")
    if rest.endswith("]") or not colon or (":" in name and not name.startswith("[")):
        name, port = rest, ""
    name = name.strip("[]")
    if not _NAME.fullmatch(name) or name.startswith((".", "-")) or (at and not user):
        raise InvalidArgument(f"{where}: {text} is not a host as user@name:port")
    if colon and port == "" and rest.endswith(":"):
        raise InvalidArgument(f"{where}: {text} has no port after its colon")
    host = Host(name, user=user)
    return replace(host, port=_port(int(port), f"{where}: {text}")) if port.isdecimal() else _no_port(host, port, text)


def _no_port(host: Host, port: str, text: str) -> Host:
    if port:
        raise InvalidArgument(f"--hosts: {text}: {port} is no port")
    return host


def _port(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 65535:
        raise InvalidArgument(f"{where}: a port is a number between 1 and 65535, not {value!r}")
    return value


def _from_file(file: Path) -> list[Host]:
    import yaml  # where it is needed: a launch on names does without

    try:
        contents = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgument(f"--hosts={file}: {error.strerror}: {file}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument(f"--hosts={file}: it is no YAML: {error}") from error
    if isinstance(contents, list):
        contents = {"hosts": contents}
    if not isinstance(contents, dict):
        raise InvalidArgument(f"{file}: it must be a list of hosts, or have the entries hosts and defaults")
    _refuse_unknown(contents, ("hosts", "defaults"), str(file))
    defaults = _checked(contents.get("defaults") or {}, f"{file}, defaults")
    if "name" in defaults or "address" in defaults:
        raise InvalidArgument(f"{file}, defaults: a name or an address is one host's alone")
    entries = contents.get("hosts")
    if not isinstance(entries, list) or not entries:
        raise InvalidArgument(f"{file}: hosts must be a list with at least one host")
    return [_from_entry(entry, defaults, f"{file}, host {i + 1}") for i, entry in enumerate(entries)]


def _from_entry(entry: object, defaults: Mapping[str, Any], where: str) -> Host:
    if isinstance(entry, str):
        said = _from_words(entry, where)
        given = {name: value for name, value in vars(said).items() if value not in ("", None, {})}
    else:
        given = _checked(entry, where)
        name = given.get("name") or given.get("address", "")
        if not name:
            raise InvalidArgument(f"{where}: it has no name")
        if not _NAME.fullmatch(name) or name.startswith((".", "-")):
            raise InvalidArgument(f"{where}: {name!r} is no name of a host; user and port have entries of their own")
        given["name"] = name
    env = {**defaults.get("env", {}), **given.get("env", {})}
    return Host(**{**defaults, **given, "env": env})


def _checked(values: object, where: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise InvalidArgument(f"{where}: it must be a name, or a mapping with the entries {', '.join(_ENTRIES)}")
    _refuse_unknown(values, tuple(_ENTRIES), where)
    return {name: _READ[_ENTRIES[name]](value, f"{where}, {name}") for name, value in values.items()}


def _refuse_unknown(values: Mapping[Any, Any], known: tuple[str, ...], where: str) -> None:
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there is {', '.join(known)}"
            raise InvalidArgument(f"{where}: there is no entry {name}: {hint}")


def _text(value: object, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or not str(value):
        raise InvalidArgument(f"{where}: it must be a text, not {value!r}")
    return str(value)


def _count(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidArgument(f"{where}: it must be a number from 0 on, not {value!r}")
    return value


def _env(value: object, where: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise InvalidArgument(f"{where}: it must be a mapping from names to texts, not {value!r}")
    for name in value:
        if not isinstance(name, str) or not _ENVIRONMENT_NAME.fullmatch(name):
            raise InvalidArgument(f"{where}: {name!r} is no name of a variable")
    # Not in the message of an error: a value may be nobody else's business.
    wrong = [name for name, text in value.items() if isinstance(text, bool) or not isinstance(text, (str, int, float))]
    if wrong:
        raise InvalidArgument(f"{where}: {wrong[0]} must be a text (put it in quotes)")
    return {name: str(text) for name, text in value.items()}


_READ = {_TEXT: _text, _COUNT: _count, _PORT: _port, _ENV: _env}
