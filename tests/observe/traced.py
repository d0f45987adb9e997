"""Trace files as viewers want them: what chrome://tracing and Perfetto read, checked event by event."""

import itertools
import json
from collections import defaultdict

PARTS = {"read", "pull", "forward", "backward", "push", "wait"}
_METADATA = {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}


def load(path):
    """The file's complete events, checked: by worker and thread, in their order."""
    file = json.loads(path.read_text(), parse_constant=lambda name: 1 / 0)
    assert set(file) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert file["displayTimeUnit"] == "ms"
    tracks, named, processes = defaultdict(list), set(), set()
    for event in file["traceEvents"]:
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "M":
            assert event["name"] in _METADATA
            assert len(event["args"]) == 1
            if event["name"] == "thread_name":
                named.add((event["pid"], event["tid"]))
            if event["name"] == "process_name":
                processes.add(event["pid"])
            continue
        assert event["ph"] == "X"
        assert event["cat"] in PARTS | {"step"}
        assert isinstance(event["ts"], int)
        assert event["ts"] >= 0
        assert isinstance(event["dur"], int)
        assert event["dur"] >= 0
        tracks[event["pid"], event["tid"]].append(event)
    assert set(tracks) <= named
    assert {pid for pid, _ in tracks} <= processes
    for events in tracks.values():
        _check_nesting(events)
    return tracks


def _check_nesting(events):
    """Of two spans of a track, one is within the other or they do not touch."""
    around = []
    for event in events:
        end = event["ts"] + event["dur"]
        while around and around[-1] <= event["ts"]:
            around.pop()
        assert not around or end <= around[-1], f"{event} is half within another"
        around.append(end)


def steps_of(events):
    """Each step of a track with the spans within it."""
    for step in events:
        if step["cat"] == "step":
            end = step["ts"] + step["dur"]
            inside = [e for e in events if e is not step and step["ts"] <= e["ts"] and e["ts"] + e["dur"] <= end]
            yield step, [e for e in inside if e["cat"] != "step"]


def own_times(spans):
    """By part, microseconds that are not those of a span within."""
    sums = defaultdict(int)
    around = []
    for span in spans:
        while around and around[-1]["ts"] + around[-1]["dur"] <= span["ts"]:
            around.pop()
        if around:
            sums[around[-1]["cat"]] -= span["dur"]
        sums[span["cat"]] += span["dur"]
        around.append(span)
    return sums


def check_steps(events):
    """The steps of a track follow each other, and their parts together are they; returns the parts that are there."""
    steps = list(steps_of(events))
    assert steps
    parts = set()
    for step, spans in steps:
        sums = own_times(spans)
        assert sum(sums.values()) == step["dur"]
        assert all(spent >= 0 for spent in sums.values())
        told = step["args"]["milliseconds"]
        assert {part: round(spent * 1000) for part, spent in told.items() if spent} == {
            part: spent for part, spent in sums.items() if spent
        }
        parts |= {span["cat"] for span in spans}
    for (one, _), (other, _) in itertools.pairwise(steps):
        assert one["ts"] + one["dur"] <= other["ts"]
        assert one["args"]["step"] < other["args"]["step"]
    return parts
