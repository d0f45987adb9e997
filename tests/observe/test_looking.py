"""What somebody who looks on sees of a job."""

import json
import time

import numpy as np
import pytest

from flota import _core, config
from flota._core import Topic
from flota.observe.looking import Looker, quantile
from flota.rules import SGD
from flota.testing import LocalCluster
from waiting import wait_until


@pytest.fixture
def cluster():
    with LocalCluster(2) as started:
        yield started


def looker(cluster, **settings):
    return Looker(cluster.endpoints, secret=cluster.secret, **settings)


def pulls_of(sight):
    return [server.requests["pull"].count if "pull" in server.requests else 0 for server in sight.servers]


def test_servers_tell_their_tables_and_how_fast_they_answer(cluster):
    client = cluster.client()
    table = client.create_sparse_table("users", dim=4, rule=SGD(lr=1.0))
    looks = looker(cluster)
    keys = np.arange(20_000)
    table.pull(keys)
    wait_until(lambda: pulls_of(looks.look()) == [1, 1])
    for _ in range(5):
        table.pull(keys)
    # A server counts a request when it has answered it: the client may be here sooner.
    other = looker(cluster)
    wait_until(lambda: pulls_of(other.look()) == [6, 6])
    sight = looks.look()
    assert [server.alive for server in sight.servers] == [True, True]
    assert sum(server.rows for server in sight.servers) == 20_000
    for server in sight.servers:
        pulls = server.requests["pull"]
        assert pulls.count == 6
        assert pulls.per_second > 0
        assert 0 < pulls.p50 <= pulls.p99 < 10
        assert pulls.bytes_out_per_second > 5 * 8_000 * 16 / 60
        (users,) = server.tables
        assert (users.name, users.sparse) == ("users", True)
        assert users.sampled > 50
        assert len(users.shards) == 1024
        assert sum(users.shards) == users.sampled
        assert server.memory_bytes > 1 << 20


def test_a_server_that_is_away_is_named_and_the_others_are_seen(cluster):
    looks = looker(cluster, timeout=1.0)
    looks.look()
    cluster.crash(1)
    sight = looks.look()
    assert sight.servers[0].alive
    assert not sight.servers[1].alive
    assert "server 1" in sight.servers[1].error
    cluster.restart(1)
    deadline = time.monotonic() + 30
    while not (sight := looks.look()).servers[1].alive:
        assert time.monotonic() < deadline, sight.servers[1].error
    assert sight.servers[1].uptime < 30


def test_workers_are_seen_by_what_they_post_and_when(cluster):
    client = cluster.client()
    looks = looker(cluster)
    for index in (1, 0):
        client.native.post(Topic.state, index, json.dumps({"step": index + 5, "samples": 1}).encode(), 0, 1000)
    sight = looks.look()
    assert [(worker.index, worker.note["step"]) for worker in sight.workers] == [(0, 5), (1, 6)]
    assert all(worker.age < 20 for worker in sight.workers)
    client.native.post(Topic.state, 1, b'{"step": 9, "loss": 0.5, "samples": 3}', 0, 1000)
    client.native.post(Topic.state, 0, b"no JSON", 0, 1000)
    sight = looks.look()
    assert [(worker.index, worker.note["step"]) for worker in sight.workers] == [(0, 5), (1, 9)]
    assert sight.metric("loss") == 0.5
    assert sight.metric("auc") is None


def test_notes_are_seen_again_after_server_0_was_restarted(cluster):
    looks = looker(cluster)
    with cluster.client() as client:
        for step in range(20):
            client.native.post(Topic.state, 0, json.dumps({"step": step}).encode(), 0, 1000)
    looks.look()
    cluster.crash(0)
    cluster.restart(0)
    with cluster.client() as client:
        client.native.post(Topic.state, 0, b'{"step": 100}', 0, 10_000)
        deadline = time.monotonic() + 30
        while looks.look().workers[0].note["step"] != 100:
            assert time.monotonic() < deadline


def test_who_does_not_know_the_secret_sees_nothing(cluster):
    looks = Looker(cluster.endpoints, secret="f" * 64, timeout=2.0)
    sight = looks.look()
    assert not any(server.alive for server in sight.servers)
    assert sight.workers == []


def test_a_quantile_is_at_most_a_fifth_too_high():
    begins = _core.bucket_begins()
    assert begins[0] == 0.0
    assert quantile({}, 0.5) is None
    counts = {}
    for micro in range(1, 1001):
        bucket = max(i for i, begin in enumerate(begins) if begin <= micro * 1e-6)
        counts[bucket] = counts.get(bucket, 0) + 1
    assert 500e-6 <= quantile(counts, 0.5) <= 500e-6 * 1.26
    assert 990e-6 <= quantile(counts, 0.99) <= 990e-6 * 1.26


def test_looking_on_may_be_switched_off(monkeypatch):
    assert config.observed()
    monkeypatch.setenv("FLOTA_OBSERVE", "0")
    assert not config.observed()
