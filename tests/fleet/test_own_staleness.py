"""How stale a worker's own gradients are, as it sees from the versions of dense parameters."""

from types import SimpleNamespace

import pytest

from flota.communicator import staleness
from flota.communicator.remote import Versions
from flota.communicator.staleness import OwnStaleness
from flota.standing import Standing


@pytest.fixture
def told(monkeypatch):
    worker = Standing()
    monkeypatch.setattr(staleness, "standing", worker)
    return worker


def steps(own, seen, count, moves):
    for _ in range(count):
        before = own.before()
        seen.numbers += moves
        own.after(before)


def made(numbers):
    seen = Versions(2, 2)
    seen.numbers[:] = numbers
    return OwnStaleness(SimpleNamespace(seen=seen)), seen


def test_a_worker_alone_is_never_stale(told):
    own, seen = made(5)
    steps(own, seen, 64, 1)
    assert told.stale == (0.0, 4)


def test_what_others_push_in_between_counts(told):
    own, seen = made(5)
    steps(own, seen, 16, 4)
    assert told.stale == (3.0, 1)


def test_servers_without_a_part_of_a_parameter_do_not_count(told):
    own, seen = made(5)
    seen.numbers[0] = 0
    steps(own, seen, 16, seen.numbers.sign() * 3)
    assert told.stale == (2.0, 1)


def test_a_server_that_counts_anew_is_passed_over(told):
    own, seen = made(1000)
    steps(own, seen, 16, -60)
    assert told.stale == (0.0, 0)


def test_a_model_without_dense_parameters_tells_nothing(told):
    own = OwnStaleness(SimpleNamespace(seen=Versions(0, 2)))
    for _ in range(32):
        own.after(own.before())
    assert told.stale == (0.0, 0)
