"""Tells server 0 of a running job who its workers are to be, in the environment of one of them.

    python -m flota.launch.envoy scale N      # so many workers there shall be
    python -m flota.launch.envoy gone I       # worker I has ended without saying goodbye, and does not come back
    python -m flota.launch.envoy settle N     # there are these, and no others: what a job that is resumed begins with
    python -m flota.launch.envoy watch        # how many there are, and shall be, whenever it is another number
    python -m flota.launch.envoy change N S   # as scale, and how it goes on until they have come or gone

A process of its own: a launcher forks, so it has no threads, and a connection does. It prints one line of JSON: the
error, or ``workers`` that have joined and the number that is ``wanted``. ``watch`` prints more of them, until its
standard input ends, or the job is none whose workers come and go. ``change`` prints answers as ``flota.launch.control``
has them; it ends when nobody has come or gone for S seconds, and then the change goes on without it.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from flota import _core, config, roles, tls
from flota._core import TeamMode, TeamPart
from flota.errors import FlotaError, InvalidArgument
from flota.launch.envoys import Said
from flota.launch.scaling import workers_text

_EVERY = 0.5  # seconds between two questions
_CALL_MS = 2000


def connect(endpoints: Sequence[str], time_ms: int) -> _core.Client:
    options = _core.ClientOptions()
    options.endpoints = list(endpoints)
    options.endpoints_file = config.endpoints_file()
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


def watch(endpoints: Sequence[str]) -> Iterator[_core.TeamReply]:
    """What server 0 says, whenever it is something else than before; a server that is away is asked again."""
    client: _core.Client | None = None
    told = (0, 0)
    while True:
        try:
            client = client or connect(endpoints, _CALL_MS)
            found = client.team(TeamPart.ask, _CALL_MS)
        except FlotaError:
            client = None
        else:
            if found.wanted and found.mode != TeamMode.asynchronous:
                return
            if (found.workers, found.wanted) != told:
                told = (found.workers, found.wanted)
                yield found
        if select.select([sys.stdin], [], [], _EVERY)[0]:
            return


def change(client: _core.Client, workers: int, patience: float, time_ms: int) -> Iterator[dict[str, object]]:
    """Asks for another number, and tells how it goes on."""
    told = tell(client, "scale", workers, time_ms)
    before, there, heard = told.workers, told.workers, time.monotonic()
    if before > workers:
        yield {"say": f"{workers_text(before - workers)} will leave after the batch at hand"}
    while there != workers:
        time.sleep(_EVERY)
        found = client.team(TeamPart.ask, time_ms)
        if found.wanted != workers:
            yield {"end": f"another command asks for {workers_text(found.wanted)}: that holds", "done": False}
            return
        if found.workers != there:
            what = "joined" if found.workers > there else "left"
            changed = range(min(there, found.workers), max(there, found.workers))
            for index in changed if found.workers > there else reversed(changed):
                yield {"say": f"worker {index} has {what}"}
            there, heard = found.workers, time.monotonic()
        elif time.monotonic() - heard > patience:
            yield {"end": f"no worker has come or gone for {patience:g} s; it goes on", "done": False}
            return
    yield {"end": f"{workers_text(workers)} ({before} before)", "done": True}


def _print(message: object) -> None:
    print(json.dumps(message), flush=True)


def main() -> None:
    time_ms = int(config.default_timeout() * 1000)
    word, *numbers = sys.argv[1:]
    changes = word == "change"
    try:
        endpoints = roles.default_role_maker().placement().server_endpoints
        if word == "watch":
            for told in watch(endpoints):
                _print(asdict(Said(workers=told.workers, wanted=told.wanted)))
        elif changes:
            for answer in change(connect(endpoints, time_ms), int(numbers[0]), float(numbers[1]), time_ms):
                _print(answer)
        else:
            told = tell(connect(endpoints, time_ms), word, int(numbers[0]), time_ms)
            _print(asdict(Said(workers=told.workers, wanted=told.wanted)))
    except (FlotaError, ValueError, IndexError) as error:
        _print({"end": str(error), "done": False} if changes else asdict(Said(error=str(error))))


if __name__ == "__main__":
    main()
