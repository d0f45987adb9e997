"""A checkpoint's folder: written beside the old one, published by one rename, and trusted only after a look.

A crash at any moment leaves the old checkpoint or the new one, never a mixture. What it left beside them is removed by
the next save to the same place.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from flota.checkpoint import manifest
from flota.checkpoint.manifest import FileEntry, Kind, Manifest
from flota.checkpoint.places import Place, Remote, entries, named, read
from flota.errors import CheckpointError, InvalidArgument, SystemFailure

# Files of programs. Scripts save one beside the checkpoint that it was trained to, into the same folder: they are no
# part of the checkpoint, and go with its folder.
_PROGRAM_NAMES = {"__model__", "__params__"}
_PROGRAM_SUFFIXES = (".pdmodel", ".pdiparams", ".pdparams", ".pdopt")

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def is_of_program(name: str) -> bool:
    """Whether a file may lie in a checkpoint's folder without being of it."""
    return name in _PROGRAM_NAMES or name.endswith(_PROGRAM_SUFFIXES)


class Staging:
    """A folder in the making. ``publish`` puts it in the place of what is at ``target``; ``abandon`` removes it."""

    folder = ""  # its files lie beside the manifest

    def __init__(self, target: Path, kind: Kind) -> None:
        self.target = target
        self._kind = kind
        refuse_to_replace(self.target, kind)
        parent = self.target.parent
        with named("make", parent):
            parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.target)
        self.path = parent / f"{self.target.name}.tmp-{secrets.token_hex(8)}"
        with named("make", self.path):
            self.path.mkdir()
            # Tells others that somebody is still writing here, for as long as this process lives.
            self._handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # not every file system can
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, name: str, data: bytes) -> tuple[int, str]:
        """Writes a file to the disk. Returns its size and checksum. Thread safety: any thread, each its own name."""
        path = self.path / name
        with named("write", path), path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return len(data), hashlib.sha256(data).hexdigest()

    def publish(self, contents: Manifest) -> None:
        self.write(manifest.NAME, contents.to_bytes())
        refuse_to_replace(self.target, self._kind)
        with named("publish", self.target):
            self._bring_programs()
            os.fsync(self._handle)
            replaced = _put_in_place(self.path, self.target)
            _sync_folder(self.target.parent)
        self._unlock()
        if replaced is not None:
            shutil.rmtree(replaced, ignore_errors=True)  # the next save tries again
        remove_leftovers(self.target)

    def _bring_programs(self) -> None:
        """What lies beside the checkpoint that is replaced stays."""
        for path in self.target.iterdir() if self.target.is_dir() else ():
            if is_of_program(path.name):
                shutil.copy2(path, self.path / path.name)

    def _unlock(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:  # an interrupt may come after publishing
            os.close(handle)

    def abandon(self) -> None:
        self._unlock()
        shutil.rmtree(self.path, ignore_errors=True)


def _put_in_place(staged: Path, target: Path) -> Path | None:
    """Renames ``staged`` to ``target``; returns where the folder that was there is now."""
    if not target.exists():
        os.rename(staged, target)
        return None
    if _exchange(staged, target):
        return staged
    # Where the file system cannot exchange two names there is a moment without the target; find() knows.
    old = target.with_name(f"{target.name}.old-{secrets.token_hex(8)}")
    os.rename(target, old)
    os.rename(staged, target)
    return old


def _exchange(one: Path, other: Path) -> bool:
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), ctypes.c_uint(_RENAME_EXCHANGE)) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS):
        return False
    raise OSError(number, os.strerror(number), str(other))


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def refuse_to_replace(target: Place, kind: Kind) -> None:
    """A folder is replaced only if it is empty, or a checkpoint of the same kind and nothing else but programs."""
    if isinstance(target, Path):
        if not target.exists():
            return
        if not target.is_dir():
            raise InvalidArgument(f"{target} is not a folder; give the checkpoint a place of its own")
    with named("read", target):
        names = {name for name in entries(target) if not is_of_program(name) and not _left_by_upload(target, name)}
    if not names:
        return
    if manifest.NAME not in names:
        many = ", but holds some; keep=N adds one" if any(name.startswith("step-") for name in names) else ""
        raise InvalidArgument(
            f"{target} is no checkpoint (it has no {manifest.NAME}) and is not empty{many}; give the checkpoint a "
            "place of its own, because saving replaces the whole folder"
        )
    try:
        there = manifest_at(target)
    except CheckpointError:
        return  # damaged: a new one can only be better
    if there.kind != kind:
        raise InvalidArgument(f"{target} holds a checkpoint of another kind, {there.kind}; save {kind} elsewhere")
    if foreign := names - {manifest.NAME, there.folder, *there.files}:
        raise InvalidArgument(
            f"{target / min(foreign)} does not belong to the checkpoint there; move it, because saving replaces the "
            "whole folder"
        )


