"""Lists of host:port, as scripts and launchers write them."""

from __future__ import annotations

from collections.abc import Sequence

from flota.errors import InvalidArgument


def split_list(name: str, text: str) -> list[str]:
    entries = [entry.strip() for entry in text.split(",")] if text.strip() else []
    if "" in entries:
        raise InvalidArgument(f"{name}={text}: an entry is empty; write host:port,host:port without a comma too many")
    return entries


def check_endpoints(name: str, entries: Sequence[str]) -> tuple[str, ...]:
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise InvalidArgument(f"{name} must be a list such as ['127.0.0.1:6001'], not {entries!r}")
    endpoints = tuple(_endpoint(name, entry) for entry in entries)
    for place, endpoint in enumerate(endpoints):
        if endpoint in endpoints[:place]:
            raise InvalidArgument(f"{name} names {endpoint} twice; each process has a host:port of its own")
    return endpoints


def _endpoint(name: str, entry: object) -> str:
    """host:port with the port in its shortest spelling; an IPv6 address stands in brackets."""
    if isinstance(entry, str):
        host, _, port = entry.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]") and len(host) > 2
        well_formed = bool(host) and not any(c.isspace() or c in ",/" for c in host) and (bracketed or ":" not in host)
        if well_formed and port.isascii() and port.isdigit() and 1 <= int(port) <= 65535:
            return f"{host}:{int(port)}"
    raise InvalidArgument(f"{name}: {entry!r} is not host:port with a port from 1 to 65535, such as 127.0.0.1:6001")


def check_worker_count(name: str, workers: tuple[str, ...], number_name: str, worker_num: int) -> None:
    if workers and len(workers) != worker_num:
        raise InvalidArgument(
            f"{name} names {len(workers)} workers and {number_name} is {worker_num}; make them agree, or leave "
            f"{name} out: workers listen nowhere"
        )
