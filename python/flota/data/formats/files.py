"""Files as streams of bytes: on this machine or behind any fsspec URL, plain or compressed."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol, cast

import fsspec
import pyarrow as pa

from flota.errors import DataError, FlotaError, MissingFile

# How compressed files begin.
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\x04\x22\x4d\x18": "lz4"}
_HEAD = max(map(len, _MAGIC))

_NOT_FOUND = 404
_WEB = ("http://", "https://")
_LOOK = 1 << 16  # bytes of a remote file to ask for at a time when looking at it


class Bytes(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class File:
    """A file to be read."""

    path: str
    size: int | None  # in bytes; None: nobody knows
    compression: str | None
    streamed: bool = False  # it can only be read from its beginning

    @property
    def cuttable(self) -> bool:
        """Whether reading can begin in its middle."""
        return self.compression is None and self.size is not None and not self.streamed


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
        with system.open(name, "rb", block_size=_LOOK) as remote:
            compression = _compression(remote.read(_HEAD))
            return File(path, info.get("size"), compression, not _has_an_end(remote, info.get("size")))
    except FileNotFoundError as error:
        raise _missing(path, error) from None
    except DataError:
        raise
    except Exception as error:  # whatever a file system raises
        raise DataError(f"{path} cannot be read: {_reason(error)}") from error


def _missing(path: str, error: FileNotFoundError) -> DataError:
    # fsspec says so of a web server that does not answer, too.
    why = error.__cause__
    if why is not None and not isinstance(why, FileNotFoundError) and getattr(why, "status", None) != _NOT_FOUND:
        return DataError(f"{path} cannot be read: {why}")
    return MissingFile(f"{path}: there is no such file")


def _has_an_end(remote: Any, size: int | None) -> bool:
    """Whether the file can be read from places behind its beginning. Many web servers give whole files only."""
    if not size:
        return False
    try:
        remote.seek(size - 1)
        return len(remote.read(1)) == 1
    except Exception:  # whatever a file system raises
        return False


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
            options = {"block_size": 0} if file.streamed and file.path.startswith(_WEB) else {}
            with fsspec.open(file.path, "rb", **options) as remote:
                yield remote


@contextmanager
def unpacked(file: File) -> Iterator[Bytes]:
    """The bytes that the file holds."""
    with opened(file) as stream:
        if file.compression is None:
            yield stream
            return
        with _decompressed(file, stream) as plain:
            yield _Unpacked(plain, file)


def _decompressed(file: File, stream: BinaryIO) -> Any:
    # Buffered: pyarrow asks a Python file for small pieces.
    source = io.BufferedReader(cast(Any, stream), 1 << 20) if is_local(file.path) else stream
    return pa.CompressedInputStream(pa.PythonFile(source, "r"), file.compression)


class _Unpacked:
    """Gives all that can be unpacked before it tells that the rest cannot."""

    def __init__(self, stream: Any, file: File) -> None:
        self._stream = stream
        self._file = file
        self._given = 0
        self._error: DataError | None = None

    def read(self, size: int, /) -> bytes:
        data = b""
        if self._error is None:
            try:
                data = cast(bytes, self._stream.read(size))
            except (OSError, EOFError, pa.ArrowException) as error:
                self._error = DataError(f"{self._file.path} is damaged or cut short: {error}")
                data = self._rest()
            self._given += len(data)
        if not data and self._error is not None:
            raise self._error
        return data

    def _rest(self) -> bytes:
        """What pyarrow has thrown away with its error: unpacked once more, and byte by byte at the end."""
        rest = bytearray()
        with opened(self._file) as stream, _decompressed(self._file, stream) as plain:
            before = self._given
            while before > 0 and (data := plain.read(min(before, 1 << 20))):
                before -= len(data)
            with suppress(OSError, EOFError, pa.ArrowException):
                while byte := plain.read(1):
                    rest += byte
        return bytes(rest)


@contextmanager
def _telling(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise _missing(path, error) from None
    except FlotaError:
        raise
    except Exception as error:  # whatever a file system raises
        raise DataError(f"{path} cannot be read: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def lines_before(file: File, offset: int) -> int:
    """How many lines begin before this byte, not the first, of a plain file."""
    count, left = 1, offset - 1
    with opened(file) as stream:
        while left > 0 and (data := stream.read(min(left, 1 << 20))):
            count += data.count(b"\n")
            left -= len(data)
    return count
