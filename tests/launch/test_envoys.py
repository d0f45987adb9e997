"""Envoys that stay: one that watches who the workers are, one that asks for another number and tells how it goes on."""

import contextlib

import pytest

from flota import _core
from flota._core import TeamMode, TeamPart
from flota.launch.environment import asking_environment
from flota.launch.envoys import Change, Watch
from flota.launch.hosts import parse_endpoints
from waiting import wait_until

SECRET = "0123456789abcdef0123456789abcdef"


class Job:
    """Server 0 and, as far as it can tell, workers."""

    def __init__(self, endpoint="127.0.0.1:0"):
        options = _core.ServerOptions()
        options.endpoint, options.secret = endpoint, SECRET
        self.server = _core.Server.start(options)
        self.endpoint = f"127.0.0.1:{self.server.port}"
        client = _core.ClientOptions()
        client.endpoints, client.secret = [self.endpoint], SECRET
        self._client = _core.Client.connect(client, 10_000)

    def join(self, worker, of, mode=TeamMode.asynchronous):
        self._client.team(TeamPart.join, 10_000, worker, of, mode)

    def leave(self, worker):
        self._client.team(TeamPart.leave, 10_000, worker)

    def scale(self, workers):
        self._client.team(TeamPart.scale, 10_000, workers=workers)

    def wanted(self):
        return self._client.team(TeamPart.ask, 10_000).wanted

    def stop(self):
        self._client.close()
        self.server.stop()

    @property
    def environment(self):
        servers = parse_endpoints("--servers", self.endpoint, 1)
        return {**asking_environment(servers), "FLOTA_SECRET": SECRET, "FLOTA_TIMEOUT": "5"}


@pytest.fixture
def job():
    job = Job()
    yield job
    job.stop()


@pytest.fixture
def watch(job):
    with contextlib.closing(Watch(job.environment)) as watch:
        yield watch


def answers_of(change, count):
    found = []
    wait_until(lambda: found.extend(change.answers()) or len(found) >= count, timeout=30)
    return found


def test_a_watch_tells_of_every_change_and_when_the_server_is_away(job, watch):
    assert watch.told.wanted == 0
    job.join(0, of=2)
    wait_until(lambda: (watch.told.workers, watch.told.wanted) == (2, 2), timeout=30)
    assert watch.away_for == 0
    # There and back between two looks is a change, too.
    before = watch.told.version
    job.scale(4)
    job.scale(2)
    wait_until(lambda: watch.told.version == before + 2, timeout=30)
    assert (watch.told.workers, watch.told.wanted) == (2, 2)
    job.stop()
    wait_until(lambda: watch.away_for > 0, timeout=30)
    assert watch.told.error
    assert watch.told.wanted == 2, "what was heard last"
    again = Job(job.endpoint)
    again.join(0, of=3)
    wait_until(lambda: not watch.told.error and watch.told.wanted == 3, timeout=30)
    assert watch.away_for == 0
    again.stop()


def test_a_watch_ends_with_who_had_it_and_where_the_number_is_fixed(job, watch):
    with contextlib.closing(Watch(job.environment)) as other:
        wait_until(lambda: other._process.poll() is None, timeout=30)
        other._process.stdin.close()
        wait_until(lambda: other.status == 0, timeout=30)
    job.join(0, of=2, mode=TeamMode.synchronous)
    wait_until(lambda: watch.status == 0, timeout=30)
    assert watch.told.wanted == 0


def test_a_change_tells_who_comes_and_who_goes(job):
    job.join(0, of=1)
    with contextlib.closing(Change(job.environment, 3, 60)) as change:
        wait_until(lambda: job.wanted() == 3, timeout=30)
        job.join(1, of=3)
        job.join(2, of=3)
        lines = ["worker 1 has joined", "worker 2 has joined"]
        assert answers_of(change, 3) == [
            *({"say": line} for line in lines),
            {"end": "3 workers (1 before)", "done": True},
        ]
        assert change.over
    with contextlib.closing(Change(job.environment, 1, 60)) as change:
        assert answers_of(change, 1) == [{"say": "workers 1, 2 will leave after the batch at hand"}]
        job.leave(1)
        job.leave(2)
        lines = ["worker 2 has left", "worker 1 has left"]
        assert answers_of(change, 3) == [
            *({"say": line} for line in lines),
            {"end": "1 worker (3 before)", "done": True},
        ]


def test_a_change_that_is_overruled_or_takes_too_long_says_so(job):
    job.join(0, of=1)
    with contextlib.closing(Change(job.environment, 3, 60)) as change:
        wait_until(lambda: job.wanted() == 3, timeout=30)
        job.scale(2)
        (answer,) = answers_of(change, 1)
        assert not answer["done"]
        assert answer["end"] == (
            "the job is to have 2 workers now: another command asks for that, or worker 2 could not join: its launch "
            "and its log say why"
        )
    with contextlib.closing(Change(job.environment, 3, 0.1)) as change:
        assert answers_of(change, 1) == [{"end": "no worker has come or gone for 0.1 s; it goes on", "done": False}]
        assert job.wanted() == 3


def test_a_change_that_cannot_be_says_why(job):
    with contextlib.closing(Change(job.environment, 3, 60)) as change:
        assert "no worker has joined the job yet" in answers_of(change, 1)[0]["end"]
    with contextlib.closing(Change({**job.environment, "FLOTA_SECRET": SECRET[::-1]}, 3, 60)) as change:
        assert "the servers cannot be asked from" in answers_of(change, 1)[0]["end"]
    with contextlib.closing(Change(job.environment, 3, 60)) as change:
        change._process.kill()
        assert answers_of(change, 1) == [{"end": "the servers could not be asked: exit status -9", "done": False}]
