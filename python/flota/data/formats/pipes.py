"""Files that a command turns into slot text: it reads the file as its standard input and prints a sample a line."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from flota import _core, config
from flota.data.formats.files import File, is_local, opened, unpacked
from flota.data.formats.text import Text
from flota.data.formats.trouble import Trouble
from flota.data.shards import Piece
from flota.errors import DataError, InvalidArgument

PLAIN = "cat"

_TAIL = 2000  # bytes of standard error that are told
_LAST_WAIT = 5.0  # seconds for what a command that has ended has still to say
_STOPPED_EARLY = (-signal.SIGPIPE, 128 + signal.SIGPIPE)


class Piped:
    """Slot text as ``pipe_command`` prints it for each file.

    ``download_cmd``, unless it is ``cat``, is run with the file's name and prints what the file holds.
    """

    def __init__(self, text: Text, pipe_command: str, download_cmd: str = PLAIN) -> None:
        for name, command in (("pipe_command", pipe_command), ("download_cmd", download_cmd)):
            if not command.strip():
                raise InvalidArgument(f"{name} must be a shell command, not {command!r}")
        self._text = text
        self._command = pipe_command
        self._download = download_cmd

    def pieces(self, file: File, most_bytes: int) -> list[Piece]:
        """One: nobody knows where a command could begin."""
        return [Piece(file)]

    def read(self, piece: Piece, trouble: Trouble) -> Printed:
        return Printed(self._text, _Command(self._command, self._download, piece.file), trouble)


class Printed:
    """The samples that a command prints. It ends with this iterator, or when another thread calls ``interrupt``."""

    def __init__(self, text: Text, command: _Command, trouble: Trouble) -> None:
        self._text = text
        self._command = command
        self._trouble = trouble
        self._samples = self._read()

    def __iter__(self) -> Iterator[_core.Samples]:
        return self

    def __next__(self) -> _core.Samples:
        return next(self._samples)

    def close(self) -> None:
        self._samples.close()

    def interrupt(self) -> None:
        self._command.interrupt()

    def _read(self) -> Generator[_core.Samples, None, None]:
        with self._command as command:
            try:
                yield from self._text.parse(command, f"{command.name}, its output", self._trouble)
            except _Failed as failure:
                self._trouble.bad_file(DataError(str(failure)))
            except DataError as error:
                command.kill()  # what it has said up to here is all there
                raise DataError(f"{error}{command.said()}") from None
            else:
                if said := command.said():
                    what = f"{command.name} has ended well{said}\n(what it says of other files is not told)"
                    self._trouble.warn(command.command, what)


class _Failed(Exception):
    """A command has not ended well."""


class _Interrupted(Exception):
    """Nobody wants more of a command."""


class _Command:
    """A shell command at work on a file; ``read`` gives what it prints."""

    def __init__(self, command: str, download: str, file: File) -> None:
        self.name = f"pipe_command {command!r} on {file.path}"
        self.command = command
        self._download_command = None if download == PLAIN else f"{download} {shlex.quote(file.path)}"
        self._file = file
        self._lock = threading.Lock()  # of the processes
        self._began = False
        self._interrupted = False
        self._download: _Process | None = None
        self._process: _Process
        self._feeder: threading.Thread | None = None
        self._feed_error: DataError | None = None

    def __enter__(self) -> _Command:
        with self._lock:
            if self._interrupted:
                raise _Interrupted
            if self._download_command is not None:
                self._download = _Process(self._download_command, subprocess.DEVNULL)
            with self._input() as source:
                self._process = _Process(self.command, source)
            self._began = True
        if self._process.input is not None:
            self._feeder = threading.Thread(
                target=self._feed, args=(self._process.input,), name="flota pipe", daemon=True
            )
            self._feeder.start()
        return self

    @contextmanager
    def _input(self) -> Iterator[Any]:
        if self._download is not None:
            with self._download.output as stream:
                yield stream
        elif is_local(self._file.path) and self._file.compression is None:
            with opened(self._file) as stream:
                yield stream
        else:
            yield subprocess.PIPE

    def _feed(self, sink: IO[bytes]) -> None:
        try:
            with unpacked(self._file) as stream:
                while (data := stream.read(1 << 20)) and _written(sink, data):
                    pass
        except DataError as error:
            self._feed_error = error
        finally:
            with suppress(OSError):
                sink.close()

    def read(self, size: int, /) -> bytes:
        """At the end, not before the command has ended well: its last line may else be half a line."""
        data = self._process.output.read(size)
        if not data:
            wrong = self._finish()
            if self._interrupted:
                raise _Interrupted
            if wrong is not None:
                raise _Failed(wrong)
        return data

    def _finish(self) -> str | None:
        """Waits for the command's end; what went wrong."""
        status = self._process.wait()
        if self._feeder is not None:
            self._feeder.join(_LAST_WAIT)
        if self._download is not None:
            downloaded = self._download.wait(_LAST_WAIT)
            if downloaded not in (0, *_STOPPED_EARLY):
                return f"download_cmd {self._download_command!r} {_how(downloaded)}{self._download.said()}"
        if self._feed_error is not None:
            return f"{self._feed_error} (read for {self.name})"
        return None if status == 0 else f"{self.name} {_how(status)}{self._process.said()}"

    def said(self) -> str:
        """What the command, which has ended, wrote to its standard error, if anything."""
        return self._process.said()

    def interrupt(self) -> None:
        """Ends the command, also one that has not begun. Any thread."""
        with self._lock:
            self._interrupted = True
            if self._began:
                self.kill()

    def kill(self) -> None:
        for process in (self._process, self._download):
            if process is not None:
                process.kill()

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self._feeder is not None:
            self._feeder.join(_LAST_WAIT)
        for process in (self._process, self._download):
            if process is not None:
                process.close()


class _Process:
    """A shell command, and the end of what it writes to its standard error."""

    def __init__(self, command: str, source: Any) -> None:
        self._popen = subprocess.Popen(
            ["sh", "-c", command],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=config.command_environment(),
            start_new_session=True,  # it and all it starts can be ended together
        )
        assert self._popen.stdout is not None
        self.input = self._popen.stdin
        self.output: IO[bytes] = self._popen.stdout
        self._said = bytearray()
        self._listener = threading.Thread(target=self._listen, name="flota pipe", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._popen.stderr is not None
        with self._popen.stderr as stream:
            while data := stream.read1(1 << 16):  # type: ignore[attr-defined]
                self._said += data
                del self._said[: -_TAIL * 2]

    def wait(self, seconds: float | None = None) -> int:
        """Its exit status. After so many seconds it is ended as if nobody read what it prints."""
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGPIPE

    def kill(self) -> None:
        if self._popen.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)
            self._popen.wait()

    def said(self) -> str:
        self._listener.join(_LAST_WAIT)
        text = bytes(self._said[-_TAIL:]).decode(errors="replace").strip()
        return f"; the end of its standard error:\n{text}" if text else ""

    def close(self) -> None:
        self.output.close()
        self._listener.join(_LAST_WAIT)


def _written(sink: IO[bytes], data: bytes) -> bool:
    """Whether a command wants more. If it does not, its exit status tells whether that is well."""
    try:
        sink.write(data)
        return True
    except BrokenPipeError:
        return False


def _how(status: int) -> str:
    if status >= 0:
        return f"ended with exit status {status}"
    known = {number.value: number.name for number in signal.Signals}
    return f"was ended by {known.get(-status, f'signal {-status}')}"
