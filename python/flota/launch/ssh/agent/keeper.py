"""The process of a node that outlives the connection to the launch.

It answers what the launch asks before the job begins, then runs the node's parts of it, sends what they print and how
they do, and ends them: when it is told to, when it has heard nothing from the launch for ``--lost_after`` seconds, and
(its guard does that) when it is killed itself. One launch talks to it at a time; one that connects again takes the
place of the connection before, and is told everything that it has not got yet.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import shutil
import signal
import socket
import time
import traceback
from pathlib import Path
from typing import Any

from flota import config
from flota.errors import FlotaError
from flota.launch.guard import Guard
from flota.launch.signals import Signals
from flota.launch.ssh.agent.parts import Part, state
from flota.launch.ssh.agent.peer import Peer
from flota.launch.ssh.agent.preparing import Preparation
from flota.launch.ssh.agent.speakers import Speakers, line
from flota.launch.ssh.agent.spec import Spec
from flota.launch.ssh.agent.tails import Tails, Told, make_links, remove_logs
from flota.launch.ssh.protocol import BANNER, Message, Nonsense, encode

_TICK = 0.1
_PREPARING_SILENCE = 600.0  # a launch may be busy with other nodes; nothing runs here yet
_PREPARING_BEAT = 10.0  # who speaks hears of it that a connection is no more
_PIECE = 1 << 16  # bytes of a log in a message
_WAITING = 1 << 18  # bytes that wait to be sent, beyond which no more of the logs is read
_HELD_BACK = 10.0  # seconds that an end may wait for the last of the logs to be sent
_MAX_TOLD = 2000  # lines that are kept for a launch that comes back


class Keeper:
    def __init__(self, folder: Path, listener: socket.socket) -> None:
        self._folder = folder
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        # Held for as long as this process lives: who tidies up /tmp leaves a folder alone that is locked.
        fcntl.flock(os.open(folder, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_SH)
        self._signals = Signals()
        self._guard = Guard(folder)
        self._preparation = Preparation()
        self._spec: Spec | None = None
        self._parts: list[Part] = []
        self._watched: list[Part] = []  # those whose feeds are in the selector
        self._speakers = Speakers()
        self._tails: Tails | None = None
        self._told = Told(_MAX_TOLD)  # see ``line``
        self._want: dict[str, Any] = {"stop": 0, "takes": [], "heralds": [], "asks": []}
        self._heard = self._beaten = time.monotonic()
        self._peer: Peer | None = None
        self._told_peer = 0
        self._state: Any = None  # as the peer was told last
        self._over = False
        self._lost = False

    def run(self) -> None:
        """Returns when the job is over here, and the launch knows it or is gone."""
        with contextlib.ExitStack() as held:
            held.enter_context(self._selector)
            held.callback(self._guard.close)
            held.callback(self._preparation.release)
            held.callback(self._preparation.close)
            held.callback(self._end_everything)
            self._listener.setblocking(False)
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
            self._selector.register(self._signals.wake, selectors.EVENT_READ, self._wake)
            try:
                while not self._over:
                    for key, events in self._selector.select(_TICK):
                        key.data(events)
                    self._care()
            except Exception:
                self._reply(encode("failed", text=traceback.format_exc()[-4000:]))
                raise

    # --- connections ---

    def _accept(self, _: int) -> None:
        with contextlib.suppress(BlockingIOError):
            peer = Peer(self._listener.accept()[0])
            self._drop()
            self._peer = peer
            self._heard = time.monotonic()
            self._selector.register(peer.socket, selectors.EVENT_READ, self._read)
            peer.send(BANNER)

    def _drop(self) -> None:
        """Forgets the connection, and ends the process at its other end: it may wait for a network that is gone."""
        if self._peer is None:
            return
        self._selector.unregister(self._peer.socket)
        self._peer.close()
        self._peer = None

    def _wake(self, _: int) -> None:
        with contextlib.suppress(BlockingIOError):
            self._signals.wake.recv(4096)

    def _read(self, events: int) -> None:
        peer = self._peer
        if peer is None:
            return
        try:
            if events & selectors.EVENT_WRITE:
                peer.flush()
            messages = peer.receive() if events & selectors.EVENT_READ else []
            for message in messages:
                self._heard = time.monotonic()
                self._take(message)
        except (OSError, Nonsense, KeyError, TypeError, ValueError):  # gone, or no launch of this version
            if self._peer is peer:
                self._drop()
            if self._spec is None:
                self._over = True  # a launch that goes while it prepares has given up

    def _take(self, message: Message) -> None:
        if self._spec is None and message.op == "run":
            self._reply(self._begin(message))
        elif message.op == "hello":
            self._greet(message)
        elif message.op == "want":
            self._want = {name: message.fields[name] for name in self._want}
        elif message.op == "bye":
            self._over = True
        elif message.op != "beat" and self._spec is None:
            self._reply(self._preparation.answer(message))

    def _reply(self, data: bytes) -> None:
        if self._peer is not None:
            self._peer.send(data)

    def _greet(self, message: Message) -> None:
        """A launch that was here before: what it has got need not be sent again."""
        fields = message.fields
        if self._tails is not None:
            self._tails.resume({str(name): int(at) for name, at in fields["seen"].items()})
        self._told_peer = int(fields["told"])
        self._state = None
        self._want = {name: fields[name] for name in self._want}
        self._reply(encode("hello", running=self._spec is not None))

    # --- the job ---

    def _begin(self, message: Message) -> bytes:
        try:
            spec = Spec(**message.fields["spec"])
            self._prepare(spec)
            self._spec = spec
            self._speakers.environment = {**spec.environment, **spec.servers_are}
            self._start(spec.addresses[0], "launch.log", resume=spec.resume)
        except FlotaError as error:
            return encode("refused", text=str(error))
        except OSError as error:
            return encode("refused", text=f"{error.strerror or error}: {error.filename}")
        except TypeError as error:
            return encode("refused", text=f"the request run is not as it must be: {error}")
        self._preparation.close()
        return encode("run", pid=os.getpid(), logs_are_here=self._tails is None)

    def _prepare(self, spec: Spec) -> None:
        workspace = self._preparation.workspace
        logs = workspace / spec.logs
        logs.mkdir(parents=True, exist_ok=True)
        if not spec.resume:
            remove_logs(logs)
        make_links(logs, spec.servers, spec.workers)
        (workspace / spec.note).write_text(f"{spec.node}\n", encoding="ascii")
        if not (logs / spec.mark).exists():
            self._tails = Tails(logs)
        if spec.certs:
            certs = self._folder / "certs"
            certs.mkdir(mode=0o700)
            for name, text in spec.certs.items():
                with open(os.open(certs / Path(name).name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
                    out.write(text)
            spec.environment[config.CERTS] = str(certs)

    def _start(self, address: str, log: str, *, resume: bool) -> None:
        spec = self._spec
        assert spec is not None
        environment = {**spec.environment, config.POD_IP: address}
        argv = [*(["--resume"] if resume else []), *spec.argv]
        logs = self._preparation.workspace / spec.logs
        part = Part(address, argv, environment, self._preparation.workspace, logs / log, self._guard)
        self._parts.append(part)
        self._watched.append(part)
        self._selector.register(part.feed, selectors.EVENT_READ, lambda _: part.look())

    def _care(self) -> None:
        """What is to be done now and then, and whenever anything has happened."""
        now = time.monotonic()
        if self._spec is None:
            self._over = self._over or now - self._heard > _PREPARING_SILENCE or bool(self._signals.received)
            if now - self._beaten >= _PREPARING_BEAT:
                self._beaten = now
                self._reply(encode("beat"))
            return
        if now - self._heard > self._spec.lost_after and not self._lost:
            self._lost = True
            self._note(
                f"nothing was heard of the launch for {self._spec.lost_after:g} s: this host's part of the job ends"
            )
        if self._signals.received and not self._want["stop"]:
            self._want["stop"] = 1
            self._note(f"the agent was told to end by {signal.Signals(self._signals.received[0]).name}")
        self._fulfil()
        for part in self._parts:
            part.look()
        for part in [part for part in self._watched if not part.running]:
            self._watched.remove(part)
            self._selector.unregister(part.feed)
            part.feed.close()
        self._tell(now)
        if self._lost and not any(part.running for part in self._parts):
            self._over = True

    def _note(self, text: str) -> None:
        """Says something that the launch cannot see, or may not: for whoever looks here."""
        assert self._spec is not None
        self._told.add([line(text, said=True)])
        with contextlib.suppress(OSError):
            log = self._preparation.workspace / self._spec.logs / "agent.log"
            with log.open("a", encoding="utf-8") as opened:
                opened.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def _fulfil(self) -> None:
        """Makes things as the launch wants them."""
        spec = self._spec
        assert spec is not None
        level = max(int(self._want["stop"]), int(self._lost))
        for address in self._want["takes"]:
            if not level and address not in [part.of for part in self._parts]:
                self._note(f"taking over the workers of {address}")
                self._start(address, f"launch-of-{address}.log", resume=False)
        for part in self._parts:
            part.stop(level, spec.timeout)
        self._told.add(
            self._speakers.update([] if level else self._want["heralds"], [] if level else self._want["asks"])
        )

    def _tell(self, now: float) -> None:
        """Sends what the launch has not got, as far as there is room."""
        spec, peer = self._spec, self._peer
        for part in self._parts:
            self._told.add(line(text, said=said) for text, said in part.new_lines())
        if spec is None or peer is None:
            return
        for n, told_line in self._told.since(self._told_peer):
            peer.send(encode("told", n=n, **told_line))
        self._told_peer = self._told.end
        behind = peer.waiting >= _WAITING
        if self._tails is not None and not behind:
            for name, at, data in self._tails.pieces(_PIECE):
                peer.send(encode("log", data, name=name, at=at))
                behind = True
        told = [state(part) for part in self._parts]
        # An end is told after what was printed before it.
        held_back = behind and any(part.ended_within(_HELD_BACK) for part in self._parts)
        if told != self._state and not held_back:
            self._state = told
            peer.send(encode("state", parts=told))
        if now - self._beaten >= spec.beat:
            self._beaten = now
            peer.send(encode("beat"))
        self._selector.modify(
            peer.socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.waiting else 0), self._read
        )

    def _end_everything(self) -> None:
        self._speakers.close()
        deadline = time.monotonic() + (self._spec.timeout if self._spec else 0.0) + 20.0
        while any(part.running for part in self._parts) and time.monotonic() < deadline:
            for part in self._parts:
                part.stop(1, self._spec.timeout if self._spec else 0.0)
                part.look()
            time.sleep(0.02)
        self._drop()
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)
