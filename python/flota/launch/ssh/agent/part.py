"""``flota launch`` as the agent runs it: for one host's part of a job, with a feed to the agent in place of a view.

    python -m flota.launch.ssh.agent.part FEED WORKSPACE flags of flota launch …

``FEED`` is the number of a datagram socket that this process inherits.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

from flota.errors import FlotaError, InvalidArgument
from flota.launch import local
from flota.launch.arguments import parse
from flota.launch.rows import Job, Row
from flota.launch.saying import stay_text

_EVERY = 0.5  # seconds


class Feed:
    """A view for the agent: rows now and then, and between which bytes of the output events are told."""

    def __init__(self, job: Job, feed: socket.socket) -> None:
        self._job = job
        self._feed = feed
        self._next = 0.0
        self._send(begun=_written())

    def update(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            self._send(rows=[_row(row) for row in self._job.rows()], idle=self._job.idle)

    def close(self) -> None:
        self._send(rows=[_row(row) for row in self._job.rows()], idle=False, closed=_written())

    def _send(self, **message: Any) -> None:
        # An agent that is behind gets the next one. It cannot be gone: this process would have ended with it.
        with contextlib.suppress(OSError):
            self._feed.send(json.dumps(message).encode())


def _written() -> int:
    sys.stdout.flush()
    return os.fstat(1).st_size


def _row(row: Row) -> dict[str, Any]:
    values = vars(row).copy()
    if row.loss is not None and not math.isfinite(row.loss):
        values["loss"] = str(row.loss)
    return values


def main(words: Sequence[str]) -> int:
    number, workspace, *argv = words
    feed = socket.socket(fileno=int(number))
    feed.setblocking(False)
    feed.set_inheritable(False)
    stay_text()  # the agent tells the head what they say
    try:
        os.chdir(workspace)
        # The agent has taken away the logs of jobs before; those here may be of workers of another part.
        asked = parse(argv, "flota launch")
        return local.launch(asked, lambda job: Feed(job, feed), asked_here=False, tidy=False)
    except FlotaError as error:
        print(f"flota launch: {error}", flush=True)
        return 2 if isinstance(error, InvalidArgument) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
