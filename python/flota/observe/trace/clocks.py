"""Workers' times on one clock.

Server 0 knows how long ago a note came, and the note says when it was sent by its host's clock; so it is known how far
that clock is from ours, up to the time that notes travel. Where two hosts' clocks agree up to that, they are taken as
they are: what keeps clocks together (NTP) knows better. Workers of one host have one clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flota.observe.trace.notes import WorkerTrace


@dataclass(frozen=True)
class Heard:
    """A trace, when server 0 got it by this host's clock, and how many seconds wrong that may be."""

    trace: WorkerTrace
    arrived: float
    within: float


@dataclass(frozen=True)
class Clocks:
    shift: dict[int, float]  # by worker: seconds to be added to its times
    within: float  # seconds; how exact times of different hosts are to each other. 0: there is one host
    wrong: dict[str, float]  # hosts whose clocks are ahead of the first one's by so many seconds, and are put right


def align(heard: Iterable[Heard]) -> Clocks:
    by_host: dict[str, Heard] = {}
    found = sorted(heard, key=lambda each: each.trace.worker)
    for each in found:
        best = by_host.get(each.trace.host)
        if best is None or _doubt(each) < _doubt(best):
            by_host[each.trace.host] = each
    if len(by_host) < 2:
        return Clocks({each.trace.worker: 0.0 for each in found}, 0.0, {})
    first = by_host[found[0].trace.host]
    wrong, within = {}, 0.0
    for host, each in by_host.items():
        if each is first:
            continue
        doubt = _doubt(each) + _doubt(first)
        within = max(within, doubt)
        ahead = (each.trace.posted - each.arrived) - (first.trace.posted - first.arrived)
        if abs(ahead) > doubt:
            wrong[host] = ahead
    return Clocks({each.trace.worker: -wrong.get(each.trace.host, 0.0) for each in found}, within, wrong)


def _doubt(heard: Heard) -> float:
    return heard.within + max(heard.trace.trip, 0.0)
