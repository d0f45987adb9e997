"""Where the time of a step goes, and steps that are traced."""

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