def _left_by_upload(place: Place, name: str) -> bool:
    """Whether it is of an upload that is under way or crashed: no part of a checkpoint, and no sign of damage."""
    return isinstance(place, Remote) and manifest.FOLDER.fullmatch(name) is not None


def _siblings(target: Path, what: str) -> list[Path]:
    name = re.compile(rf"{re.escape(target.name)}\.({what})-[0-9a-f]{{16}}")
    try:
        return [Path(entry.path) for entry in os.scandir(target.parent) if name.fullmatch(entry.name)]
    except OSError:
        return []


def remove_leftovers(target: Path) -> None:
    """What crashed saves have left beside the target."""
    for path in _siblings(target, "tmp|old" if target.exists() else "tmp"):
        if not _being_written(path):
            shutil.rmtree(path, ignore_errors=True)


def _being_written(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False


def find(place: Place) -> Place:
    """Where the checkpoint of this name is."""
    if isinstance(place, Remote):
        with named("read", place):
            if not place.entries():
                raise CheckpointError(f"there is no checkpoint at {place}: nothing is there")
        return place
    if place.is_dir():
        return place
    if place.exists():
        raise CheckpointError(f"{place} is not a folder, and so no checkpoint")
    # A save may have crashed between its two renames.
    if old := moved_away(place):
        return old[0]
    raise CheckpointError(f"there is no checkpoint at {place}: the folder does not exist")


def moved_away(target: Path) -> list[Path]:
    """What was at ``target`` before a save replaced it, or was about to; newest first."""
    old = [path for path in _siblings(target, "old") if (path / manifest.NAME).is_file()]
    return sorted(old, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def read_manifest(path: Place, kind: Kind | None) -> Manifest:
    """The folder's manifest, when the folder holds the files that it names, and nothing else. No kind: any."""
    contents = manifest_at(path)
    if kind not in (None, contents.kind):
        raise CheckpointError(f"{path} holds a checkpoint of another kind: {contents.kind}, not {kind}")
    for _, problem in wrong_files(path, contents):
        raise CheckpointError(problem)
    return contents


def wrong_files(path: Place, contents: Manifest) -> Iterator[tuple[str, str]]:
    """What a look at the folder shows to be wrong: with which file, and what."""
    files = path / contents.folder
    with named("read", path):
        beside = {
            name: size
            for name, size in entries(path).items()
            if not is_of_program(name) and not (contents.folder and manifest.FOLDER.fullmatch(name))
        }
        sizes = entries(files) if contents.folder else beside
    for name, entry in contents.files.items():
        if name not in sizes:
            yield name, f"{files / name} is missing"
        elif sizes[name] != entry.bytes:
            there = "it is a folder" if sizes[name] is None else f"it has {sizes[name]} bytes"
            yield name, f"{files / name} is damaged: {there}, the manifest says {entry.bytes} bytes"
    foreign = {path / name for name in set(beside) - {manifest.NAME, *([] if contents.folder else contents.files)}}
    foreign |= {files / name for name in (set(sizes) - set(contents.files) if contents.folder else ())}
    for strange in sorted(foreign, key=str):
        yield strange.name, f"{strange} does not belong to the checkpoint: the manifest does not name it"


def manifest_at(path: Place) -> Manifest:
    """What the folder's manifest says, whatever else is there."""
    file = path / manifest.NAME
    with named("read", file):
        size = entries(path).get(manifest.NAME)
        if size is None:
            raise CheckpointError(f"{file} is missing: {path} is no checkpoint")
        if size > manifest.MOST_BYTES:
            raise CheckpointError(f"{file} is too large for a manifest")
        data = read(file)
    return Manifest.from_bytes(data, str(file))


def read_file(path: Place, entry: FileEntry) -> bytes:
    """A file's bytes, when they are what was written."""
    try:
        with named("read", path):
            data = read(path)
    except SystemFailure as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise CheckpointError(
                f"{path} is missing: another save may have replaced the checkpoint meanwhile"
            ) from error
        raise
    if len(data) != entry.bytes:
        raise CheckpointError(f"{path} is damaged: it has {len(data)} bytes, the manifest says {entry.bytes} bytes")
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise CheckpointError(f"{path} is damaged: its checksum is not the manifest's")
    return data
