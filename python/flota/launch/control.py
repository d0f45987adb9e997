"""Where a running launch hears what it is asked, and where others find it.

``launch.json`` in the log's folder names a Unix socket in the launch's private folder, which only its user can enter.
Of a job that has a launch on each of several hosts, which may share that folder, it is ``launch-ADDRESS.json``.

A question is one line of JSON, ``{"scale": 3}``. An answer is several: ``{"say": …}`` as it goes on, and
``{"end": …, "done": …}`` last. What is told at once, such as ``{"attach": true}``, is in that last one: see ``told``.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flota.errors import DeadlineExceeded, InvalidArgument, SystemFailure
from flota.launch.guard import runs

MAX_WORKERS = 1 << 20
_PLACE, _PLACES = "launch.json", "launch-*.json"
_MOST_BYTES = 4096
_MOST_ASKERS = 16
_ROOM = 1 << 20  # bytes of an answer: who does not read it is not waited for


class Asker:
    """Who asked, until it is answered or has gone."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ROOM)
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

    @property
    def gone(self) -> bool:
        """Whether who asked has closed its end. (Of one that only has no more to ask, the kernel says less.)"""
        if not self.open:
            return True
        poll = select.poll()
        poll.register(self.socket, 0)
        return any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))

    def say(self, line: str) -> None:
        self._send({"say": line})

    def end(self, line: str, *, done: bool) -> None:
        self._send({"end": line, "done": done})
        self.close()

    def tell(self, found: Mapping[str, Any]) -> None:
        """An answer that is there at once."""
        self._send({**found, "end": "", "done": True})
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
    """The launch's end of it. ``address``: of this host, where others have launches of the same job."""

    def __init__(self, folder: Path, log_dir: Path, address: str = "") -> None:
        self._place = log_dir / (_PLACES.replace("*", address) if address else _PLACE)
        self._path = folder / "control"
        self._askers: list[Asker] = []
        # By a question's name, what is told at once: ``{"attach": true}``.
        self.told: dict[str, Callable[[], Mapping[str, Any]]] = {}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.bind(str(self._path))
        self.socket.listen(_MOST_ASKERS)
        self.trouble: str | None = None
        try:
            found = {"pid": os.getpid(), "host": socket.gethostname(), "control": str(self._path)}
            self._place.write_text(json.dumps(found) + "\n")
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

    def numbers(self) -> Iterator[tuple[int, Asker]]:
        """The numbers of workers that are asked for. What can be told at once is; all other questions are refused."""
        for question, asker in self.questions():
            name, asked = next(iter(question.items()), ("", None))
            if len(question) == 1 and asked is True and name in self.told:
                asker.tell(self.told[name]())
                continue
            workers = question.get("scale")
            if set(question) != {"scale"} or not isinstance(workers, int) or not 1 <= workers <= MAX_WORKERS:
                asker.end("this launch does not know that question: it may be of another version of flota", done=False)
            else:
                yield workers, asker

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
    kinds = {"pid": int, "host": str, "control": str}
    if not isinstance(found, dict) or not all(isinstance(found.get(name), kind) for name, kind in kinds.items()):
        raise SystemFailure(f"{place} is damaged: it does not say where the launch is")
    return found


def _running(log_dir: Path) -> tuple[Path, dict[str, Any]]:
    """The launch of this host whose logs are there, and the file that tells of it."""
    places = [place for place in (log_dir / _PLACE, *sorted(log_dir.glob(_PLACES))) if place.exists()]
    told = [(place, _read(place)) for place in places or [log_dir / _PLACE]]
    for place, found in told:
        if found["host"] == socket.gethostname() and runs(found["pid"]):
            return place, found
    place, found = told[0]
    elsewhere = sorted({found["host"] for _, found in told if found["host"] != socket.gethostname()})
    if elsewhere:
        raise InvalidArgument(
            f"the launch that {place} tells of runs on {' or '.join(elsewhere)}: give the command there"
        )
    raise InvalidArgument(f"the launch that {place} tells of (pid {found['pid']}) has ended")


def ask(log_dir: Path, question: dict[str, Any], timeout: float) -> Iterator[dict[str, Any]]:
    """Asks the launch whose logs are there, and gives its answers as they come; the last has ``end``."""
    place, found = _running(log_dir)
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
