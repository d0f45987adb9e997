"""A package on its way to the nodes: each gets what it lacks, all at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from flota.errors import FlotaError, SystemFailure
from flota.launch.signals import Signals
from flota.launch.ssh.checks import on_each
from flota.launch.ssh.connection import Refused
from flota.launch.ssh.node import Node
from flota.launch.ssh.package import FOLDER, Entry

_BATCH = 500  # entries in a request
_PIECE = 1 << 18  # bytes of a file in a message
_LONGEST = 600.0  # seconds that a node may take to look at a batch of files that it has


def dispatch(package: Path, entries: Sequence[Entry], nodes: Sequence[Node], signals: Signals) -> list[str]:
    """Brings every node's workspace to the state of the package. Returns what to say of it, by node."""
    results = on_each(nodes, lambda node: _to(node, package, entries), signals)
    wrong = [f"  {node.name}: {error}" for node, error in results.items() if isinstance(error, FlotaError)]
    if wrong:
        raise SystemFailure("nothing was started, for the package could not be copied:\n" + "\n".join(wrong))
    return [f"{node.name}: {told}" for node, told in results.items()]


def _to(node: Node, package: Path, entries: Sequence[Entry]) -> str:
    lacking: list[Entry] = []
    batches = [entries[i : i + _BATCH] for i in range(0, len(entries), _BATCH)] or [[]]
    for i, batch in enumerate(batches):
        lists = [entry.as_list() for entry in batch]
        answer = node.ask("entries", _LONGEST, entries=lists, last=i == len(batches) - 1)
        lacking += [batch[i] for i in answer["lacking"]]
    for number, entry in enumerate(lacking):
        for data, last in _pieces(package / entry.path):
            node.say("file", data, file=number, last=last)
    done = node.ask("dispatched", _LONGEST)
    size = sum(entry.size for entry in lacking)
    files = sum(entry.kind != FOLDER for entry in entries)
    removed = f", {done['removed']} removed" if done["removed"] else ""
    if not done["written"]:
        return f"{node.workspace} has all {files} files of the package already{removed}"
    return f"{done['written']} of {files} files copied to {node.workspace} ({_size(size)}){removed}"


def _pieces(file: Path) -> Iterator[tuple[bytes, bool]]:
    try:
        with file.open("rb") as opened:
            data = opened.read(_PIECE)
            while True:
                following = opened.read(_PIECE)
                yield data, not following
                if not following:
                    return
                data = following
    except OSError as error:
        raise Refused(f"{file} cannot be read any more: {error.strerror}") from error


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"
