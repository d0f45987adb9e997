"""Where a running launch hears what it is asked, and where others find it.

``launch.json`` in the log's folder names a Unix socket in the launch's private folder, which only its user can enter. A
question is one line of JSON, an answer several: ``{"say": …}`` as it goes on, and ``{"end": …, "done": …}`` last.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flota.errors import DeadlineExceeded, InvalidArgument, SystemFailure
from flota.launch.guard import runs

_PLACE = "launch.json"
_MOST_BYTES = 4096
_MOST_ASKERS = 16


class Asker:
    """Who asked, until it is answered or has gone."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.open = True
        self._text = b""

    def question(self) -> dict[str, Any] | None:
        """What it asks, once that is there whole. Whoever says anything else is heard no more."""
        try:
            more = self.socket.recv(_MOST_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            more = b""
        self._text += more
        if b"\n" in self._text:
            with contextlib.suppress(ValueError, RecursionError):
                found = json.loads(self._text)
                if isinstance(found, dict):
                    return found
            self.end("this is no question", done=False)
        elif not more or len(self._text) > _MOST_BYTES:
            self.close()
        return None

    def say(self, line: str) -> None:
        self._send({"say": line})

    def end(self, line: str, *, done: bool) -> None:
        self._send({"end": line, "done": done})
        self.close()

    def close(self) -> None:
        self.open = False
        self.socket.close()

    def _send(self, message: dict[str, Any]) -> None:
        # Who does not read, or has gone, is not waited for.
        if self.open:
            with contextlib.suppress(OSError):
                self.socket.send(json.dumps(message).encode() + b"\n")


class Control:
    """The launch's end of it."""

    def __init__(self, folder: Path, log_dir: Path) -> None:
        self._place = log_dir / _PLACE
        self._path = folder / "control"
        self._askers: list[Asker] = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.bind(str(self._path))
        self.socket.listen(_MOST_ASKERS)
        self.trouble: str | None = None
        try:
            self._place.write_text(json.dumps({"pid": os.getpid(), "control": str(self._path)}) + "\n")
        except OSError as error:
            self.trouble = f"{self._place} could not be written: {error.strerror}; flota scale will not find this job"

    def register(self, selector: selectors.BaseSelector) -> None:
        selector.register(self.socket, selectors.EVENT_READ)

    def questions(self) -> Iterator[tuple[dict[str, Any], Asker]]:
        """Those that have come. Each is to be answered."""
        with contextlib.suppress(OSError):
            while True:
                asker = Asker(self.socket.accept()[0])
                if len(self._askers) < _MOST_ASKERS:
                    self._askers.append(asker)
                else:
                    asker.end("too many ask at the same time", done=False)
        for asker in list(self._askers):
            question = asker.question()
            if question is not None or not asker.open:
                self._askers.remove(asker)
            if question is not None:
                yield question, asker

    def close(self) -> None:
        for asker in self._askers:
            asker.close()
        self.socket.close()
        with contextlib.suppress(OSError, InvalidArgument, SystemFailure):
            if _read(self._place)["pid"] == os.getpid():
                self._place.unlink()


def _read(place: Path) -> dict[str, Any]:
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidArgument(
            f"no launch runs a job here: {place} is not there; give the --log_dir of the launch, in its folder"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise SystemFailure(f"cannot read {place}: {error}") from error
    if (
        not isinstance(found, dict)
        or not isinstance(found.get("pid"), int)
        or not isinstance(found.get("control"), str)
    ):
        raise SystemFailure(f"{place} is damaged: it does not say where the launch is")
    return found


def ask(log_dir: Path, question: dict[str, Any], timeout: float) -> Iterator[dict[str, Any]]:
    """Asks the launch whose logs are there, and gives its answers as they come; the last has ``end``."""
    place = log_dir / _PLACE
    found = _read(place)
    if not runs(found["pid"]):
        raise InvalidArgument(f"the launch that {place} tells of (pid {found['pid']}) has ended")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(found["control"])
            connection.sendall(json.dumps(question).encode() + b"\n")
            yield from (json.loads(line) for line in connection.makefile())
        except PermissionError:
            raise SystemFailure(
                f"the launch that {place} tells of (pid {found['pid']}) is another user's, who alone may ask it"
            ) from None
        except TimeoutError:
            raise DeadlineExceeded(f"no more was heard for {timeout:g} s; it goes on") from None
        except (OSError, ValueError) as error:
            raise SystemFailure(f"the launch (pid {found['pid']}) does not answer: {error}") from error
