"""A real cluster on this machine, for tests: server processes that can crash, come back and fall silent.

with LocalCluster(servers=2) as cluster:
    table = cluster.client().create_sparse_table("users", dim=1, rule=SGD(lr=1.0))
    cluster.crash(0)
    cluster.restart(0)
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from flota import config
from flota.client import Client
from flota.errors import DeadlineExceeded, InvalidArgument, SystemFailure

_READY = "listening on "


class ServerProcess:
    """One server process of a ``LocalCluster``."""

    def __init__(self, index: int, servers: int, secret: str, folder: Path, arguments: list[str]) -> None:
        self.index = index
        self.endpoint = ""
        self.log = folder / f"serverlog.{index}"
        self._secret = secret
        self._command = [sys.executable, "-m", "flota.server", "--index", str(index), "--servers", str(servers)]
        self._command += ["--until-stdin-ends", *arguments]
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise InvalidArgument(f"server {self.index} is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, timeout: float) -> None:
        """Starts the process, on the port it had before if there was one, and waits until it listens."""
        if self.running:
            raise InvalidArgument(f"server {self.index} is running already")
        command = [*self._command]
        if self.endpoint:
            command += ["--port", self.endpoint.rpartition(":")[2]]
        with self.log.open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # its end is the server's: nobody stays behind when a test is killed
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=config.child_environment(FLOTA_SECRET=self._secret, FLOTA_METRICS_PORT=""),  # each needs its own
            )
        self.endpoint = self._wait_until_ready(self._process, timeout)

    def _wait_until_ready(self, process: subprocess.Popen[str], timeout: float) -> str:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            ready = selector.select(timeout)
        line = process.stdout.readline() if ready else ""
        if _READY in line:
            return line.rpartition(_READY)[2].strip()
        self.crash()
        tail = self.log.read_text(encoding="utf-8", errors="replace")[-2000:]
        if not ready:
            raise DeadlineExceeded(f"server {self.index} did not listen within {timeout:g} s; its log ends:\n{tail}")
        raise SystemFailure(f"server {self.index} did not start; its log ends:\n{tail}")

    def crash(self) -> None:
        """Ends the process at once (SIGKILL), as a crash would; all that it held is gone."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None

    def pause(self) -> None:
        """Stops the process without ending it (SIGSTOP): it is there and does not answer."""
        os.kill(self.pid, signal.SIGSTOP)
        # The kernel stops one thread after another: without a wait, one of them might still answer.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def stop(self, timeout: float) -> None:
        """Asks the process to end (SIGTERM) and waits for it; one that does not is killed."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        self.crash()


def _durable(folder: str | Path | None, index: int) -> list[str]:
    return [] if folder is None else ["--durable", str(Path(folder) / f"server-{index}")]


class LocalCluster:
    """Real server processes on free ports of this machine, as a context manager.

    ``arguments`` are passed to every server (see ``python -m flota.server --help``); logs are in ``log_dir``, a
    temporary folder unless given. With ``durable``, a folder, a restarted server comes back with all that it had.
    When the test's process ends, in whatever way, the servers end with it.
    """

    def __init__(
        self,
        servers: int = 1,
        *,
        secret: str | None = None,
        arguments: list[str] | None = None,
        log_dir: str | Path | None = None,
        durable: str | Path | None = None,
        timeout: float = 30.0,
    ) -> None:
        if servers < 1:
            raise InvalidArgument(f"a cluster needs at least one server, not {servers}")
        self.secret = secret or secrets.token_hex(32)
        self.timeout = timeout
        self._temporary = tempfile.TemporaryDirectory(prefix="flota-") if log_dir is None else None
        self.log_dir = Path(self._temporary.name) if self._temporary else Path(log_dir or "")
        self.log_dir.mkdir(parents=True, exist_ok=True)
        self.servers = [
            ServerProcess(i, servers, self.secret, self.log_dir, [*(arguments or []), *_durable(durable, i)])
            for i in range(servers)
        ]
        self._clients: list[Client] = []

    @property
    def endpoints(self) -> list[str]:
        """host:port of each server: what ``flota.Client`` takes."""
        return [server.endpoint for server in self.servers]

    def start(self) -> None:
        """Starts the servers, and returns when all of them listen; ``with`` does so by itself."""
        deadline = time.monotonic() + self.timeout
        try:
            for server in self.servers:
                server.start(max(0.1, deadline - time.monotonic()))
        except BaseException:
            self.stop()
            raise

    def client(self, **options: Any) -> Client:
        """A client of all servers; it is closed with the cluster. Options are those of ``flota.Client``."""
        options.setdefault("secret", self.secret)
        client = Client(self.endpoints, **options)
        self._clients.append(client)
        return client

    def crash(self, index: int) -> None:
        """Kills a server (SIGKILL): what it had in memory is gone."""
        self.servers[index].crash()

    def restart(self, index: int) -> None:
        """Starts a crashed server again, on its old port; with empty tables, unless the cluster is durable."""
        self.servers[index].start(self.timeout)

    def pause(self, index: int) -> None:
        """Stops a server in its tracks (SIGSTOP): connections stay, and nothing answers."""
        self.servers[index].pause()

    def resume(self, index: int) -> None:
        """Lets a paused server go on."""
        self.servers[index].resume()

    def stop(self) -> None:
        """Closes the clients and ends the servers; ``with`` does so by itself."""
        for client in self._clients:
            client.close()
        self._clients.clear()
        for server in self.servers:
            server.stop(timeout=5.0)
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> LocalCluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
