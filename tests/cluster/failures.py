"""Runs the kill matrix and writes docs/failures.md from what came out.

    python tests/cluster/failures.py run [--only WORD …] [--again]   # results go to build/failures/results.jsonl
    python tests/cluster/failures.py page                            # docs/failures.md from them

A cell that has a result is not run again, unless asked for: a run that was ended goes on where it was.
"""

import argparse
import datetime
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from clusterjobs import SHORT, TIMEOUT, Run, check, make_files, no_core_files
from faults import KINDS, MOMENTS
from matrix import CELLS, MODES, VICTIMS, Cell

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "failures"
RESULTS = WORK / "results.jsonl"
PAGE = ROOT / "docs" / "failures.md"

KIND_TEXTS = {
    "kill": "Killed (SIGKILL)",
    "stop": "Paused for longer than the deadline (SIGSTOP)",
    "cut": "All of its connections cut",
    "disk": "Its disk full for a while",
}
MOMENT_TEXTS = {
    "start-up": "at start-up",
    "pull": "in a pull",
    "push": "in a push",
    "barrier": "in a barrier",
    "save": "during a save",
    "restore": "during a restore",
    "shutdown": "at shutdown",
}
VICTIM_TEXTS = {"worker": "a worker", "server": "a server", "server 0": "server 0", "launcher": "the launcher"}


class Without:
    """The same jobs without faults, each run once."""

    def __init__(self, folder):
        self.folder = folder
        self.files = make_files(folder / "files")
        self._results = {}

    def saved(self):
        """A checkpoint to begin with: a job's after its first epoch."""
        self.result("async")
        return next(iter(sorted((self.folder / "async-dataset" / "saved").glob("step-*"))))

    def result(self, mode, loop="dataset", load=None):
        name = f"{mode}-{loop}{'-loaded' if load else ''}"
        if name not in self._results:
            folder = self.folder / name
            shutil.rmtree(folder, ignore_errors=True)
            run = Run(folder, self.files, mode, loop, load=load)
            outcome = run.run()
            assert not outcome.error, f"{name}: {outcome.error}"
            self._results[name] = run.result()
        return self._results[name]


