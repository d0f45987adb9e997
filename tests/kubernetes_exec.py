"""What `kubectl exec` needs of an API server: a WebSocket (RFC 6455) with the channels of v5.channel.k8s.io.

Each message is a byte for its channel and what comes there: 0 to the command's input; 1 and 2 its output and errors; 3
how it ended, as a Status; 255 that a channel ends. kubectl has tried this first since 1.31, and SPDY after it.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import struct
import subprocess
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler
from typing import IO

PROTOCOL = "v5.channel.k8s.io"
Starts = Callable[[Sequence[str]], "subprocess.Popen[bytes]"]

_INPUT, _OUTPUT, _ERRORS, _STATUS, _ENDS = 0, 1, 2, 3, 255
_BINARY, _CLOSE, _PING, _PONG = 2, 8, 9, 10
_KEY_END = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MOST = 1 << 20


class _Channels:
    """The connection after its handshake. Threads may write at the same time; one reads."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        key = handler.headers["Sec-WebSocket-Key"] + _KEY_END
        handler.send_response(101)
        handler.send_header("Upgrade", "websocket")
        handler.send_header("Connection", "Upgrade")
        handler.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        handler.send_header("Sec-WebSocket-Protocol", PROTOCOL)
        handler.end_headers()
        handler.close_connection = True
        self._in, self._out = handler.rfile, handler.wfile
        self._lock = threading.Lock()

    def send(self, channel: int, text: bytes) -> None:
        self._frame(_BINARY, bytes([channel]) + text)

    def close(self) -> None:
        self._frame(_CLOSE, struct.pack(">H", 1000))

    def receive(self) -> tuple[int, bytes] | None:
        """The next message and its channel; None: the other end has gone."""
        while True:
            head = self._in.read(2)
            if len(head) < 2:
                return None
            kind, length = head[0] & 15, head[1] & 127
            if length >= 126:
                form = ">H" if length == 126 else ">Q"
                (length,) = struct.unpack(form, self._in.read(struct.calcsize(form)))
            assert head[0] & head[1] & 128, "clients mask what they send, and kubectl sends whole messages"
            assert length <= _MOST
            mask = self._in.read(4)
            text = bytes(byte ^ mask[i % 4] for i, byte in enumerate(self._in.read(length)))
            if kind == _PING:
                self._frame(_PONG, text)
            elif kind == _CLOSE:
                return None
            elif kind == _BINARY and text:
                return text[0], text[1:]

    def _frame(self, kind: int, text: bytes) -> None:
        size = len(text)
        length = (
            bytes([size])
            if size < 126
            else struct.pack(">BH" if size < 1 << 16 else ">BQ", 126 + (size >> 16 > 0), size)
        )
        with self._lock, contextlib.suppress(OSError):  # who has gone is told nothing
            self._out.write(bytes([128 | kind]) + length + text)
            self._out.flush()


def execute(handler: BaseHTTPRequestHandler, words: Sequence[str], start: Starts, *, fed: bool) -> bool:
    """Runs the words for a client that speaks so; False: it does not. ``fed``: they have an input."""
    if PROTOCOL not in handler.headers.get("Sec-WebSocket-Protocol", ""):
        return False
    process = start(words)
    if not fed and process.stdin is not None:
        process.stdin.close()
    channels = _Channels(handler)
    feeds = threading.Thread(target=_feed, args=(channels, process), daemon=True)
    feeds.start()
    outputs = [
        threading.Thread(target=_carry, args=(channels, channel, pipe), daemon=True)
        for channel, pipe in ((_OUTPUT, process.stdout), (_ERRORS, process.stderr))
    ]
    for thread in outputs:
        thread.start()
    for thread in outputs:
        thread.join()
    channels.send(_STATUS, json.dumps(_status(process.wait())).encode())
    channels.close()
    feeds.join(5)
    return True


def _feed(channels: _Channels, process: subprocess.Popen[bytes]) -> None:
    """The command's input ends when the client says so, or has gone."""
    assert process.stdin is not None
    with contextlib.suppress(OSError, ValueError), process.stdin:
        while (message := channels.receive()) is not None and message != (_ENDS, bytes([_INPUT])):
            if message[0] == _INPUT:
                process.stdin.write(message[1])
                process.stdin.flush()
    while channels.receive() is not None:
        pass


def _carry(channels: _Channels, channel: int, pipe: IO[bytes]) -> None:
    with pipe:
        while text := pipe.read1(1 << 14):  # type: ignore[attr-defined]
            channels.send(channel, text)


def _status(ended: int) -> dict:
    if ended == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {ended}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(ended)}]},
    }  # fmt: skip
