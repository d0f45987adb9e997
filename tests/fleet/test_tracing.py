"""Wishes for traces, as a worker hears and grants them."""

import json
import threading
import time

import pytest

from flota import timeline
from flota.fleet import tracing
from flota.fleet.tracing import Tracer


def wish(name="a", steps=2, until=None, **asked):
    said = {"until": time.time() + 30 if until is None else until, "trace": {"id": name, "steps": steps, **asked}}
    return json.dumps(said).encode()


def step(count=1):
    for _ in range(count):
        with timeline.span("pull"):
            pass
        timeline.stepped()


@pytest.fixture
def tracer():
    made = Tracer(1)
    step()
    yield made
    made.close()


def told(tracer, **settings):
    """What is posted next."""
    note = tracer.next_note(**settings)
    tracer.posted()
    return None if note is None else json.loads(note)


def test_a_trace_that_is_wished_for_is_told_once_it_is_made(tracer):
    tracer.wish(wish(steps=2), first=False)
    step(2)
    assert told(tracer) is None
    step()
    found = told(tracer)
    assert (found["id"], found["steps"], found["asked"]) == ("a", 2, 2)
    assert [event[0] for event in found["events"]] == ["step", "pull", "step", "pull"]
    assert told(tracer) is None


def test_two_who_wish_at_the_same_time_are_both_served(tracer):
    tracer.wish(wish("a", 1), first=False)
    tracer.wish(wish("b", 2), first=False)
    step(4)
    first, second = told(tracer), told(tracer)
    assert [(found["id"], found["steps"]) for found in (first, second)] == [("a", 1), ("b", 2)]


def test_a_wish_that_is_said_again_is_told_again_and_made_once(tracer):
    tracer.wish(wish(steps=1), first=False)
    tracer.wish(wish(steps=1), first=False)
    step(2)
    first = told(tracer)
    tracer.wish(wish(steps=1), first=False)
    assert told(tracer)["events"] == first["events"]
    assert told(tracer) is None


def test_what_is_made_in_time_is_told(tracer, monkeypatch):
    tracer.wish(wish(steps=100, seconds=5), first=False)
    step(4)
    assert told(tracer) is None
    now = time.monotonic()
    monkeypatch.setattr(tracing.time, "monotonic", lambda: now + 6)
    assert told(tracer)["steps"] == 3
    step(200)  # nobody traces any more
    assert timeline._traces == ()


def test_a_worker_that_makes_no_steps_answers_without_any(tracer, monkeypatch):
    tracer.wish(wish(steps=3, seconds=5), first=False)
    now = time.monotonic()
    monkeypatch.setattr(tracing.time, "monotonic", lambda: now + 6)
    assert told(tracer)["steps"] == 0
    assert not timeline._asked


def test_a_worker_that_ends_tells_what_it_has(tracer):
    tracer.wish(wish(steps=100), first=False)
    step(3)
    assert told(tracer, last=True)["steps"] == 2


def test_a_wish_from_before_this_worker_came_is_kept_only_while_somebody_waits(tracer):
    tracer.wish(wish("old", until=time.time() - 1), first=True)
    tracer.wish(wish("new", until=time.time() + 10), first=True)
    step(4)
    assert told(tracer)["id"] == "new"
    assert told(tracer) is None


def test_who_is_not_asked_does_nothing(tracer):
    tracer.wish(wish(workers=[0, 2]), first=False)
    step(4)
    assert told(tracer) is None


WRONG = ({"steps": 0}, {"steps": 1001}, {"steps": "many"}, {"workers": 5}, {"seconds": -1}, {"seconds": None})


@pytest.mark.parametrize(
    "note",
    [
        b"", b"no JSON", b"{}", b"[]", b"null", b'{"trace": 5}', b'{"trace": {"id": "a"}}', b"[" * 3000,
        *(wish(until=4e9, **wrong) for wrong in WRONG),
        b'{"until": 0, "trace": {"id": "a", "steps": 1e999}}', b'{"profile": {"id": "a"}, "until": 5}',
    ],
)  # fmt: skip
def test_what_is_no_wish_is_passed_over(tracer, note):
    tracer.wish(note, first=True)
    tracer.wish(note, first=False)
    assert not timeline._asked
    assert told(tracer) is None


def test_of_many_wishes_the_newest_are_kept(tracer):
    for number in range(20):
        tracer.wish(wish(str(number), 1), first=False)
    step(2)
    assert [told(tracer)["id"] for _ in range(4)] == ["16", "17", "18", "19"]
    assert told(tracer) is None


def test_nothing_is_kept_once_nobody_asks(tracer, monkeypatch):
    tracer.wish(wish(steps=1), first=False)
    step(2)
    assert told(tracer)["steps"] == 1
    now = time.monotonic()
    monkeypatch.setattr(tracing.time, "monotonic", lambda: now + 120)
    assert told(tracer) == {}  # in its place, on the server
    assert told(tracer) is None


def test_a_note_has_room_whatever_was_traced(tracer):
    tracer.wish(wish(steps=1000), first=False)
    step()
    reading = threading.Thread(target=lambda: [step() for _ in range(1)], name="\U0001f600" * 500)
    reading.start()
    reading.join()
    for _ in range(2000):
        for _ in range(20):
            with timeline.span("backward"):
                pass
        timeline.stepped()
    note = tracer.next_note(last=True)
    assert len(note) < 1 << 20
    found = json.loads(note)
    assert 100 < found["steps"] < 1000
    assert found["missed"] > 0
    # Whole steps only: none lacks spans.
    assert sum(event[0] == "step" for event in found["events"]) == found["steps"]
