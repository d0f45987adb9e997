"""Where checkpoints are: a folder of this machine, or one behind a URL of any file system that fsspec knows.

A ``Remote`` has as much of ``pathlib.Path`` as checkpoints need. Folders there are beginnings of names: they are there
as long as something is in them, and cannot be renamed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import fsspec

from flota.errors import FlotaError, InvalidArgument, SystemFailure

_LOCAL = ("file://", "local://")


class Remote:
    """A file or folder behind a URL."""

    def __init__(self, url: str, system: Any = None, path: str = "") -> None:
        self._url = url.rstrip("/")
        if system is None:
            try:
                system, path = fsspec.core.url_to_fs(self._url)
            except (ImportError, ValueError) as error:  # no such protocol, or a package that it needs is not there
                raise InvalidArgument(f"{url} cannot be reached: {error}") from error
        self._system = system
        self._path = path.rstrip("/")

    def __str__(self) -> str:
        return self._url

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remote) and self._url == other._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __truediv__(self, name: str) -> Remote:
        return Remote(f"{self._url}/{name}", self._system, f"{self._path}/{name}") if name else self

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    @property
    def parent(self) -> Remote:
        return Remote(self._url.rpartition("/")[0], self._system, self._path.rpartition("/")[0])

    def entries(self) -> dict[str, int | None]:
        """Sizes of the files in it by name; None is a folder. Where nothing is, there are none."""
        self._system.invalidate_cache()  # others write here, too
        try:
            found = self._system.ls(self._path, detail=True)
        except FileNotFoundError:
            return {}
        names = {entry["name"].rstrip("/"): entry for entry in found}
        if any(name.strip("/") == self._path.strip("/") and entry["type"] == "file" for name, entry in names.items()):
            raise NotADirectoryError(f"{self} is not a folder")
        # Some stores hold an object of the folder's own name, which stands for the folder.
        names.pop(self._path, None)
        return {
            name.rpartition("/")[2]: entry["size"] if entry["type"] == "file" else None for name, entry in names.items()
        }

    def read(self) -> bytes:
        data: bytes = self._system.cat_file(self._path)
        return data

    def write(self, data: bytes) -> None:
        """All of a file at once. Object stores show it when all of it is there, and not before."""
        self._put(lambda: self._system.pipe_file(self._path, data))

    def upload(self, path: str) -> None:
        """A file of this machine takes its place."""
        self._put(lambda: self._system.put_file(path, self._path))

    def _put(self, write: Callable[[], None]) -> None:
        try:
            write()
        except FileNotFoundError:
            # Not a store but a file system, and one whose folders have to be made.
            self._system.makedirs(self._path.rpartition("/")[0], exist_ok=True)
            write()

    def remove(self) -> None:
        """The file, or the folder and all in it; fine if it is not there."""
        self._system.invalidate_cache()
        with contextlib.suppress(FileNotFoundError):
            self._system.rm(self._path, recursive=True)


Place: TypeAlias = Path | Remote


def place_of(dirname: str | os.PathLike[str] | Place) -> Place:
    """The place of this name. A link to a folder is that folder: what replaces it must lie beside it."""
    if isinstance(dirname, Remote):
        return dirname
    text = os.fspath(dirname)
    if not text:
        raise InvalidArgument("a checkpoint needs the name of a folder, not ''")
    if "://" in text:
        if not text.startswith(_LOCAL):
            return Remote(text)
        text = text.partition("://")[2]
    return Path(os.path.realpath(text))


def way(here: Place, there: Place) -> str:
    """From one checkpoint to another: so that both may be moved together."""
    if isinstance(here, Path) and isinstance(there, Path):
        return os.path.relpath(there, here)
    return str(there)


def follow(here: Place, way: str) -> Place:
    """The opposite."""
    if isinstance(here, Path) and "://" not in way:
        return Path(os.path.normpath(here / way))
    return place_of(way)


def entries(place: Place) -> dict[str, int | None]:
    """Sizes of the files in a folder by name; None is a folder. Where nothing is, there are none."""
    if isinstance(place, Remote):
        return place.entries()
    try:
        return {each.name: None if each.is_dir() else each.stat().st_size for each in os.scandir(place)}
    except FileNotFoundError:
        return {}


def read(place: Place) -> bytes:
    return place.read() if isinstance(place, Remote) else place.read_bytes()


@contextlib.contextmanager
def named(doing: str, place: Place) -> Iterator[None]:
    """What the operating system or the store refuses is told with the file and what was being done with it."""
    try:
        yield
    except FlotaError:
        raise
    except OSError as error:
        raise SystemFailure(f"cannot {doing} {place}: {error.strerror or error}") from error
    except Exception as error:  # whatever a file system raises
        if not isinstance(place, Remote):
            raise
        raise SystemFailure(f"cannot {doing} {place}: {str(error) or type(error).__name__}") from error
