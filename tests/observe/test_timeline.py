"""Where the time of a step goes, and steps that are traced."""

import itertools
import threading
import time

import pytest

from flota import timeline
from flota.timeline import span


def spent(before):
    after = timeline.seconds()
    return {part: after[part] - before[part] for part in timeline.PARTS if part != "forward"}


@pytest.fixture
def before():
    timeline.stepped()  # this thread makes steps
    return timeline.seconds()


def test_a_span_within_another_is_not_part_of_the_outer_ones_time(before):
    with span("push"):
        time.sleep(0.02)
        with span("wait"):
            time.sleep(0.05)
    found = spent(before)
    assert 0.05 <= found["wait"] < 0.5
    assert 0.02 <= found["push"] < 0.05 + 0.4
    assert found["push"] + found["wait"] >= 0.07


def test_a_span_that_ends_by_an_error_counts_and_leaves_nothing_open(before):
    def fail():
        with span("pull"):
            time.sleep(0.01)
            raise RuntimeError("on its way")

    with pytest.raises(RuntimeError, match="on its way"):
        fail()
    with span("wait"):
        pass
    assert spent(before)["pull"] >= 0.01


def test_threads_that_make_no_steps_count_in_no_sum(before):
    def read_ahead():
        with span("read"):
            time.sleep(0.02)

    thread = threading.Thread(target=read_ahead)
    thread.start()
    thread.join()
    assert spent(before)["read"] == 0.0


def test_all_parts_together_are_the_whole(before):
    with span("read"):
        time.sleep(0.01)
    found = timeline.seconds()
    parts = sum(found[part] for part in timeline.PARTS)
    assert parts == pytest.approx(found["whole"], rel=1e-6)


def test_a_trace_has_whole_steps_with_their_spans():
    traces = []
    timeline.trace(2, traces.append)
    timeline.stepped()  # from here on
    for _ in range(2):
        with span("pull"):
            time.sleep(0.002)
        with span("push"), span("wait"):
            time.sleep(0.001)
        timeline.stepped()
    with span("pull"):  # of a step that is not traced
        pass
    timeline.stepped()
    (trace,) = traces
    assert [event.part for event in trace.events] == ["pull", "wait", "push", "step"] * 2
    steps = [event for event in trace.events if event.part == "step"]
    for step, part in zip(steps, (trace.events[0], trace.events[4]), strict=True):
        assert step.began <= part.began <= part.began + part.seconds <= step.began + step.seconds


def test_a_trace_that_is_asked_for_while_another_is_made_comes_after_it():
    first, second = [], []
    timeline.trace(1, first.append)
    timeline.stepped()
    timeline.trace(1, second.append)
    timeline.stepped()
    assert len(first) == 1
    timeline.stepped()
    timeline.stepped()
    assert len(second) == 1


def test_a_trace_takes_bounded_memory():
    traces = []
    timeline.trace(1, traces.append)
    timeline.stepped()
    for _ in range(20_000):
        with span("pull"):
            pass
    timeline.stepped()
    assert len(traces[0].events) <= 8192


def test_several_may_trace_at_once_and_each_gets_its_steps():
    first, second = [], []
    timeline.trace(3, first.append)
    timeline.stepped()
    with span("pull"):
        pass
    timeline.trace(1, second.append)
    for _ in range(2):
        timeline.stepped()
    assert (len(first), len(second)) == (0, 1)
    timeline.stepped()
    assert first[0].made == 3
    assert [event.part for event in first[0].events] == ["pull", "step", "step", "step"]
    assert [event.part for event in second[0].events] == ["step"]


def test_a_trace_that_begins_at_once_has_the_step_that_begins():
    traces = []
    timeline.stepped()
    with span("wait"):  # is not part of it
        pass
    timeline.trace(1, traces.append, at_once=True)
    with span("pull"):
        pass
    timeline.stepped()
    assert [event.part for event in traces[0].events] == ["pull", "step"]


def test_a_trace_that_is_ended_keeps_its_whole_steps_and_no_more():
    called = []
    made = timeline.trace(10, called.append, at_once=True)
    timeline.stepped()
    timeline.end(made)
    timeline.stepped()
    assert (made.made, called) == (1, [])
    asked = timeline.trace(1, called.append)
    timeline.end(asked)
    timeline.stepped()
    timeline.stepped()
    assert called == []


def test_threads_that_step_have_steps_of_their_own():
    traces = []
    timeline.stepped()
    timeline.trace(4, traces.append)
    timeline.stepped()
    turns = threading.Barrier(2, timeout=30)

    def train():
        for _ in range(3):
            turns.wait()
            with span("pull"):
                time.sleep(0.001)
            timeline.stepped()

    threads = [threading.Thread(target=train, name="trainer") for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    (trace,) = traces
    steps = [event for event in trace.events if event.part == "step"]
    # The first of each began before anybody knew that the thread makes steps.
    assert len(steps) == trace.made == 4
    assert len({event.ident for event in steps}) == 2
    for thread in {event.ident for event in steps}:
        mine = sorted((e for e in steps if e.ident == thread), key=lambda event: event.began)
        for one, other in itertools.pairwise(mine):
            assert one.began + one.seconds <= other.began + 1e-9


def test_what_is_read_within_a_reading_is_one_span():
    traces = []
    timeline.trace(1, traces.append, at_once=True)
    with span("read"), span("read"):
        pass
    timeline.stepped()
    assert [event.part for event in traces[0].events] == ["read", "step"]
