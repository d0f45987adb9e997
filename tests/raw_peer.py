"""A peer written from the description of the wire alone: it can say what no client of ours would.

Bytes are laid out here a second time, on purpose: when the two disagree, the wire has changed.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct
from dataclasses import dataclass

HELLO_MAGIC = b"FOLH"
FRAME_MAGIC = b"FLTA"
VERSION = 2

CREATE_TABLE, DESCRIBE_TABLE, PULL, PUSH, PULL_DENSE, PUSH_DENSE = 1, 2, 3, 4, 5, 6
BARRIER, STATISTICS, EXPORT, IMPORT, SHUTDOWN, REPLY, ERROR = 7, 8, 9, 10, 11, 64, 65

GRADIENT, DELTA, ASSIGN = 1, 2, 3

INVALID_ARGUMENT, UNKNOWN_TABLE, TABLE_MISMATCH, NON_FINITE, MALFORMED, TOO_LARGE = 1, 2, 3, 4, 5, 6
VERSION_MISMATCH, UNAUTHENTICATED, STALE_EPOCH = 7, 8, 11


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def header(kind: int, length: int, request: int = 1, *, version: int = VERSION, flags: int = 1) -> bytes:
    front = struct.pack("<4sBBHQQI", FRAME_MAGIC, version, kind, flags, request, length, 0)
    return front + struct.pack("<I", crc32c(front))


def frame(kind: int, payload: bytes = b"", request: int = 1, **changes: int) -> bytes:
    return header(kind, len(payload), request, **changes) + payload + struct.pack("<Q", crc32c(payload))


def text(value: str) -> bytes:
    return struct.pack("<II", len(value.encode()), 0) + padded(value.encode())


def table_id(name: str) -> int:
    mask = (1 << 64) - 1
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 & mask
    for multiplier in (0x9FB21C651E98DF25, 0xD6E8FEB86659FD93):
        h = (h ^ h >> 32) * multiplier & mask
    return h ^ h >> 32


NO_VERSION = (1 << 64) - 1
FLOAT32 = 1


@dataclass(frozen=True)
class Push:
    """A sparse push, field by field."""

    table: str
    keys: list[int]
    values: list[float]
    dim: int = 1
    worker: int = 77
    epoch: int = 0
    sequence: int = 1
    oldest: int = 1
    step: int = 1
    group: int = 0
    rank: int = 0
    lr: float = 1.0
    scale: float = 1.0
    kind: int = DELTA
    count: int | None = None

    def payload(self) -> bytes:
        count = len(self.keys) if self.count is None else self.count
        head = struct.pack(
            "<QQQQQQQIIffIIBB6x",
            table_id(self.table), self.worker, self.sequence, self.oldest, self.step, self.group, NO_VERSION,
            self.epoch, self.rank, self.lr, self.scale, count, self.dim, self.kind,
            FLOAT32,
        )  # fmt: skip
        return padded(head + struct.pack(f"<{len(self.keys)}q{len(self.values)}f", *self.keys, *self.values))


class RawPeer:
    """A TCP connection to a server."""

    def __init__(self, endpoint: str, timeout: float = 10.0) -> None:
        host, _, port = endpoint.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout)

    def __enter__(self) -> RawPeer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self, length: int) -> bytes:
        """So many bytes, or fewer when the server ends the connection."""
        data = b""
        while len(data) < length:
            try:
                more = self.socket.recv(length - len(data))
            except ConnectionResetError:
                break
            if not more:
                break
            data += more
        return data

    def ended(self) -> bool:
        """Waits until the server says something (False) or ends the connection (True)."""
        return self.receive(1) == b""

    def handshake(self, secret: str, *, version: int = VERSION) -> int:
        """Proves the secret, checks the server's proof, and returns the status: 0, or why not."""
        hello = self.receive(40)
        magic, oldest, newest = struct.unpack_from("<4sHH", hello)
        assert (magic, oldest, newest) == (HELLO_MAGIC, VERSION, VERSION)
        answer = struct.pack("<4sHH", HELLO_MAGIC, version, 0) + os.urandom(32)
        transcript = bytes(32) + hello + answer  # bytes(32): no TLS to be bound to
        self.send(answer + _mac(secret, transcript + b"flota client 1"))
        proof = self.receive(56)
        (status,) = struct.unpack_from("<I", proof)
        if status == 0:
            assert proof[24:] == _mac(secret, transcript + proof[:24] + b"flota server 1")
        return status

    def ask(self, kind: int, payload: bytes = b"", request: int = 1) -> tuple[int, bytes]:
        """Sends a request and returns the answer's kind and payload."""
        self.send(frame(kind, payload, request))
        return self.answer(request)

    def answer(self, request: int = 1) -> tuple[int, bytes]:
        head = self.receive(32)
        assert len(head) == 32, "the server ended the connection"
        magic, version, kind, flags, number, length, reserved = struct.unpack_from("<4sBBHQQI", head)
        assert (magic, version, flags, number, reserved) == (FRAME_MAGIC, VERSION, 1, request, 0)
        assert struct.unpack_from("<I", head, 28)[0] == crc32c(head[:28])
        payload = self.receive(length)
        assert self.receive(8) == struct.pack("<Q", crc32c(payload))
        return kind, payload

    def refusal(self, kind: int, payload: bytes = b"") -> tuple[int, str]:
        """Sends a request that must be refused, and returns the error's code and text."""
        answered, error = self.ask(kind, payload)
        assert answered == ERROR
        code, _, length, _ = struct.unpack_from("<IIII", error)
        return code, error[16 : 16 + length].decode()


def _mac(secret: str, data: bytes) -> bytes:
    return hmac.new(secret.encode(), data, hashlib.sha256).digest()
