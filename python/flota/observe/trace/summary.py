"""A trace in a few lines: what each part of a step takes, which is the slowest, and what to do about it."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flota.observe.trace.notes import WorkerTrace
from flota.observe.trace.steps import steps_of
from flota.timeline import PARTS

MOST_ROWS = 32  # workers
_WIDTH = 78

_COMPUTES = "it computes: more threads (OMP_NUM_THREADS), a GPU, a smaller model; more servers gain nothing"
_BETWEEN = "the model, and what the script does between two steps. Else "
# What to do about the slowest part, where servers hold the tables; by mode, or for all.
HINTS: dict[str, dict[str, str]] = {
    "read": {"": "the data is slower than training: flota.prefetch reads ahead; more reader threads, a faster disk"},
    "pull": {
        "": "rows are on their way: flota.prefetch pulls those of the next batch meanwhile; more servers",
        "local": "rows are looked up in this process: larger batches, fewer lookups",
    },
    "forward": {"": _BETWEEN + _COMPUTES},
    "backward": {"": _COMPUTES},
    "push": {
        "": "gradients go out and dense parameters come back: larger batches, more servers; Geo exchanges less often",
        "geo": "the worker's own step, and exchanges: more k_steps, larger batches",
        "local": "it is the optimizer's own step: larger batches, or servers on other cores",
    },
    "wait": {
        "": "for its pushes to arrive, or for workers that are behind: more servers, a larger max_staleness",
        "sync": "for the others, whose steps take longer: look at the worker that waits least; or Async",
    },
}


@dataclass(frozen=True)
class WorkerSummary:
    """Milliseconds are those of a step in the mean."""

    worker: int
    host: str
    mode: str
    steps: int
    asked: int
    step_ms: float
    longest_ms: float
    longest: int  # which step
    milliseconds: dict[str, float]  # by part
    shares: dict[str, float]
    slowest: str
    reading_is_guessed: bool
    missed: int

    @property
    def hint(self) -> str:
        found = HINTS.get(self.slowest, {})
        return found.get(self.mode, found.get("", ""))


def summary_of(trace: WorkerTrace) -> WorkerSummary | None:
    """None: it has no whole step."""
    steps = steps_of(trace)
    if not steps:
        return None
    whole = sum(step.length for step in steps)
    sums = {part: sum(step.parts.get(part, 0) for step in steps) for part in PARTS}
    longest = max(steps, key=lambda step: step.length)
    return WorkerSummary(
        trace.worker, trace.host, trace.mode, len(steps), trace.asked, whole / len(steps) / 1000,
        longest.length / 1000, longest.number,
        {part: spent / len(steps) / 1000 for part, spent in sums.items()},
        {part: spent / whole if whole else 0.0 for part, spent in sums.items()},
        max(sums, key=lambda part: sums[part]), any(step.guessed for step in steps), trace.missed,
    )  # fmt: skip


def as_data(summaries: Sequence[WorkerSummary]) -> list[dict[str, Any]]:
    return [{**dataclasses.asdict(each), "hint": each.hint} for each in summaries]


def lines(summaries: Sequence[WorkerSummary]) -> list[str]:
    """For a terminal of 80 columns."""
    names = max([len("ms a step"), *(len(f"worker {each.worker}") for each in summaries)])
    widths = {part: max(len(part), 5) for part in PARTS}
    heads = "  ".join(f"{part:>{width}}" for part, width in widths.items())
    found = [f"{'ms a step':<{names}}   {'step':>5}  {heads}  slowest"]
    for each in summaries[:MOST_ROWS]:
        times = "  ".join(f"{_short(each.milliseconds[part]):>{width}}" for part, width in widths.items())
        shares = "  ".join(f"{each.shares[part]:>{width}.0%}" for part, width in widths.items())
        found.append(f"{f'worker {each.worker}':<{names}}   {_short(each.step_ms):>5}  {times}  {each.slowest}")
        found.append(f"{'':<{names}}   {'':>5}  {shares}")
    if len(summaries) > MOST_ROWS:
        found.append(f"… and {len(summaries) - MOST_ROWS} more, in the file")
    return [line.rstrip() for line in [*found, "", *_hints(summaries)]]


def _hints(summaries: Sequence[WorkerSummary]) -> list[str]:
    workers: dict[tuple[str, str], list[int]] = {}
    for each in summaries:
        workers.setdefault((each.slowest, each.hint), []).append(each.worker)
    found = []
    for (slowest, hint), which in workers.items():
        whose = "" if len(workers) == 1 else f" (worker {_some(which)})"
        found += _wrapped(f"{slowest} is the slowest{whose}: {hint}")
    if len({each.slowest for each in summaries}) == 1 and summaries[0].slowest == "wait" and len(summaries) > 1:
        least = min(summaries, key=lambda each: each.milliseconds["wait"])
        found += _wrapped(f"worker {least.worker} waits least")
    if any(each.reading_is_guessed for each in summaries):
        found += _wrapped(
            "read is all that came before a step's first lookup: what reads this loop's data is not known"
        )
    short = [each.worker for each in summaries if each.missed]
    if short:
        found += _wrapped(f"there was no room for all steps of worker {_some(short)}: ask for fewer")
    return found


def _some(workers: Sequence[int]) -> str:
    return ", ".join(map(str, workers[:8])) + (f" and {len(workers) - 8} more" if len(workers) > 8 else "")


def _short(milliseconds: float) -> str:
    """In at most five characters, up to 99,999."""
    digits = 2 if milliseconds < 9.995 else 1 if milliseconds < 999.95 else 0
    return f"{milliseconds:.{digits}f}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent="    ")
