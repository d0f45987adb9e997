"""Tells server 0 of a running job who its workers are to be, in the environment of one of them.

    python -m flota.launch.envoy scale N      # so many workers there shall be
    python -m flota.launch.envoy gone I       # worker I has ended without saying goodbye, and does not come back
    python -m flota.launch.envoy settle N     # there are these, and no others: what a job that is resumed begins with

A process of its own: a launcher forks, so it has no threads, and a connection does. It prints one line of JSON: the
error, or ``workers`` that have joined and the number that is ``wanted``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from flota import _core, config, roles, tls
from flota._core import TeamMode, TeamPart
from flota.errors import FlotaError, InvalidArgument
from flota.launch.envoys import Said


def connect(endpoints: Sequence[str], time_ms: int) -> _core.Client:
    options = _core.ClientOptions()
    options.endpoints = list(endpoints)
    options.secret = config.job_secret()
    tls.protect_client(options)
    return _core.Client.connect(options, time_ms)


def _settle(client: _core.Client, workers: int, time_ms: int) -> _core.TeamReply:
    found = client.team(TeamPart.ask, time_ms)
    if found.workers == 0 or found.mode != TeamMode.asynchronous:
        return found  # nobody has joined yet, or their number was never changed
    if found.wanted != workers:
        client.team(TeamPart.scale, time_ms, workers=workers)
    for index in range(workers, found.workers):
        client.team(TeamPart.leave, time_ms, index)
    return client.team(TeamPart.ask, time_ms)


def tell(client: _core.Client, word: str, number: int, time_ms: int) -> _core.TeamReply:
    match word:
        case "scale":
            return client.team(TeamPart.scale, time_ms, workers=number)
        case "gone":
            return client.team(TeamPart.leave, time_ms, number)
        case "settle":
            return _settle(client, number, time_ms)
        case _:
            raise InvalidArgument(f"envoy: {word!r} is none of scale, gone and settle")


def main() -> None:
    said = Said()
    time_ms = int(config.default_timeout() * 1000)
    try:
        word, number = sys.argv[1:]
        client = connect(roles.default_role_maker().placement().server_endpoints, time_ms)
        told = tell(client, word, int(number), time_ms)
        said = Said(workers=told.workers, wanted=told.wanted)
    except (FlotaError, ValueError) as error:
        said = Said(error=str(error))
    print(json.dumps(asdict(said)))


if __name__ == "__main__":
    main()
