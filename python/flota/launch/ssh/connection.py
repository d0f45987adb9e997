"""A connection to a node: Fabric finds out how (ssh_config, users, ports, keys, jump hosts), an agent is at its end.

Host keys are checked as ssh does it: one that known_hosts does not have is refused, or added where that was asked for;
one that differs is always refused.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib
import logging
import shlex
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from flota.errors import FlotaError, InvalidArgument
from flota.launch.ssh.inventory import Host
from flota.launch.ssh.protocol import Decoder, Message, Nonsense

_READ = 1 << 16
_ERRORS = 1 << 14  # bytes of the far end's standard error that are kept
_UNTAKEN = 20  # seconds that the far end's kernel may leave what it is sent without an answer
_PROBE = 5  # seconds of silence after which it is asked whether it is there


class Unreachable(FlotaError):
    """There is no connection to the node, or no more. It may come back."""


class Refused(FlotaError):
    """The node, or what is on it, will not do it; trying again is of no use."""


def load_fabric() -> None:
    """Imports Fabric, or says how to get it."""
    try:
        importlib.import_module("fabric")
    except ImportError as error:
        raise InvalidArgument(f"--hosts needs Fabric ({error}): pip install 'flota[ssh]'") from error
    # What it would print of connections that break is told here, and in other words.
    logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)


def agent_command(python: str, what: str, job: str) -> str:
    """What the node's shell is to run. Without a Python of its own choice, a node uses one at the path that this one is
    at, or else python3. It starts in the root folder, where no file stands in for a module of Python's."""
    if python:
        at_home = python.startswith("~/")
        place = '"$HOME"/' + shlex.quote(python[2:]) if at_home else shlex.quote(python)
        find = f"p={place}; "
    else:
        find = f'p={shlex.quote(sys.executable)}; [ -x "$p" ] || p=python3; '
    return shlex.join(["sh", "-c", f'{find}cd / && exec "$p" -m flota.launch.ssh.agent {what} {job}'])


class Connection:
    """One SSH connection with an agent at its end. One thread uses it; any may ``sever`` it."""

    def __init__(self, host: Host, *, accept_new: bool) -> None:
        import fabric

        options: dict[str, Any] = {"banner_timeout": 15, "auth_timeout": 15}
        if host.key:
            options["key_filename"] = str(Path(host.key).expanduser())
        try:
            self._fabric = fabric.Connection(host.name, user=host.user or None, port=host.port, connect_kwargs=options)
            _check_keys(self._fabric, host, accept_new=accept_new)
        except (ValueError, OSError) as error:
            raise InvalidArgument(f"{host.name}: {error}") from error
        self.address: str = self._fabric.host  # what ssh_config says that the name means
        self._host = host
        self._channel: Any = None
        self._decoder = Decoder(banner=True)
        self._errors = bytearray()
        self._lock = threading.Lock()
        self._severed = ""  # why
        self.heard = time.monotonic()

    def open(self, command: str, timeout: float) -> None:
        """Connects and starts ``command``."""
        import paramiko

        self._fabric.connect_timeout = timeout
        try:
            self._fabric.open()
            _bound_silence(self._fabric)
            self._channel = self._fabric.transport.open_session(timeout=timeout)
            self._channel.exec_command(command)
        except UnknownKey as error:
            raise Refused(str(error)) from None
        except paramiko.BadHostKeyException as error:
            raise Refused(
                f"its host key {_fingerprint(error.key)} is not the one in known_hosts, "
                f"{_fingerprint(error.expected_key)}: it is another machine, or somebody is in between; if you know "
                f"that it was set up anew, ssh-keygen -R {self._fabric.host} forgets the old one"
            ) from None
        except paramiko.PasswordRequiredException as error:
            raise Refused(f"the private key has a passphrase ({error}): add it to ssh-agent") from None
        except paramiko.AuthenticationException as error:
            raise Refused(
                f"it lets nobody in as user {self._fabric.user} with the keys that are here ({error}): check that ssh "
                f"{self._host.name} works without a password, or say user: and key: in hosts.yaml"
            ) from None
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise Unreachable(_reason(error)) from error
        if self._severed:
            raise Unreachable(self._severed)
        self.heard = time.monotonic()

    def send(self, data: bytes) -> None:
        import paramiko

        try:
            self._channel.settimeout(None)
            self._channel.sendall(data)
        except (paramiko.SSHException, OSError, EOFError) as error:
            # Of a transport that has failed a channel knows no more than that it is closed.
            cause = self._channel.get_transport().saved_exception or error
            raise Unreachable(f"the connection broke: {self._severed or _reason(cause)}") from error

    def receive(self, timeout: float) -> list[Message]:
        """The messages that came, within this time."""
        import paramiko

        self._channel.settimeout(timeout)
        try:
            data = self._channel.recv(_READ)
        except socket.timeout:  # noqa: UP041 (another class than TimeoutError in Python 3.9, which paramiko knows)
            return []
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise Unreachable(f"the connection broke: {_reason(error)}") from error
        if not data:
            raise self._end()
        self.heard = time.monotonic()
        try:
            return self._decoder.feed(data)
        except Nonsense as error:
            raise Refused(f"no agent answers there, but something else: {error}") from error

    def _end(self) -> FlotaError:
        """Why the far end has closed the channel."""
        if self._severed:
            return Unreachable(self._severed)
        self._take_errors()
        noise = f"{self._decoder.noise}\n{self._errors.decode(errors='replace')}".strip()
        last = noise.splitlines()[-1].strip() if noise else ""
        with contextlib.suppress(Exception):
            if self._channel.exit_status_ready() and self._channel.recv_exit_status() > 0:
                return Refused(_explained(last, self._channel.recv_exit_status()))
        return Unreachable(f"the connection ended{': ' + last if last else ''}")

    def _take_errors(self) -> None:
        with contextlib.suppress(Exception):
            self._channel.settimeout(2.0)
            while len(self._errors) < _ERRORS and (data := self._channel.recv_stderr(4096)):
                self._errors += data

    def sever(self, why: str = "it was left") -> None:
        """Ends it at once, whatever the network does; whoever waits on it is told why."""
        self._severed = self._severed or why
        with contextlib.suppress(Exception):
            transport = self._fabric.client.get_transport()
            if transport is not None:
                transport.close()
        if self._fabric.gateway:
            with contextlib.suppress(Exception):
                self._fabric.close()

    close = sever


