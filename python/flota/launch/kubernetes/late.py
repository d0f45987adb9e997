"""Workers of pods that come to a job which runs, or leave it, as their first process sees them (``attend``).

Pods' templates do not change with the number of workers: who comes to a job that began with fewer finds a number in its
environment that it is not below. And a Job of Kubernetes knows nothing of workers that nobody waits for. To it a pod
that fails is one that the job needs; so one that the job goes on without ends well, and says why in a few words, which
the cluster keeps (its termination message).
"""

from __future__ import annotations

import contextlib
import http.client
import time
from collections.abc import Mapping
from pathlib import Path

from flota import config
from flota.launch.envoys import Envoy, Said
from flota.launch.kubernetes.pods import ENDED
from flota.launch.kubernetes.settings import HEALTH_PORT
from flota.launch.progress import WorkerProgress
from flota.launch.scaling import workers_text
from flota.roles import environment as roles

LEFT = "left"
TOO_LATE = "came when the job was over"
NOT_JOINED = "could not join"

_TELL_SECONDS = 10.0  # that server 0 may take; it may be what the worker has failed of
_ASK_SECONDS = 2.0
_LOOK = 0.05
_FINISHED = b"finished\n"  # what a server says that has done its work (``attend``)


def told_higher() -> dict[str, str]:
    """What is to be put into the environment of a worker that its template does not know of."""
    index, count = config.worker_index(), config.worker_count()
    if index is None or count is None or index < count:
        return {}
    return {roles.WORKER_NUM: str(index + 1)}


def is_first_start() -> bool:
    """Of this worker's pods, as far as it is told: one that was there when the job was not over is not for the first
    time."""
    return bool(told_higher()) or config.restarts() == 0


def job_is_over(servers: str) -> bool:
    """Whether server 0 has done its work: a worker that comes now has nobody to join. ``servers``: host:port,…"""
    host = servers.partition(",")[0].rpartition(":")[0].strip("[]")
    if not host:
        return False
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection(host, HEALTH_PORT, timeout=_ASK_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            return answer.status == 503 and answer.read(len(_FINISHED) + 1) == _FINISHED
    return False


def excuse(index: int, environment: Mapping[str, str], heard: WorkerProgress, ending: str, *, last: bool) -> str:
    """Why the job goes on without this worker, which has failed, and whose goodbye is said now; empty: it does not.
    ``last``: it would not be started again."""
    told = _ask(environment)
    if told.error or told.workers == 0:
        return ""  # or no worker has joined yet: then it is one of those that the job begins with
    member = index < told.workers
    if index >= told.wanted:
        why = "ended before it had left" if member else f"is none of the job's {workers_text(told.wanted)}"
    elif last and (not member or (heard.coming and not heard.joined)):
        why = f"{NOT_JOINED}: {ending}"
    else:
        return ""
    if member and _send(environment, "gone", str(index)).error:
        return ""  # others may be waiting for it
    return why


def leave_word(word: str) -> None:
    """Tells the cluster how this pod has ended, where it asked to be told."""
    with contextlib.suppress(OSError):
        place = Path(ENDED)
        if place.exists():
            place.write_text(word, encoding="utf-8")


def _ask(environment: Mapping[str, str]) -> Said:
    """Who the job's workers are. An error also where their number cannot change."""
    # Without an input it tells once.
    told = _send(environment, "watch")
    return _send(environment, "watch") if told.error else told


def _send(environment: Mapping[str, str], *words: str) -> Said:
    try:
        envoy = Envoy({**environment, config.TIMEOUT: f"{_TELL_SECONDS:g}"}, *words)
    except OSError as error:
        return Said(error=str(error))
    until = time.monotonic() + 2 * _TELL_SECONDS
    while (said := envoy.said()) is None:
        if time.monotonic() > until:
            envoy.close()
            return Said(error="the servers did not answer")
        time.sleep(_LOOK)
    return said
