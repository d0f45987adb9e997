"""The agent's end of its connection to the launch."""

from __future__ import annotations

import contextlib
import os
import signal
import socket

from flota.launch.ssh.protocol import MAX_PAYLOAD, Decoder, Message


class Peer:
    """The connection to the launch, by way of the process that SSH has started."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.socket.setblocking(False)
        credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        self._pid = int.from_bytes(credentials[:4], "little")
        self._decoder = Decoder()
        self._out = bytearray()

    @property
    def waiting(self) -> int:
        return len(self._out)

    def send(self, data: bytes) -> None:
        self._out += data
        self.flush()

    def flush(self) -> None:
        """Of a connection that has just ended this says nothing: whoever reads from it will hear of it."""
        try:
            while self._out:
                del self._out[: self.socket.send(self._out)]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            self._out.clear()

    def receive(self) -> list[Message]:
        with contextlib.suppress(BlockingIOError):
            data = self.socket.recv(MAX_PAYLOAD)
            if not data:
                raise ConnectionResetError("the launch has gone")
            return self._decoder.feed(data)
        return []

    def close(self) -> None:
        self.socket.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self._pid, signal.SIGTERM)