def _bound_silence(connection: Any) -> None:
    """From here on a connection ends on which nothing gets through any more: who sends would wait for as long as TCP
    tries, a quarter of an hour, and for room at the far end without any end. (Of a ProxyCommand, its own program has to
    see to that.)"""
    while connection is not None:
        transport = getattr(connection, "transport", None)
        if transport is not None and isinstance(transport.sock, socket.socket):
            transport.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
                transport.sock.setsockopt(socket.IPPROTO_TCP, option, _PROBE)
            transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _UNTAKEN)
        connection = getattr(connection, "gateway", None)


def _explained(last: str, status: int) -> str:
    if "No module named" in last and "flota" in last:
        return f"its Python has no flota, or another one ({last}): install it there, or say python: in hosts.yaml"
    return f"no agent could be started there: {last or f'exit status {status}'}"


def _reason(error: BaseException) -> str:
    import paramiko

    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        return "; ".join(sorted({each.strerror or str(each) for each in error.errors.values()}))
    if isinstance(error, EOFError):
        return "nothing more was heard"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


class UnknownKey(Exception):
    """Nobody has said whose key this is."""


def _fingerprint(key: Any) -> str:
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"


def _check_keys(connection: Any, host: Host, *, accept_new: bool) -> None:
    import paramiko

    client = connection.client
    named = connection.ssh_config.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2").split()
    own = [Path(name).expanduser() for name in named]
    for file in [*own, Path("/etc/ssh/ssh_known_hosts")]:
        if file.is_file():
            client.load_system_host_keys(str(file))
    asked = accept_new or connection.ssh_config.get("stricthostkeychecking", "") in ("accept-new", "no")

    class Policy(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
        def missing_host_key(self, _client: Any, name: str, key: Any) -> None:
            if not asked:
                raise UnknownKey(
                    f"its host key {_fingerprint(key)} is not in known_hosts: connect once with ssh {host.name} and "
                    "compare it, or accept keys of hosts that were never met with --accept_new_host_keys"
                )
            _remember(own[0], f"{name} {key.get_name()} {key.get_base64()}\n")

    client.set_missing_host_key_policy(Policy())


_KNOWN_HOSTS = threading.Lock()


def _remember(file: Path, line: str) -> None:
    with _KNOWN_HOSTS:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with file.open("a", encoding="ascii") as known:
            known.write(line)
