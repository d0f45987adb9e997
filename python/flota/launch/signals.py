"""The signals that a launch hears."""

from __future__ import annotations

import signal
import socket
from types import FrameType


class Signals:
    """SIGINT, SIGTERM and SIGHUP, noted; they and the end of a child also wake a selector."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.wake, self._wakes = socket.socketpair()
        for end in (self.wake, self._wakes):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, self._note)
        signal.signal(signal.SIGTERM, self._note)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
            signal.signal(signal.SIGHUP, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.received.append(number)
