"""A trace as a file of Chrome's trace events, which chrome://tracing and https://ui.perfetto.dev open.

Each worker is a process, each of its threads a track. A step is an event, with its parts within it; what threads beside
the training do is on their own tracks. ``ts`` and ``dur`` are microseconds; ``ts`` 0 is the first span of all workers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flota.errors import SystemFailure
from flota.observe.trace.clocks import Clocks
from flota.observe.trace.notes import Span, WorkerTrace
from flota.observe.trace.steps import steps_of

Event = dict[str, Any]


def events(traces: Sequence[WorkerTrace], clocks: Clocks) -> list[Event]:
    zero = min((trace.began + clocks.shift[trace.worker] for trace in traces), default=0.0)
    found: list[Event] = []
    for trace in traces:
        since = round((trace.began + clocks.shift[trace.worker] - zero) * 1e6)
        found += _names(trace)
        found += _steps(trace, since)
    return found


def _names(trace: WorkerTrace) -> list[Event]:
    def named(what: str, thread: int, **settings: Any) -> Event:
        return {"name": what, "ph": "M", "pid": trace.worker, "tid": thread, "args": settings}

    found = [
        named("process_name", 0, name=f"worker {trace.worker} ({trace.mode}, {trace.host}, pid {trace.pid})"),
        named("process_sort_index", 0, sort_index=trace.worker),
    ]
    for thread, name in enumerate(trace.threads):
        found += [named("thread_name", thread, name=name), named("thread_sort_index", thread, sort_index=thread)]
    return found


def _steps(trace: WorkerTrace, since: int) -> list[Event]:
    def event(span: Span, name: str = "", **settings: Any) -> Event:
        found = {
            "name": name or span.part, "cat": span.part, "ph": "X", "ts": span.began + since, "dur": span.length,
            "pid": trace.worker, "tid": span.thread,
        }  # fmt: skip
        return {**found, "args": settings} if settings else found

    found = [event(span) for span in trace.spans if span.part != "step"]
    for step in steps_of(trace):
        whole = Span("step", step.began, step.length, step.thread)
        milliseconds = {part: spent / 1000 for part, spent in step.parts.items()}
        found.append(event(whole, f"step {step.number}", step=step.number, milliseconds=milliseconds))
        found += [event(gap, guessed=True) if gap.part == "read" else event(gap) for gap in step.gaps]
    # The outer before the inner: that is how viewers nest what begins at the same time.
    return sorted(found, key=lambda each: (each["tid"], each["ts"], -each["dur"], each["cat"] != "step"))


def write(path: Path, traces: Sequence[WorkerTrace], clocks: Clocks, about: dict[str, Any] | None = None) -> None:
    """``about``: what is said of the trace as a whole. The file is there whole, or as it was before."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    text = json.dumps(
        {"traceEvents": events(traces, clocks), "displayTimeUnit": "ms", "otherData": about or {}},
        separators=(",", ":"),
    )
    try:
        try:
            beside.write_text(text, encoding="utf-8")
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise SystemFailure(f"cannot write the trace to {path}: {error.strerror}") from error
