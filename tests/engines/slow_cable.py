"""A long and bad cable, on kernels whose ``tc`` has no netem: every frame is late by a constant time, some are lost.

    slow_cable.py INTERFACE INTERFACE DELAY_MS LOSS SEED

It takes each frame that arrives at one interface, and sends it out of the other one after DELAY_MS (of one way), or
never: with the probability LOSS, by random numbers of this seed. Frames that arrive later do not overtake. It says
``ready``, and goes on until it is ended. Offloading has to be off where frames come from, so that each is one of the
network's.

One core carries about 100,000 frames a second: 150 MB/s of full ones (benchmarks/network.py prints what it measured).
"""

from __future__ import annotations

import errno
import random
import select
import socket
import sys
import time
from collections import deque

_ALL_PROTOCOLS = 0x0003  # ETH_P_ALL
_SOL_PACKET = 263
_PACKET_IGNORE_OUTGOING = 23
_SO_RCVBUFFORCE = 33
_BUFFER = 64 << 20  # frames that wait to be taken: a core of a busy machine is away for tenths of a second
_BURST = 256  # frames taken from one side before the other is looked at
# A cable that is down loses what is sent into it, and so does a queue that is full.
_LOST = (errno.ENETDOWN, errno.ENOBUFS, errno.ENXIO, errno.EAGAIN)


def _open(interface: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
    opened.bind((interface, _ALL_PROTOCOLS))
    opened.setblocking(False)
    return opened


class _Way:
    """From one interface to another."""

    def __init__(self, source: socket.socket, target: socket.socket, delay: float, loss: float, seed: int) -> None:
        self.source = source
        self._target = target
        self._delay = delay
        self._loss = loss
        self._random = random.Random(seed).random
        self._under_way: deque[tuple[float, bytes]] = deque()

    def take(self) -> None:
        now = time.monotonic()
        for _ in range(_BURST):
            try:
                frame = self.source.recv(65536)
            except OSError as error:
                if error.errno not in _LOST:
                    raise
                return
            if self._loss == 0 or self._random() >= self._loss:
                self._under_way.append((now + self._delay, frame))

    def deliver(self) -> float | None:
        """Sends what is due; returns when the next frame is, in seconds from now."""
        waiting = self._under_way
        while waiting:
            left = waiting[0][0] - time.monotonic()
            if left > 0:
                return left
            try:
                self._target.send(waiting.popleft()[1])
            except OSError as error:
                if error.errno not in _LOST:
                    raise
        return None


def main() -> None:
    first, second, delay_ms, loss, seed = sys.argv[1:]
    ends = _open(first), _open(second)
    ways = [
        _Way(ends[0], ends[1], float(delay_ms) / 1e3, float(loss), 2 * int(seed)),
        _Way(ends[1], ends[0], float(delay_ms) / 1e3, float(loss), 2 * int(seed) + 1),
    ]
    print("ready", flush=True)
    while True:
        due = [left for way in ways if (left := way.deliver()) is not None]
        ready, _, _ = select.select(ends, [], [], min(due) if due else None)
        for way in ways:
            if way.source in ready:
                way.take()


if __name__ == "__main__":
    main()
