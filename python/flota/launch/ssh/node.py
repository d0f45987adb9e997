"""A node as the launch sees it: asked before the job begins, followed while it runs."""

from __future__ import annotations

import contextlib
import queue
import secrets
import threading
import time
from dataclasses import dataclass
from typing import Any

from flota.errors import SystemFailure
from flota.launch.ssh.connection import Connection, Refused, Unreachable, agent_command
from flota.launch.ssh.copies import Copies
from flota.launch.ssh.inventory import Host
from flota.launch.ssh.placing import Share
from flota.launch.ssh.protocol import Message, encode

_LOOK = 0.1  # seconds that a wait for messages takes before there may be something to send
_CONNECT = 15.0  # seconds for the first connection
_AGAIN = 5.0  # for one that is to replace a broken one …
_WAITS = (0.2, 0.5, 1.0, 2.0)  # … with these waits in between, the last again and again


@dataclass(frozen=True)
class Event:
    """Something that the launch has to know."""

    node: Node
    kind: str  # "said", "told", "answered", "gone", "failed", "broken" or "back"
    text: str = ""
    of: int = 0  # which question is answered


@dataclass(frozen=True)
class Want:
    """What the agent is to see to; it is told again whenever it may have forgotten."""

    stop: int = 0  # 1: end everything; 2: and hurry
    takes: tuple[str, ...] = ()  # addresses of lost hosts whose workers go on there
    heralds: tuple[int, ...] = ()  # workers of which it says that they will be back
    asks: tuple[tuple[int, int], ...] = ()  # numbers of workers that it asks for, each with the number of the question


