"""A traced step taken apart: each part's own time, and what no span has, which is the forward pass.

Spans nest. What is within a span is not part of the outer one's time, so that all parts together are the step.

What is read is known where ``flota.data``, ``flota.prefetch`` or a ``DataLoader`` reads. In a loop over anything else,
all that comes before a step's first lookup is taken for reading: it is where such a loop gets its batch.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field

from flota.observe.trace.notes import Span, WorkerTrace
from flota.timeline import PARTS


@dataclass
class Step:
    """Times are microseconds. ``gaps``: what no span has, as spans of its own."""

    began: int
    length: int
    thread: int
    number: int = 0
    parts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))
    gaps: list[Span] = field(default_factory=list)
    guessed: bool = False  # reading is what came before the first lookup


def steps_of(trace: WorkerTrace) -> list[Step]:
    """In their order; numbered as the worker counts them, all of its threads together."""
    by_thread: dict[int, list[Span]] = {}
    for span in trace.spans:
        if span.part != "step":
            by_thread.setdefault(span.thread, []).append(span)
    begins = {thread: [span.began for span in spans] for thread, spans in by_thread.items()}
    found = []
    for whole in (span for span in trace.spans if span.part == "step"):
        spans = by_thread.get(whole.thread, [])
        at = begins.get(whole.thread, [])
        found.append(
            _taken_apart(whole, spans[bisect.bisect_left(at, whole.began) : bisect.bisect_left(at, whole.end)])
        )
    found.sort(key=lambda step: step.began + step.length)
    for back, step in enumerate(reversed(found)):
        step.number = trace.last_step - back
    return found


def _taken_apart(whole: Span, spans: list[Span]) -> Step:
    step = Step(whole.began, whole.length, whole.thread)
    around: list[tuple[int, str]] = []  # (end, part) of the spans that are open
    outer: list[Span] = []
    for span in spans:
        while around and around[-1][0] <= span.began:
            around.pop()
        # Nothing ends after what it is within, whatever a note says.
        end = min(span.end, around[-1][0] if around else whole.end)
        if around:
            step.parts[around[-1][1]] -= end - span.began
        else:
            outer.append(Span(span.part, span.began, end - span.began, span.thread))
        step.parts[span.part] = step.parts.get(span.part, 0) + end - span.began
        around.append((end, span.part))
    # A span of no length is one, too: the batch lay ready.
    reads_until = None if any(span.part == "read" for span in spans) else _first_lookup(outer)
    at = whole.began
    for span in [*outer, Span("", whole.end, 0, whole.thread)]:
        if span.began > at:
            read = reads_until is not None and span.began <= reads_until
            step.gaps.append(Span("read" if read else "forward", at, span.began - at, whole.thread))
            step.guessed = step.guessed or read
        at = span.end
    for gap in step.gaps:
        step.parts[gap.part] += gap.length
    return step


def _first_lookup(outer: list[Span]) -> int | None:
    """When the step's first lookup began, if it computed nothing before."""
    for span in outer:
        if span.part == "pull":
            return span.began
        if span.part in ("backward", "push"):
            return None
    return None
