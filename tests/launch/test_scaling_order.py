"""What a change of the number of workers asks for, and in which order, of whatever runs them."""

import pytest

from flota.launch.envoys import Said
from flota.launch.scaling import Scaling


class Place:
    """Workers that come when they are told to, and an envoy that is back at once."""

    def __init__(self):
        self.workers = self.wanted = 1
        self.told = []
        self.started = []
        self.there = {0}

    def set_workers(self, workers):
        self.workers = workers

    def start_worker(self, index):
        self.started.append(index)
        return f"worker {index} is started"

    def ask_to_leave(self, index):
        self.there.discard(index)

    def runs(self, index):
        return index in self.there

    joined = runs

    def said_goodbye(self, index):
        return True

    def send_envoy(self, *words):
        self.told.append(words)
        word, number = words
        if word in ("scale", "without"):
            self.wanted = int(number) if word == "scale" else min(self.wanted, int(number))
        return self

    def said(self):
        return Said(workers=len(self.there), wanted=self.wanted)

    def close(self): ...


class Answer:
    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)

    def end(self, line, *, done):
        self.lines.append((done, line))


@pytest.mark.parametrize("order", [(2, 3), (3, 2)])
def test_of_several_workers_that_cannot_join_the_lowest_says_how_many_are_left(order):
    place, answer = Place(), Answer()
    scaling = Scaling(place)
    scaling.ask(4, answer)
    for _ in range(3):
        scaling.update()
    assert place.started == [1, 2, 3]
    place.there.add(1)
    scaling.update()
    told = [scaling.give_up(index, "no room") for index in order]
    assert told[-1].endswith("the job goes on with 2 workers")
    assert all(scaling.give_up(index, "no room") == "" for index in order)
    for _ in range(10):
        scaling.update()
    assert place.started == [1, 2, 3], "nobody is started again"
    assert sorted(place.told[1:3]) == [("gone", "2"), ("gone", "3")]
    assert sorted(place.told[3:]) == [("without", "2"), ("without", "3")]
    assert place.workers == 2
    assert (False, told[0]) in answer.lines


def test_a_worker_that_a_later_change_does_without_has_not_failed():
    """Server 0 hears of that change first, and sends the worker away."""
    place, first, later = Place(), Answer(), Answer()
    scaling = Scaling(place)
    scaling.ask(3, first)
    for _ in range(3):
        scaling.update()
    assert place.started == [1, 2]
    place.there.add(1)
    scaling.ask(2, later)
    scaling.update()
    assert place.told[-1] == ("scale", "2")
    assert scaling.give_up(2, "it ended with exit status 1") == ""
    assert first.lines[-1] == (False, "another command asks for 2 workers: that holds")
    for _ in range(10):
        scaling.update()
    assert later.lines[-1] == (True, "2 workers (3 before)")
    assert (place.workers, place.started) == (2, [1, 2])
