"""A server at work: until the workers have stopped, until somebody stops it, or until nobody is left to serve."""

from __future__ import annotations

import signal
import threading
import time

from flota import _core, config, report
from flota.log import say

_LOOK_MS = 200
# Times FLOTA_TIMEOUT. A worker whose network is gone is started again for as long as four of them and more; and whoever
# starts a launch again by hand needs some minutes.
_PATIENCE = 10


class _Company:
    """For how long no worker has been connected, once there were any."""

    def __init__(self, server: _core.Server) -> None:
        self._server = server
        # One that was started again has served before.
        self._last = time.monotonic() if server.recovered else None

    def alone_for(self) -> float:
        if self._server.connections:
            self._last = time.monotonic()
        return 0.0 if self._last is None else time.monotonic() - self._last


def serve(server: _core.Server, name: str) -> None:
    """Returns when the workers have stopped, or with SIGINT or SIGTERM.

    Once it has had workers, it does not wait for ever for others to come: after ten times ``FLOTA_TIMEOUT`` without
    a connection it says so, and the process ends with a status by which the launcher knows.
    """
    patience = _PATIENCE * config.default_timeout()
    company = _Company(server)
    stopped = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while not stopped.is_set() and not server.wait(_LOOK_MS):
            if company.alone_for() > patience:
                say(
                    "nobody_left",
                    f"{name} ends: all workers have gone without a goodbye, and for {patience:g} s "
                    f"(10 times {config.TIMEOUT}) none has come back",
                    "error",
                )
                raise SystemExit(report.NOBODY_LEFT)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        server.stop()