class Node:
    def __init__(self, index: int, host: Host, share: Share, *, accept_new: bool) -> None:
        self.index = index
        self.host = host
        self.name = host.name
        self.share = share
        self.python = host.python
        self.address = ""
        self.workspace = ""
        self.logs = ""  # where the head has its logs
        self.parts: list[dict[str, Any]] = []  # as the agent told last
        self.want = Want()  # replaced as a whole: two threads see it
        self.copies: Copies | None = None
        self.heard = time.monotonic()
        self.broken_since: float | None = None
        self.why_broken = ""
        self.over = False  # the agent has nothing left to do, or is not there any more
        self._agent = secrets.token_hex(16)  # its name there; hosts may share the place where it has its folder
        self._accept_new = accept_new
        self._connection: Connection | None = None
        self._answers: list[Message] = []
        self._told = 0
        self._wanted = Want()
        self._follower: threading.Thread | None = None
        self._finish = threading.Event()

    @property
    def known_as(self) -> str:
        """The address as it is in endpoints."""
        return f"[{self.address}]" if ":" in self.address else self.address

    def statuses(self) -> list[int] | None:
        """The exit status of each part that the node is to run, or None while any is not over."""
        ended = {part["of"]: part["status"] for part in self.parts}
        found = [ended.get(of) for of in [self.known_as, *self.want.takes]]
        return None if None in found else [int(status) for status in found if status is not None]

    @property
    def idles(self) -> bool:
        """Whether all that still runs there waits for workers that may come."""
        idle = {part["of"] for part in self.parts if part["idle"] or part["status"] == 0}
        return idle.issuperset([self.known_as, *self.want.takes])

    def workers(self) -> list[int]:
        """Those that run there or are to be started again, as far as the node has told."""
        rows = [row for part in self.parts for row in part["rows"] if row["is_worker"]]
        names = [row["name"] for row in rows if not row["state"].startswith("has left")]
        return [int(name.partition(" ")[2]) for name in names] if rows else self.share.workers

    # --- before the job begins: one thread at a time ---

    def connect(self) -> None:
        """Starts the agent."""
        connection = Connection(self.host, accept_new=self._accept_new)
        self._connection = connection
        self.address = self.host.address or connection.address
        try:
            connection.open(agent_command(self.python, "open", self._agent), _CONNECT)
        except Unreachable as error:
            port = f"-p {self.host.port} " if self.host.port else ""
            raise Unreachable(
                f"SSH does not get there ({error}): check that ssh {port}{self.name} works from here"
            ) from error

    def ask(self, op: str, within: float, **fields: Any) -> dict[str, Any]:
        """One request and its answer; ``SystemFailure`` with the agent's reason."""
        self.say(op, **fields)
        return self.answer(op, within)

    def say(self, op: str, payload: bytes = b"", **fields: Any) -> None:
        assert self._connection is not None
        self._connection.send(encode(op, payload, **fields))

    def answer(self, op: str, within: float) -> dict[str, Any]:
        assert self._connection is not None
        deadline = time.monotonic() + within
        while not self._answers:
            if time.monotonic() > deadline:
                raise Unreachable(f"no answer to the request {op} for {within:g} s")
            self._answers += [found for found in self._connection.receive(_LOOK) if found.op != "beat"]
        message = self._answers.pop(0)
        if message.op == "refused":
            raise SystemFailure(str(message.fields["text"]))
        if message.op == "failed":
            raise Refused(f"its agent has failed: {message.fields['text']}")
        if message.op != op:
            raise Refused(f"an answer to {op} was expected, and {message.op} came")
        return message.fields

    def part(self) -> None:
        """Leaves: an agent that runs nothing ends by that."""
        if self._connection is not None:
            self._connection.close()

    # --- while it runs: a thread of its own ---

    def follow(self, events: queue.SimpleQueue[Event], beat: float) -> None:
        self.heard = time.monotonic()
        self._follower = threading.Thread(target=self._follow, args=(events, beat), daemon=True, name=self.name)
        self._follower.start()

    def sever(self, why: str = "it was left") -> None:
        """Gives the connection up; another is made."""
        if self._connection is not None:
            self._connection.sever(why)

    def finish(self) -> None:
        """Has the agent told that nothing more is wanted, if it can be told."""
        self._finish.set()

    def leave(self, timeout: float) -> None:
        """Waits until it is, and forgets it."""
        self.finish()
        if self._follower is not None:
            self._follower.join(timeout)
        self.sever()

    @property
    def connected(self) -> bool:
        return self.broken_since is None

    @property
    def connection_heard(self) -> float:
        return self._connection.heard if self._connection is not None else self.heard

    def _follow(self, events: queue.SimpleQueue[Event], beat: float) -> None:
        tries = 0
        while not self._finish.is_set() and not self.over:
            try:
                if self.broken_since is not None:
                    self._attach()
                self._talk(events, beat)
                return
            except Unreachable as error:
                if self.broken_since is None:
                    self.broken_since, self.why_broken, tries = time.monotonic(), str(error), 0
                    events.put(Event(self, "broken", str(error)))
            except Refused as error:
                # While the job runs, the agent would not; its host may be another now, or be about to go down.
                if self.broken_since is None:
                    self.broken_since, tries = time.monotonic(), 0
                    events.put(Event(self, "broken", str(error)))
                self.why_broken = str(error)
            self.sever()
            self._finish.wait(_WAITS[min(tries, len(_WAITS) - 1)])
            tries += 1

    def _attach(self) -> None:
        connection = Connection(self.host, accept_new=self._accept_new)
        self._connection = connection
        connection.open(agent_command(self.python, "attach", self._agent), _AGAIN)
        self._greet()

    def _greet(self) -> None:
        seen = dict(self.copies.seen) if self.copies is not None else {}
        self._wanted = self.want
        self.say("hello", seen=seen, told=self._told, **vars(self._wanted))

    def _talk(self, events: queue.SimpleQueue[Event], beat: float) -> None:
        assert self._connection is not None
        next_beat = 0.0
        waiting, self._answers = self._answers, []
        while True:
            for message in [*waiting, *self._connection.receive(_LOOK)]:
                self._take(message, events)
            waiting = []
            if self.over:
                return
            if self._finish.is_set():
                self.say("bye")
                with contextlib.suppress(Unreachable, Refused):
                    # Until it has closed: then nothing of the job is left there.
                    deadline = time.monotonic() + 5.0
                    while time.monotonic() < deadline:
                        self._connection.receive(_LOOK)
                return
            if self.want != self._wanted:
                self._wanted = self.want
                self.say("want", **vars(self._wanted))
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + beat
                self.say("beat")

    def _take(self, message: Message, events: queue.SimpleQueue[Event]) -> None:
        self.heard = time.monotonic()
        fields = message.fields
        if self.broken_since is not None and message.op != "gone":
            self.broken_since = None
            events.put(Event(self, "back"))
        if message.op == "log" and self.copies is not None:
            self.copies.add(str(fields["name"]), int(fields["at"]), message.payload)
        elif message.op == "told" and int(fields["n"]) >= self._told:
            self._told = int(fields["n"]) + 1
            if fields["of"] is not None:
                events.put(Event(self, "answered", str(fields["text"]), int(fields["of"])))
            else:
                events.put(Event(self, "said" if fields["said"] else "told", str(fields["text"])))
        elif message.op == "state":
            self.parts = fields["parts"]
        elif message.op == "gone":
            self.over = True
            events.put(Event(self, "gone", "its agent is not there any more: the host was restarted, or it was killed"))
        elif message.op == "failed":
            self.over = True
            events.put(Event(self, "failed", str(fields["text"])))
