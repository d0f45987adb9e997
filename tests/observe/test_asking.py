"""Traces that are gathered from workers, some of which have other clocks, say nonsense, or do not answer."""

import json
import threading
import time

import pytest

from flota._core import Topic
from flota.errors import InvalidArgument, ServerUnavailable
from flota.observe.trace.asking import gather
from flota.observe.trace.clocks import align
from flota.testing import LocalCluster


@pytest.fixture
def cluster(monkeypatch):
    with LocalCluster(1) as started:
        monkeypatch.setenv("FLOTA_SECRET", started.secret)
        yield started


class Worker:
    """Posts how it does, and answers a wish with what ``answer`` makes of it."""

    def __init__(self, cluster, index, answer, ahead=0.0, **note):
        self._client = cluster.client()
        self._index = index
        self._answer = answer
        self._ahead = ahead
        self._note = {"phase": "training", "step": 5, **note}
        self._known = 0
        self.over = threading.Event()
        self._post(Topic.state, self._note)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _post(self, topic, note):
        text = note if isinstance(note, bytes) else json.dumps(note).encode()
        return self._client.native.post(topic, self._index, text, self._known, 5000)

    def _run(self):
        while not self.over.wait(0.05):
            reply = self._post(Topic.state, self._note)
            if reply.wish_version != self._known:
                self._known = reply.wish_version
                note = self._answer(json.loads(reply.wish)["trace"], time.time() + self._ahead)
                if note is not None:
                    self._post(Topic.trace, note)

    def end(self):
        self.over.set()
        self.thread.join(30)
        self._client.close()


@pytest.fixture
def begin(cluster):
    begun = []

    def begin(index, answer, **settings):
        begun.append(Worker(cluster, index, answer, **settings))
        return begun[-1]

    yield begin
    for worker in begun:
        worker.end()


def good(host="node1"):
    return lambda asked, now: {
        "id": asked["id"], "pid": 1, "host": host, "mode": "sync", "steps": 1, "asked": asked["steps"], "step": 9,
        "began": now - 1.0, "posted": now, "trip": 0.001, "missed": 0, "threads": ["MainThread"],
        "events": [["step", 0, 100, 0], ["pull", 10, 20, 0]],
    }  # fmt: skip


def test_answers_are_gathered_and_clocks_that_are_wrong_put_right(cluster, begin):
    begin(0, good("node1"))
    begin(1, good("node2"), ahead=100.0)
    found = gather(cluster.endpoints, 3, None, 30.0, 2.0)
    assert (sorted(found.heard), found.missing) == ([0, 1], {})
    clocks = align(found.heard.values())
    assert clocks.shift[0] == 0.0
    assert abs(clocks.shift[1] + 100.0) <= clocks.within
    assert 0 < clocks.within < 50


@pytest.mark.parametrize("answer", [b"no JSON", b"{}", b"[1]", {"id": 5}, {"events": "many"}, None])
def test_who_says_nonsense_is_named_and_the_others_are_heard(cluster, begin, answer):
    begin(0, good())
    begin(1, lambda asked, now: {**good()(asked, now), **answer} if isinstance(answer, dict) else answer)
    found = gather(cluster.endpoints, 3, None, 3.0, 2.0)
    assert list(found.heard) == [0]
    assert "it made no step in this time: it is at step 5 (training)" in found.missing[1]


def test_a_trace_for_somebody_else_is_no_answer(cluster, begin):
    begin(0, lambda asked, now: {**good()(asked, now), "id": "another"})
    assert gather(cluster.endpoints, 3, None, 2.5, 2.0).heard == {}


def test_nobody_waits_for_a_worker_that_has_finished(cluster, begin):
    begin(0, good())
    begin(1, lambda asked, now: None, phase="finished")
    began = time.monotonic()
    found = gather(cluster.endpoints, 3, [0, 1], 60.0, 2.0)
    assert time.monotonic() - began < 30
    assert list(found.heard) == [0]
    assert found.missing == {1: "it has finished"}


def test_of_many_workers_the_first_are_asked_unless_they_are_named(cluster, begin):
    begin(0, good())
    begin(1, good())
    client = cluster.client()
    for index in range(2, 40):
        client.native.post(Topic.state, index, b'{"phase": "training", "step": 1}', 0, 5000)
    found = gather(cluster.endpoints, 3, None, 1.0, 2.0)
    assert (found.asked, found.unasked) == (list(range(16)), 24)
    assert gather(cluster.endpoints, 3, [1], 30.0, 2.0).asked == [1]


def test_a_job_without_workers_or_servers_is_told_so(cluster):
    with pytest.raises(InvalidArgument, match="no worker of this job is there"):
        gather(cluster.endpoints, 3, None, 5.0, 2.0)
    with pytest.raises(InvalidArgument, match="worker 3 has told nothing: those that have are none"):
        gather(cluster.endpoints, 3, [3], 5.0, 2.0)
    cluster.crash(0)
    with pytest.raises(ServerUnavailable, match="server 0"):
        gather(cluster.endpoints, 3, None, 5.0, 1.0)
