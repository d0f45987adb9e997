"""What one host of several does as it hears of other numbers of workers: in whatever order it hears things."""

import pytest

from flota.launch.envoys import Said
from flota.launch.following import Following


class Watch:
    def __init__(self):
        self.told, self.status, self.away_for = Said(), None, 0.0

    def close(self):
        self.status = -9


class Envoy:
    """Comes back when the test says with what."""

    def __init__(self, words):
        self.words, self.answer = words, None

    def said(self):
        return self.answer

    def close(self):
        pass


class Place:
    """The second of two hosts: it has the workers of odd numbers."""

    def __init__(self, workers):
        self.workers = workers
        self.watches, self.envoys, self.left, self.have_joined = [], [], set(), set()
        self.running = {index for index in range(workers) if self.is_here(index)}
        self.indices = set(self.running)
        self.takes_workers = True

    def is_here(self, index):
        return index % 2 == 1

    def set_workers(self, workers):
        self.workers = workers

    def start_worker(self, index):
        assert self.is_here(index)
        assert index not in self.running
        self.left.discard(index)
        self.indices.add(index)
        self.running.add(index)
        return ""

    def ask_to_leave(self, index):
        assert self.is_here(index)

    def runs(self, index):
        return index in self.running

    def joined(self, index):
        return index in self.have_joined

    def said_goodbye(self, index):
        return index in self.left

    def send_envoy(self, *words):
        self.envoys.append(Envoy(words))
        return self.envoys[-1]

    def send_watch(self):
        self.watches.append(Watch())
        return self.watches[-1]

    def leave(self, index):
        self.running.discard(index)
        self.left.add(index)


class Changes:
    def update(self):
        pass

    def close(self):
        pass


@pytest.fixture
def host():
    """(what is tested, its place, and what tells it something)."""
    place = Place(2)
    following = Following(place, Changes())
    following.update()

    def hear(workers, wanted, version, error=""):
        place.watches[-1].told = Said(error, workers, wanted, version)
        following.update()

    hear(2, 2, 0)
    return following, place, hear


def test_it_starts_its_own_of_those_that_come_and_sees_off_its_own_of_those_that_go(host):
    following, place, hear = host
    hear(2, 6, 1)
    following.update()
    assert place.running == {1, 3, 5}
    place.have_joined |= {3, 5}
    hear(6, 1, 6)
    assert place.running == {1, 3, 5}, "they end by themselves"
    assert following.leaves(3)
    place.leave(1)
    place.leave(3)
    place.running.discard(5)  # killed: its goodbye is said for it
    following.update()
    following.update()
    assert [envoy.words for envoy in place.envoys] == [("gone", "5")]
    assert following.idles(30)
    place.watches[-1].away_for = 31
    assert not following.idles(30)


def test_a_worker_that_was_given_up_comes_when_somebody_asks_anew_and_not_before(host):
    following, place, hear = host
    hear(2, 4, 1)
    place.running.discard(3)
    assert "worker 3 could not join" in following.give_up(3, "it ended")
    following.update()
    place.envoys[0].answer = Said(workers=2, wanted=4, version=1)  # gone
    following.update()
    following.update()
    assert place.envoys[1].words == ("without", "3")
    # Server 0 has heard of it, and then of another command, before its answer is here.
    hear(2, 4, 3)
    assert place.running == {1}
    place.envoys[1].answer = Said(workers=2, wanted=3, version=2)
    following.update()
    following.update()
    assert place.running == {1, 3}


def test_one_that_was_given_up_stays_away_while_nobody_asks(host):
    following, place, hear = host
    hear(2, 4, 1)
    place.running.discard(3)
    following.give_up(3, "it ended")
    for _ in range(3):
        following.update()
        for envoy in place.envoys:
            envoy.answer = Said(workers=2, wanted=3, version=2)
    assert place.running == {1}
    hear(2, 3, 2)
    hear(3, 3, 3)
    assert place.running == {1}
    assert place.workers == 3


def test_one_that_left_before_its_host_heard_of_it_comes_again_where_it_is_still_wanted(host, monkeypatch):
    following, place, hear = host
    place.leave(1)  # server 0 was told 1, and then 2 again
    following.update()
    assert place.running == set()
    now = following._left[1]
    monkeypatch.setattr("time.monotonic", lambda: now + 3)
    hear(1, 2, 3)
    assert place.running == {1}


def test_one_that_left_before_its_host_heard_of_it_stays_away_where_it_is_not(host, monkeypatch):
    following, place, hear = host
    place.leave(1)
    following.update()
    now = following._left[1]
    hear(1, 1, 2)
    monkeypatch.setattr("time.monotonic", lambda: now + 3)
    following.update()
    assert place.running == set()
    assert not place.envoys
    assert following.idles(30)


def test_a_worker_of_a_launch_before_this_one_that_was_to_leave_is_seen_off_once(host):
    _, place, hear = host
    hear(4, 2, 5)
    assert [envoy.words for envoy in place.envoys] == [("gone", "3")]
    place.envoys[0].answer = Said(workers=4, wanted=2, version=6)
    hear(4, 2, 6)
    hear(5, 2, 7)
    assert len(place.envoys) == 1


def test_a_server_that_is_away_changes_nothing_and_a_watch_that_was_killed_is_replaced(host, monkeypatch):
    following, place, hear = host
    hear(2, 4, 1)
    hear(2, 4, 1, error="no answer")
    assert place.workers == 4
    place.watches[-1].status = -9
    following.update()
    later = following._next_watch + 1
    monkeypatch.setattr("time.monotonic", lambda: later)
    following.update()
    assert len(place.watches) == 2
    hear(4, 2, 4)
    assert place.workers == 2
    place.watches[-1].status = 0  # the number is fixed
    monkeypatch.setattr("time.monotonic", lambda: later + 60)
    following.update()
    following.update()
    assert len(place.watches) == 2


def test_what_server_0_could_not_be_told_is_told_again(host, monkeypatch):
    following, place, hear = host
    hear(2, 4, 1)
    place.running.discard(3)
    following.give_up(3, "it ended")
    following.update()
    place.envoys[0].answer = Said(workers=2, wanted=4, version=1)
    following.update()
    following.update()
    place.envoys[1].answer = Said(error="no answer")
    following.update()
    following.update()
    assert len(place.envoys) == 2
    later = following._later[0][0]
    monkeypatch.setattr("time.monotonic", lambda: later)
    following.update()
    assert place.envoys[2].words == ("without", "3")
