"""Who gets which seat on Ray, and what workers are called that are nowhere yet. No cluster is needed."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from flota.launch.arguments import parse
from flota.launch.hosts import Endpoint
from flota.launch.plan import Member, Plan

pytest.importorskip("ray", reason="Ray is not installed (make setup installs it)")

from flota.launch.ray.crew import RayCrew
from flota.launch.ray.placing import with_workers
from flota.launch.ray.process import RayProcess


@dataclass
class Sought:
    seat: str
    has_answered: bool = False
    for_any: bool = True
    waited: float = 0.0
    told: bool = False


def worker(index: int, sought: Sought) -> RayProcess:
    process = RayProcess(
        Member("worker", index, Endpoint("10.0.0.1", 20_000 + index)), Path("log"), 0, asks={}, kept="", wait=1.0,
        check=lambda *_: None, endpoints=list, take_report=lambda *_: None, is_confirmed=lambda: True,
    )  # fmt: skip
    process.seek(sought)
    return process


def seats_of(*workers: RayProcess) -> list[str]:
    crew = RayCrew.__new__(RayCrew)
    crew.processes = list(workers)
    crew.share_out()
    return [process.seat for process in workers]


def test_what_is_found_goes_to_the_lowest_worker_that_waits():
    late, early = worker(7, Sought("a", has_answered=True)), worker(3, Sought("b"))
    assert seats_of(late, early, worker(5, Sought("c"))) == ["c", "a", "b"]
    assert early.waiting


def test_what_is_set_aside_for_one_worker_is_no_others():
    own = worker(7, Sought("a", has_answered=True, for_any=False))
    assert seats_of(own, worker(3, Sought("b"))) == ["a", "b"]


def test_workers_that_are_nowhere_yet_have_names_of_their_own():
    servers = [Endpoint("10.0.0.1", 20_000), Endpoint("10.0.0.2", 20_001)]
    workers = [Endpoint("10.0.0.1", 20_002), Endpoint("10.0.0.2", 20_004)]
    arguments = parse([__file__], "flota launch")
    plan = Plan(servers, workers, [], Endpoint("10.0.0.1", 20_003), True, arguments, [])
    more = with_workers(plan, 5)
    assert more.workers[:2] == workers
    assert len({*more.servers, *more.workers, more.rendezvous}) == 8
    assert [member.name for member in more.members[2:]] == [f"worker {i}" for i in range(5)]
    assert more.arguments.worker_num == 5
    fewer = with_workers(more, 1)
    assert fewer.workers == workers[:1]
    assert [member.name for member in fewer.members] == ["server 0", "server 1", "worker 0"]
