"""Leases: each shard of an epoch is one worker's at a time, with servers and without."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from test_interrupts import press_ctrl_c_after

from flota import Client, _core
from flota._core import SHARD_DONE, SHARD_RELEASED, LeaseOutcome
from flota.errors import InvalidArgument, StaleEpoch
from flota.testing import LocalCluster

Ask = Callable[..., tuple[LeaseOutcome, int, int, int, list[int]]]


def asking(lease: Ask, name: str) -> Ask:
    """Numbers the calls, and has a default for everything."""
    calls = iter(range(1, 1 << 30))

    def ask(**options: Any) -> tuple[LeaseOutcome, int, int, int, list[int]]:
        defaults = {
            "pass_": name,
            "epoch": 0,
            "shards": 4,
            "rank": 0,
            "world": 8,
            "ttl_ms": 60_000,
            "first": 0,
            "stride": 1,
        }
        defaults |= {"take": True, "progress": [], "time_ms": 20_000, "call": next(calls)}
        return lease(**(defaults | options))

    return ask


@pytest.fixture(params=["servers", "alone"])
def ask(request: pytest.FixtureRequest, name: str) -> Iterator[Ask]:
    if request.param == "alone":
        yield asking(_core.Leases().lease, name)
        return
    cluster = request.getfixturevalue("cluster")
    with Client(cluster.endpoints, secret=cluster.secret) as client:
        yield asking(client.native.lease, name)


def test_shards_go_from_free_to_done(ask):
    assert ask() == (LeaseOutcome.granted, 0, 0, 4, [])
    assert ask(rank=1) == (LeaseOutcome.granted, 1, 0, 4, [])
    assert ask(take=False, progress=[(0, 10, 0)]) == (LeaseOutcome.noted, 0, 0, 4, [])
    assert ask(progress=[(0, 20, SHARD_DONE)]) == (LeaseOutcome.granted, 2, 0, 3, [])
    assert ask(rank=2, take=False, progress=[(1, 7, 0)])[4] == [1]
    assert ask(rank=1, take=False, progress=[(1, 5, SHARD_RELEASED)])[0] == LeaseOutcome.noted
    assert ask() == (LeaseOutcome.granted, 1, 7, 3, [])
    done = [(shard, 20, SHARD_DONE) for shard in (1, 2, 3)]
    assert ask(take=False, progress=done)[3] == 0
    assert ask() == (LeaseOutcome.over, 0, 0, 0, [])
    assert ask(epoch=1)[0] == LeaseOutcome.granted


def test_the_same_call_gives_the_same_shard(ask):
    assert ask(call=1 << 40)[1] == ask(call=1 << 40)[1] == 0
    assert ask()[1] == 1


def test_who_waits_is_given_what_comes_free(ask):
    assert ask(shards=1)[1] == 0
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, shards=1, rank=1)
        ask(shards=1, take=False, progress=[(0, 3, SHARD_RELEASED)])
        assert waiting.result() == (LeaseOutcome.granted, 0, 3, 1, [])


def test_none_came_free_is_no_error(ask):
    ask(shards=1)
    assert ask(shards=1, rank=1, time_ms=1000)[0] == LeaseOutcome.none


def test_what_is_not_renewed_goes_to_others(ask):
    ask(shards=1, ttl_ms=100)
    assert ask(shards=1, rank=1)[0] == LeaseOutcome.granted


def test_many_workers_train_each_shard_once(ask):
    trained: list[int] = []

    def work(rank: int) -> None:
        progress: list[tuple[int, int, int]] = []
        while (reply := ask(shards=40, rank=rank, progress=progress))[0] == LeaseOutcome.granted:
            trained.append(reply[1])
            progress = [(reply[1], 1, SHARD_DONE)]
        assert reply[0] == LeaseOutcome.over

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert sorted(trained) == list(range(40))


@pytest.mark.parametrize(
    "wrong",
    [
        {"pass_": ""},
        {"shards": 0},
        {"rank": 8},
        {"ttl_ms": 99},
        {"stride": 0},
        {"first": 1},
        {"progress": [(4, 0, 0)]},
        {"progress": [(0, 0, 8)]},
    ],
    ids=str,
)
def test_a_question_that_cannot_be_is_refused(ask, wrong):
    with pytest.raises(InvalidArgument):
        ask(**wrong)


def test_workers_must_agree_about_the_number_of_shards(ask):
    ask()
    with pytest.raises(InvalidArgument, match="worker 1 says there are 5 shards, others say 4"):
        ask(rank=1, shards=5)


def test_a_person_can_end_the_wait(ask):
    ask(shards=1)
    timer = press_ctrl_c_after(0.3)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ask(shards=1, rank=1)
    assert time.monotonic() - began < 5
    timer.join()


def test_other_threads_run_while_one_waits():
    leases = _core.Leases()
    ask = asking(leases.lease, "data")
    ask(shards=1)
    waiting = threading.Thread(target=ask, kwargs={"shards": 1, "rank": 1, "time_ms": 500})
    waiting.start()
    assert ask(shards=1, take=False, progress=[(0, 1, 0)])[0] == LeaseOutcome.noted
    assert len(leases.states()) == 1
    waiting.join()


def test_a_restarted_worker_takes_its_own_place(cluster, name):
    connect = lambda epoch: Client(cluster.endpoints, secret=cluster.secret, epoch=epoch)  # noqa: E731
    with connect(1) as old, connect(2) as new:
        asked = asking(old.native.lease, name)
        assert asked()[1] == 0
        assert asking(new.native.lease, name)()[1] == 0
        with pytest.raises(StaleEpoch, match="incarnation 2 has taken the place of 1"):
            asked()
    leases = _core.Leases()
    alone = asking(leases.lease, name)
    assert alone(incarnation=1)[1] == alone(incarnation=2)[1] == 0
    with pytest.raises(StaleEpoch):
        alone()


def test_states_go_from_one_job_to_another(name):
    alone = _core.Leases()
    ask = asking(alone.lease, "train")
    ask(shards=10, progress=[(0, 5, SHARD_DONE), (1, 5, SHARD_DONE), (4, 3, 0)])
    asking(alone.lease, "eval")(shards=1, progress=[(0, 1, SHARD_DONE)])
    states = alone.states()
    assert states == [("eval", 0, 0, 1, [], []), ("train", 0, 10, 0, [(0, 2)], [(4, 3)])]
    with LocalCluster(servers=1) as cluster, Client(cluster.endpoints, secret=cluster.secret) as client:
        assert client.native.lease_states(20_000) == []
        client.native.restore_leases(states, 20_000)
        assert client.native.lease_states(20_000) == states
        assert asking(client.native.lease, "train")(shards=10, first=4, stride=5)[1:3] == (4, 3)
        with pytest.raises(InvalidArgument):
            client.native.restore_leases([("train", 0, 2, 0, [(0, 3)], [])], 20_000)
    with pytest.raises(InvalidArgument):
        alone.restore([("train", 0, 2, 0, [(0, 3)], [])])
    alone.restore([])
    assert alone.states() == []
