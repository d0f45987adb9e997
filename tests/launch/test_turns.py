"""Which host a further worker goes to: all hosts come to the same by themselves."""

import os

import pytest
from launched import JOB_NAMES

from flota.launch.arguments import parse
from flota.launch.plan import make_plan
from flota.launch.turns import host_of, takes_workers, with_workers

HERE, THERE = "127.0.0.1", "10.255.255.1"  # the other is no host's here


@pytest.fixture(autouse=True)
def no_job_around(monkeypatch):
    for name in [name for name in os.environ if name.startswith(JOB_NAMES)]:
        monkeypatch.delenv(name)


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "train.py").touch()
    return lambda *flags: make_plan(parse([*flags, str(tmp_path / "train.py")], "flota launch"))


def texts(plan):
    return [str(endpoint) for endpoint in plan.workers]


def here(plan):
    return [member.index for member in plan.members if member.role == "worker"]


def test_numbers_and_hosts_go_on_as_they_began(plan):
    flags = [f"--ips={HERE},{THERE}", "--server_num=2"]
    grown = with_workers(plan(*flags, "--worker_num=2"), 5)
    began = plan(*flags, "--worker_num=5")
    assert [endpoint.rpartition(":")[0] for endpoint in texts(grown)] == [
        endpoint.rpartition(":")[0] for endpoint in texts(began)
    ]
    assert here(grown) == here(began) == [0, 2, 4]
    assert len({*grown.workers, *grown.servers, grown.rendezvous}) == 8


def test_it_makes_no_difference_what_came_and_went_before(plan):
    lists = [f"--servers={HERE}:7000", f"--workers={HERE}:7001,{HERE}:7002,{THERE}:7001"]
    began = plan(*lists)
    at_once = with_workers(began, 7)
    assert texts(with_workers(with_workers(with_workers(began, 1), 5), 7)) == texts(at_once)
    assert texts(at_once)[:3] == texts(began)
    assert [host_of(began, i) for i in range(3, 7)] == [THERE, HERE, THERE, HERE]
    assert here(at_once) == [0, 1, 4, 6]
    assert texts(with_workers(at_once, 3)) == texts(began)


def test_a_host_of_servers_alone_takes_workers_if_it_was_named_for_that(plan):
    lists = [f"--servers={HERE}:7000", f"--workers={THERE}:7001"]
    assert not takes_workers(plan(*lists))
    assert here(with_workers(plan(*lists), 4)) == []
    named = [*lists, f"--ips={HERE},{THERE}"]
    assert takes_workers(plan(*named))
    assert here(with_workers(plan(*named), 4)) == [2]


def test_all_workers_of_a_host_may_go_and_come_again(plan):
    began = plan(f"--servers={THERE}:7000", f"--workers={THERE}:7001,{HERE}:7001", "--gpus=0,1")
    gone = with_workers(began, 1)
    assert here(gone) == []
    again = with_workers(gone, 4)
    assert [(member.index, member.device) for member in again.members] == [(1, "0"), (3, "1")]


def test_ports_are_found_also_at_the_end_of_their_range(plan):
    began = plan(f"--servers={HERE}:7000", f"--workers={HERE}:65534,{THERE}:65535")
    grown = with_workers(began, 5)
    assert len(set(grown.workers)) == 5
    assert all(0 < endpoint.port <= 65535 for endpoint in grown.workers)
