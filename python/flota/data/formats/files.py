"""Files as streams of bytes: on this machine or behind any fsspec URL, plain or compressed."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol, cast

import fsspec
import pyarrow as pa

from flota.errors import DataError, MissingFile

# How compressed files begin.
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\x04\x22\x4d\x18": "lz4"}
_HEAD = max(map(len, _MAGIC))


class Bytes(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class File:
    """A file to be read."""

    path: str
    size: int | None  # in bytes; None: nobody knows
    compression: str | None

    @property
    def cuttable(self) -> bool:
        """Whether reading can begin in its middle."""
        return self.compression is None and self.size is not None


def look_at(path: str) -> File:
    """What there is to know of a file without reading it. Raises ``MissingFile`` if it is not there."""
    try:
        if is_local(path):
            local = local_path(path)
            if os.path.isdir(local):
                raise DataError(f"{path} is a folder: name the files in it")
            with open(local, "rb") as stream:
                return File(path, os.fstat(stream.fileno()).st_size, _compression(stream.read(_HEAD)))
        system, name = fsspec.core.url_to_fs(path)
        info = system.info(name)
        if info.get("type") == "directory":
            raise DataError(f"{path} is a folder: name the files in it")
        with system.open(name, "rb") as remote:
            return File(path, info.get("size"), _compression(remote.read(_HEAD)))
    except FileNotFoundError:
        raise MissingFile(f"{path}: there is no such file") from None
    except DataError:
        raise
    except Exception as error:  # whatever a file system raises
        raise DataError(f"{path} cannot be read: {_reason(error)}") from error


def is_local(path: str) -> bool:
    return "://" not in path or path.startswith("file://")


def local_path(path: str) -> str:
    return path.removeprefix("file://")


def _compression(head: bytes) -> str | None:
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


@contextmanager
def opened(file: File) -> Iterator[BinaryIO]:
    """The file's own bytes."""
    with _telling(file.path):
        if is_local(file.path):
            with open(local_path(file.path), "rb", buffering=0) as local:
                yield cast(BinaryIO, local)
        else:
            with fsspec.open(file.path, "rb") as remote:
                yield remote


@contextmanager
def unpacked(file: File) -> Iterator[Bytes]:
    """The bytes that the file holds."""
    with opened(file) as stream:
        if file.compression is None:
            yield stream
            return
        # Buffered: pyarrow asks a Python file for small pieces.
        source = pa.PythonFile(io.BufferedReader(cast(Any, stream), 1 << 20) if is_local(file.path) else stream, "r")
        with pa.CompressedInputStream(source, file.compression) as plain:
            yield _Unpacked(plain, file.path)


class _Unpacked:
    def __init__(self, stream: Any, path: str) -> None:
        self._stream = stream
        self._path = path

    def read(self, size: int, /) -> bytes:
        try:
            return cast(bytes, self._stream.read(size))
        except (OSError, EOFError) as error:
            raise DataError(f"{self._path} is damaged or cut short: {error}") from error


@contextmanager
def _telling(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise MissingFile(f"{path}: there is no such file") from None
    except DataError:
        raise
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def lines_before(file: File, offset: int) -> int:
    """How many lines begin before this byte of a plain file."""
    count = 0
    with opened(file) as stream:
        while offset > 0 and (data := stream.read(min(offset, 1 << 20))):
            count += data.count(b"\n")
            offset -= len(data)
    return count
