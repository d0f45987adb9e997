"""Traces taken apart: notes that are read with care, steps, clocks, the file, the table."""

import json

import pytest
from traced import check_steps, load

from flota.observe.trace import chrome
from flota.observe.trace.clocks import Clocks, Heard, align
from flota.observe.trace.notes import read
from flota.observe.trace.steps import steps_of
from flota.observe.trace.summary import lines, summary_of

# Two steps of 100 and 50 us on the first thread; the second reads ahead.
EVENTS = [
    ["step", 0, 100, 0],
    ["read", 0, 10, 0],
    ["pull", 15, 20, 0],
    ["backward", 40, 30, 0],
    ["push", 70, 28, 0],
    ["wait", 75, 20, 0],
    ["read", 60, 80, 1],
    ["step", 100, 50, 0],
    ["pull", 120, 10, 0],
    ["push", 140, 10, 0],
]
NOTE = {
    "id": "a", "pid": 7, "host": "node1", "mode": "sync", "steps": 2, "asked": 2, "step": 412, "began": 1000.0,
    "posted": 1001.0, "trip": 0.001, "missed": 0, "threads": ["MainThread", "flota prefetch"], "events": EVENTS,
}  # fmt: skip


def trace(worker=0, **changes):
    found = read(worker, json.dumps({**NOTE, **changes}).encode())
    assert found is not None
    return found


def test_the_parts_of_a_step_are_the_step():
    first, second = steps_of(trace())
    assert first.parts == {"read": 10, "pull": 20, "forward": 12, "backward": 30, "push": 8, "wait": 20}
    assert [(gap.part, gap.began, gap.length) for gap in first.gaps] == [
        ("forward", 10, 5), ("forward", 35, 5), ("forward", 98, 2)
    ]  # fmt: skip
    assert (first.number, second.number) == (411, 412)
    assert not first.guessed


def test_what_comes_before_the_first_lookup_is_reading_where_nothing_is_known_of_it():
    second = steps_of(trace())[1]
    assert second.guessed
    assert second.parts == {"read": 20, "pull": 10, "forward": 10, "backward": 0, "push": 10, "wait": 0}


def test_a_batch_that_lay_ready_was_read_in_no_time():
    (step,) = steps_of(trace(events=[["step", 0, 100, 0], ["read", 0, 0, 0], ["pull", 50, 10, 0]]))
    assert not step.guessed
    assert (step.parts["read"], step.parts["forward"]) == (0, 90)


def test_where_something_is_computed_before_the_first_lookup_it_is_no_reading():
    (step,) = steps_of(trace(events=[["step", 0, 100, 0], ["backward", 10, 10, 0], ["pull", 50, 10, 0]]))
    assert (step.parts["read"], step.parts["forward"]) == (0, 80)


@pytest.mark.parametrize(
    "note",
    [
        b"", b"no JSON", b"[]", b"{}", b'"a"', b"null", b"[" * 100_000,
        {"events": None}, {"events": [1]}, {"events": [["pull", 0, 1]]}, {"events": [["pull", 0, 1, 9]]},
        {"events": [["pull", -1, 1, 0]]}, {"events": [["pull", 0, -5, 0]]}, {"events": [["pull", 0.5, 1, 0]]},
        {"events": [["pull", 1 << 70, 1, 0]]}, {"events": [[None, 0, 1, 0]]}, {"events": [["", 0, 1, 0]]},
        {"threads": [3]}, {"threads": "MainThread"}, {"began": None}, {"began": 1e300}, {"posted": "now"},
        {"pid": True}, {"step": -1}, {"host": ["node1"]}, {"id": 5}, {"missed": "none"},
    ],
)  # fmt: skip
def test_what_is_no_trace_is_passed_over(note):
    assert read(0, note if isinstance(note, bytes) else json.dumps({**NOTE, **note}).encode()) is None


def test_a_note_whose_spans_make_no_sense_still_is_a_file_that_does(tmp_path):
    crossing = [["step", 0, 100, 0], ["pull", 10, 50, 0], ["push", 40, 500, 0], ["odd", 60, 1, 0], ["wait", 5000, 1, 0]]
    found = trace(events=crossing, host="a\x1b[31m\nb", threads=["\x07bell"])
    assert found.host == "a?[31m?b"
    (step,) = steps_of(found)
    assert sum(step.parts.values()) == 100
    assert all(spent >= 0 for spent in step.parts.values())
    chrome.write(tmp_path / "trace.json", [found], align([Heard(found, 0.0, 0.0)]))
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_names_of_a_terminal_and_of_a_file_are_bounded():
    assert len(trace(host="x" * 10_000).host) == 64
    assert len(trace(threads=["t"] * 1000).threads) == 64


