"""Says to server 0 that a worker is being started again, until it is there: the others wait for it beyond their
deadlines, however long its start takes.

    python -m flota.launch.herald     # in the environment of that worker

A process of its own: a launcher forks, so it has no threads, and a connection does. It ends when the worker has come,
when its standard input does, as with the launcher, and at last after ten minutes: a start that takes longer hangs.
"""

from __future__ import annotations

import contextlib
import select
import sys
import time

from flota import _core, config, roles, tls
from flota.errors import FlotaError

_LONGEST = 600.0  # seconds
_EVERY = 0.5  # seconds
_CALL_MS = 2000


def _options(place: roles.Placement) -> _core.ClientOptions:
    options = _core.ClientOptions()
    options.endpoints = list(place.server_endpoints)
    options.endpoints_file = config.endpoints_file()
    options.secret = config.job_secret()
    tls.protect_client(options)
    return options


def main() -> None:
    place = roles.default_role_maker().placement()
    deadline = time.monotonic() + _LONGEST
    client: _core.Client | None = None
    before: int | None = None
    while time.monotonic() < deadline:
        # A server that is away may come back.
        with contextlib.suppress(FlotaError):
            client = client or _core.Client.connect(_options(place), _CALL_MS)
            found = client.announce(place.index, place.worker_num, _CALL_MS)
            before = found if before is None else before
            if found != before:
                return
        if select.select([sys.stdin], [], [], _EVERY)[0]:
            return


if __name__ == "__main__":
    main()
