"""Files that a command turns into slot text: it reads the file as its standard input and prints a sample a line."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from flota import _core, config
from flota.data.formats.files import File, is_local, opened, unpacked
from flota.data.formats.text import Text
from flota.data.formats.trouble import Trouble
from flota.data.shards import Piece
from flota.errors import DataError

PLAIN = "cat"

_TAIL = 2000  # bytes of standard error that are told
_LAST_WAIT = 5.0  # seconds for what a command that has ended has still to say


class Piped:
    """Slot text as ``pipe_command`` prints it for each file.

    ``download_cmd``, unless it is ``cat``, is run with the file's name and prints what the file holds.
    """

    def __init__(self, text: Text, pipe_command: str, download_cmd: str = PLAIN) -> None:
        self._text = text
        self._command = pipe_command
        self._download = download_cmd

    def pieces(self, file: File, most_bytes: int) -> list[Piece]:
        """One: nobody knows where a command could begin."""
        return [Piece(file)]

    def read(self, piece: Piece, trouble: Trouble) -> Iterator[_core.Samples]:
        with _Command(self._command, self._download, piece.file) as command:
            name = f"{command.name}, its output"
            try:
                yield from self._text.parse(command.output, name, trouble)
            except DataError as error:
                raise DataError(f"{error}{command.said()}") from None
            if (wrong := command.finish()) is not None:
                trouble.bad_file(DataError(wrong))
            elif said := command.said():
                trouble.warn(f"{command.name} has ended well{said}")


class _Command:
    """A shell command at work on a file."""

    def __init__(self, command: str, download: str, file: File) -> None:
        self.name = f"pipe_command {command!r} on {file.path}"
        self._command = command
        self._download_command = None if download == PLAIN else f"{download} {shlex.quote(file.path)}"
        self._file = file
        self._download: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes]
        self._said = bytearray()
        self._feed_error: DataError | None = None
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> _Command:
        if self._download_command is not None:
            self._download = _shell(self._download_command, subprocess.DEVNULL, None)
        with self._input() as source:
            self._process = _shell(self._command, source, subprocess.PIPE)
        self._begin(self._listen)
        if source == subprocess.PIPE:
            self._begin(self._feed)
        return self

    @contextmanager
    def _input(self) -> Iterator[Any]:
        if self._download is not None:
            assert self._download.stdout is not None
            with self._download.stdout as stream:
                yield stream
        elif is_local(self._file.path) and self._file.compression is None:
            with opened(self._file) as stream:
                yield stream
        else:
            yield subprocess.PIPE

    def _begin(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name="flota pipe", daemon=True)
        thread.start()
        self._threads.append(thread)

    @property
    def output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def _listen(self) -> None:
        """Keeps the end of what the command says."""
        assert self._process.stderr is not None
        while data := self._process.stderr.read1(1 << 16):  # type: ignore[attr-defined]
            self._said += data
            del self._said[: -_TAIL * 2]

    def _feed(self) -> None:
        assert self._process.stdin is not None
        try:
            with self._process.stdin as sink, unpacked(self._file) as stream:
                while data := stream.read(1 << 20):
                    sink.write(data)
        except BrokenPipeError:
            pass  # the command wants no more: its exit status tells whether that is well
        except DataError as error:
            self._feed_error = error
        except (OSError, ValueError):
            pass  # the reader has gone

    def finish(self) -> str | None:
        """Waits for the command's end, its output being read; what went wrong."""
        status = self._process.wait()
        for thread in self._threads:
            thread.join(_LAST_WAIT)
        if self._download is not None and self._download.wait() != 0:
            return f"download_cmd {self._download_command!r} {_how(self._download.returncode)}"
        if self._feed_error is not None:
            return f"{self._feed_error} (read for {self.name})"
        if status == 0:
            return None
        return f"{self.name} {_how(status)}{self.said()}"

    def said(self) -> str:
        """What the command wrote to its standard error, if anything."""
        if self._process.poll() is not None:
            self._threads[0].join(_LAST_WAIT)
        text = bytes(self._said[-_TAIL:]).decode(errors="replace").strip()
        return f"; the end of its standard error:\n{text}" if text else ""

    def __exit__(self, *_: object) -> None:
        for process in (self._process, self._download):
            if process is not None and process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.output.close()
        for thread in self._threads:
            thread.join(_LAST_WAIT)


def _shell(command: str, source: Any, errors: int | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["sh", "-c", command],
        stdin=source,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=config.command_environment(),
        start_new_session=True,  # it and all it starts can be ended together
    )


def _how(status: int) -> str:
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