def test_the_file_has_each_worker_as_a_process_and_each_thread_as_a_track(tmp_path):
    traces = [trace(0), trace(3, began=1000.5)]
    chrome.write(tmp_path / "trace.json", traces, Clocks({0: 0.0, 3: 0.0}, 0.0, {}), {"job": "train.py"})
    tracks = load(tmp_path / "trace.json")
    assert sorted(tracks) == [(0, 0), (0, 1), (3, 0), (3, 1)]
    assert tracks[3, 0][0]["ts"] - tracks[0, 0][0]["ts"] == 500_000
    assert [event["name"] for event in tracks[0, 1]] == ["read"]
    for worker in (0, 3):
        assert check_steps(tracks[worker, 0]) == {"read", "pull", "forward", "backward", "push", "wait"}
    file = json.loads((tmp_path / "trace.json").read_text())
    names = [event["args"]["name"] for event in file["traceEvents"] if event["name"] == "process_name"]
    assert names == ["worker 0 (sync, node1, pid 7)", "worker 3 (sync, node1, pid 7)"]
    assert file["otherData"] == {"job": "train.py"}
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


def heard(worker, host, ahead, trip=0.002):
    """A note that was sent at 1001 and came a millisecond later, by a clock that is so much ahead of ours."""
    return Heard(trace(worker, host=host, posted=1001.0 + ahead, trip=trip), 1001.001, 0.001)


def test_workers_of_one_host_have_its_clock():
    found = align([heard(0, "node1", 0.0), heard(1, "node1", 3.0)])
    assert (found.shift, found.within, found.wrong) == ({0: 0.0, 1: 0.0}, 0.0, {})


def test_clocks_that_agree_as_far_as_can_be_told_are_taken_as_they_are():
    found = align([heard(0, "node1", 0.0), heard(1, "node2", 0.004)])
    assert found.shift == {0: 0.0, 1: 0.0}
    assert found.within == pytest.approx(0.006)


def test_a_clock_that_is_wrong_is_put_right():
    found = align([heard(1, "node2", -2.5), heard(0, "node1", 0.0), heard(2, "node2", -2.5, trip=0.5)])
    assert found.shift[0] == 0.0
    assert found.shift[1] == found.shift[2] == pytest.approx(2.5)
    assert found.wrong == {"node2": pytest.approx(-2.5)}
    assert found.within == pytest.approx(0.006)


def summary(worker=0, slow="pull", **changes):
    lengths = {"read": 10, "pull": 10, "backward": 10, "push": 10, "wait": 10, slow: 1_000_000}
    events, at = [], 0
    for part, length in lengths.items():
        events.append([part, at, length, 0])
        at += length
    return summary_of(trace(worker, events=[["step", 0, at, 0], *events], **changes))


@pytest.mark.parametrize("slow", ["read", "pull", "backward", "push", "wait"])
@pytest.mark.parametrize("mode", ["sync", "async", "geo", ""])
def test_the_table_fits_80_columns_and_says_what_to_do(slow, mode):
    found = [summary(worker, slow, mode=mode) for worker in range(100)]
    text = lines(found)
    assert max(map(len, text)) <= 80
    assert text[0].split() == [
        "ms", "a", "step", "step", "read", "pull", "forward", "backward", "push", "wait", "slowest"
    ]  # fmt: skip
    assert text[1].startswith("worker 0  ")
    assert text[1].endswith(slow)
    assert "100%" in text[2]
    assert "… and 68 more, in the file" in text
    assert " ".join(text).count(f"{slow} is the slowest: ") == 1
    assert len(found[0].hint) > 20


def test_who_waits_least_is_who_the_others_wait_for():
    waits = [["step", 0, 100, 0], ["wait", 0, 90, 0]], [["step", 0, 100, 0], ["wait", 0, 60, 0]]
    found = [summary_of(trace(worker, events=events)) for worker, events in enumerate(waits)]
    assert "worker 1 waits least" in lines(found)


def test_a_trace_without_a_whole_step_has_no_summary():
    assert summary_of(trace(events=[["pull", 0, 5, 0]])) is None
