"""What a launch and the agent on a node say to each other through an SSH channel.

A message is a JSON object on a line of its own; one with an entry ``bytes`` is followed by so many bytes as they are.
Both have bounds, so that whoever speaks nonsense costs no memory. The agent begins with a banner: what a login shell
prints before it is passed over.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from flota.errors import FlotaError

BANNER = b"flota-agent 1\n"
MAX_LINE = 1 << 20
MAX_PAYLOAD = 1 << 20
MAX_NOISE = 1 << 16  # of a login shell, before the banner


class Nonsense(FlotaError):
    """What came is none of the messages above."""


@dataclass(frozen=True)
class Message:
    fields: dict[str, Any]
    payload: bytes = b""

    @property
    def op(self) -> str:
        return str(self.fields.get("op", ""))


def encode(op: str, payload: bytes = b"", **fields: Any) -> bytes:
    message: dict[str, Any] = {"op": op, **fields}
    if payload:
        message["bytes"] = len(payload)
    line = json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    if len(line) > MAX_LINE or len(payload) > MAX_PAYLOAD:
        raise Nonsense(f"a message {op} of {len(line)} and {len(payload)} bytes is longer than the bounds")
    return line + payload


class Decoder:
    """Messages out of bytes as they come."""

    def __init__(self, *, banner: bool = False) -> None:
        """``banner``: the peer begins with one."""
        self._buffer = bytearray()
        self._banner = banner
        self._fields: dict[str, Any] | None = None  # of a message whose payload is to come
        self._missing = 0
        self._searched = 0  # bytes of the buffer that have no end of line

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are whole now. ``Nonsense``: nothing that follows can be understood."""
        self._buffer += data
        if self._banner and not self._pass_banner():
            return []
        found = []
        while (message := self._next()) is not None:
            found.append(message)
        return found

    @property
    def noise(self) -> str:
        """What came where a banner should have been."""
        return self._buffer.decode(errors="replace") if self._banner else ""

    def _pass_banner(self) -> bool:
        place = self._buffer.find(BANNER)
        if place < 0:
            if len(self._buffer) > MAX_NOISE:
                raise Nonsense(f"{MAX_NOISE} bytes came, and none of them were an agent's")
            return False
        del self._buffer[: place + len(BANNER)]
        self._banner = False
        return True

    def _next(self) -> Message | None:
        if self._fields is None:
            end = self._buffer.find(b"\n", self._searched)
            if end < 0:
                self._searched = len(self._buffer)
                if self._searched > MAX_LINE:
                    raise Nonsense(f"a line of more than {MAX_LINE} bytes")
                return None
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            self._fields, self._missing = _parsed(line)
        if len(self._buffer) < self._missing:
            return None
        message = Message(self._fields, bytes(self._buffer[: self._missing]))
        del self._buffer[: self._missing]
        self._fields = None
        return message


def _parsed(line: bytes) -> tuple[dict[str, Any], int]:
    if len(line) > MAX_LINE:
        raise Nonsense(f"a line of more than {MAX_LINE} bytes")
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Nonsense(f"{line[:80]!r} is no message: {error}") from error
    if not isinstance(fields, dict) or not isinstance(fields.get("op"), str):
        raise Nonsense(f"{line[:80]!r} is no message: it has no op")
    payload = fields.get("bytes", 0)
    if not isinstance(payload, int) or isinstance(payload, bool) or not 0 <= payload <= MAX_PAYLOAD:
        raise Nonsense(f"a message {fields['op']} with {payload!r} bytes: at most {MAX_PAYLOAD}")
    return fields, payload