def run_cell(cell, folder, without):
    """Runs the job of a cell; its folder stays where something is wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    load = without.saved() if cell.moment == "restore" else None
    expected = without.result(cell.mode, load=load)
    timeout = SHORT if cell.kind == "stop" else TIMEOUT
    run = Run(folder, without.files, cell.mode, faults=[cell.fault()], load=load, timeout=timeout)
    outcome = run.run()
    check(run, outcome, expected)
    if not outcome.error and not _as_promised(cell.promise, outcome.ended):
        outcome.error = f"promised: {cell.promise}; but it {outcome.ended}"
    if not outcome.error:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _as_promised(promise, ended):
    if promise == "is not hurt":
        return ended == "goes on by itself"
    # To begin anew where nothing was learnt yet is to be taken up again.
    if promise == "begins anew":
        return ended in (promise, "is taken up again by --resume")
    return ended in promise


def read_results():
    if not RESULTS.exists():
        return {}
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    return {Cell(**line["cell"]): line for line in lines}


def run(arguments):
    no_core_files()
    WORK.mkdir(parents=True, exist_ok=True)
    known = {} if arguments.again else {cell: line for cell, line in read_results().items() if not line["error"]}
    todo = [
        cell
        for cell in CELLS
        if cell.why_not is None and cell not in known and all(word in cell.name for word in arguments.only)
    ]
    without = Without(WORK / "without")
    for mode in MODES:
        without.result(mode)
    for mode in MODES:
        without.result(mode, load=without.saved())
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    def one(cell):
        outcome = run_cell(cell, WORK / cell.name, without)
        line = {
            "cell": asdict(cell),
            "date": datetime.date.today().isoformat(),
            "commit": commit.stdout.strip(),
            **asdict(outcome),
        }
        with RESULTS.open("a") as results:
            results.write(json.dumps(line) + "\n")
        recovery = "" if outcome.recovery is None else f", {outcome.recovery:.1f} s"
        print(f"{cell.name}: {outcome.error or outcome.ended + recovery}", flush=True)
        return not outcome.error

    with ThreadPoolExecutor(arguments.jobs) as pool:
        good = list(pool.map(one, todo))
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


def page(_arguments):
    """Writes the page; refuses while a cell has no result."""
    results = read_results()
    missing = [cell.name for cell in CELLS if cell.why_not is None and cell not in results]
    if missing:
        print(
            f"{len(missing)} cells have no result, among them {', '.join(missing[:5])}: run them first", file=sys.stderr
        )
        return 1
    PAGE.write_text("\n".join(_page(results)) + "\n")
    return 0


def _page(results):
    done = [results[cell] for cell in CELLS if cell in results]
    good = sum(not line["error"] for line in done)
    recoveries = sorted(line["recovery"] for line in done if line["recovery"] is not None)
    middle = recoveries[len(recoveries) // 2] if recoveries else 0.0
    yield from (HERE_TEXT.format(
        cells=len(done), good=good, middle=middle, most=recoveries[-1] if recoveries else 0.0,
        dates=" to ".join(sorted({min(line["date"] for line in done), max(line["date"] for line in done)})),
        commits=", ".join(sorted({line["commit"] for line in done})),
    ).splitlines())  # fmt: skip
    for kind in KINDS:
        yield from ("", f"## {KIND_TEXTS[kind]}", "")
        yield f"| who | when | promised | {' | '.join(MODES)} |"
        yield "|---" * (3 + len(MODES)) + "|"
        for victim in VICTIMS:
            for moment in MOMENTS:
                cells = [Cell(victim, moment, mode, kind) for mode in MODES]
                if cells[0].why_not is not None:
                    continue
                texts = " | ".join(_text(results[cell]) for cell in cells)
                yield f"| {VICTIM_TEXTS[victim]} | {MOMENT_TEXTS[moment]} | {cells[0].promise} | {texts} |"
        reasons = {
            f"{VICTIM_TEXTS[cell.victim]}: {cell.why_not}" for cell in CELLS if cell.kind == kind and cell.why_not
        }
        for reason in sorted(reasons):
            yield from ("", f"Not there: {reason}.")


def _text(line):
    if line["error"]:
        return f"**fails**: {line['error'].splitlines()[0][:120]}"
    ended = {"goes on by itself": "goes on", "is taken up again by --resume": "resumed", "begins anew": "begun anew"}
    again = f", {line['retrained']} samples again" if line["retrained"] else ""
    recovery = "" if line["recovery"] is None else f", {line['recovery']:.1f} s"
    return f"{ended[line['ended']]}{recovery}{again}"


HERE_TEXT = """# What happens when something fails

This page is written by `make failures` from what came out of the jobs that it runs; nothing in it is written by hand.
Of {cells} cases {good} ended as promised ({dates}; commits {commits}).

Each case is a real job: `flota launch` with two servers and two workers, redo logs and snapshots on, two epochs over
files, a save in between. One fault befalls one process at one moment, brought about from within the job. The job runs
to its end, by `flota launch --resume` where that is what is promised, and its parameters are checked:

- **sync**: every row and parameter equals, bit for bit, that of the same job without the fault;
- **async**, **geo**: each sample has a row of its own, whose value counts how often the servers have learnt from it. No
  sample is lost; none is counted twice, but for those that a worker had trained and not told of when it died or
  was paused for longer than its leases last ("samples again", within the bound that `docs/data.md` states).

The seconds are the longest pause between two steps of a worker from the fault on; where no step was before it, the time
from the fault to the first step, the ordinary start included; where none follows, the time until the job had ended.
The median is {middle:.1f} s and the longest {most:.1f} s. They include the back-off before a restart (1 s) and the
start of a Python process with torch.
Where a process is paused, for 6 s, jobs have `FLOTA_TIMEOUT=4`; a disk stays full for 1.5 s."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runs = commands.add_parser("run", help="run the cells that have no good result yet")
    runs.add_argument("--only", nargs="*", default=[], metavar="WORD", help="cells whose names have all these words")
    runs.add_argument("--again", action="store_true", help="also those that have one")
    runs.add_argument("--jobs", type=int, default=1, help="how many at once (default: 1)")
    runs.set_defaults(function=run)
    commands.add_parser("page", help="write docs/failures.md").set_defaults(function=page)
    arguments = parser.parse_args()
    return arguments.function(arguments)


if __name__ == "__main__":
    sys.exit(main())
