"""Runs what shows each promise, and writes docs/status.md from what came out.

    python tests/audit/audit.py run [--only WORD …] [--again]   # results go to build/audit/results.jsonl
    python tests/audit/audit.py page                            # docs/status.md from them

A command that has passed is not run again unless asked for, so a run that was ended goes on where it was; the page says
at which commit each was run.
"""

import argparse
import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import batch
from promises import subjects

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "audit"
RESULTS = WORK / "results.jsonl"
PAGE = ROOT / "docs" / "status.md"
OF_MAKE = {"ARGS", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL"}  # what is meant for this one's make
MOST_KEPT = 40_000  # characters of an output


def commands(only):
    """Each command once, with the longest of the times that it is given."""
    found = {}
    for subject in subjects():
        for promise in subject.promises:
            text = f"{subject.title} {promise.text} {promise.command}".lower()
            if all(word.lower() in text for word in only):
                found[promise.command] = max(found.get(promise.command, 0), promise.minutes)
    return found


def results():
    if not RESULTS.exists():
        return {}
    entries = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    return {entry["command"]: entry for entry in entries}  # the last one counts


def commit():
    return subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()


def environment():
    found = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    return {**found, "PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"}


def entry_of(command, seconds, status, output):
    return {
        "command": command,
        "commit": commit(),
        "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M}",
        "seconds": round(seconds, 1),
        "status": status,
        "output": output[-MOST_KEPT:],
    }


def keep(entry):
    with RESULTS.open("a") as file:
        file.write(json.dumps(entry) + "\n")


def run_one(command, minutes):
    began = time.monotonic()
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, status = process.communicate(timeout=minutes * 60)[0], process.returncode
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        output, status = process.communicate()[0], None
    return entry_of(command, time.monotonic() - began, status, output)


def run_tests(todo):
    """Those of them that are tests, all in one run. What did not pass there is left, to be run by itself."""
    began = time.monotonic()
    tests = [command for command in todo if batch.targets(command)]
    cases = batch.run(tests, environment(), WORK)
    done = {command: output for command in tests if (output := batch.said(command, cases))}
    for command, output in done.items():
        keep(entry_of(command, time.monotonic() - began, 0, output))
    print(f"{len(done)} of {len(tests)} commands that are tests passed in one run; the others follow", flush=True)
    return [command for command in todo if command not in done]


def run(arguments):
    WORK.mkdir(parents=True, exist_ok=True)
    known = results()
    wanted = commands(arguments.only)
    todo = [command for command in wanted if arguments.again or command not in known or known[command]["status"] != 0]
    print(f"{len(todo)} of {len(wanted)} commands are to be run", flush=True)
    todo = run_tests(todo)
    failed = 0
    for number, command in enumerate(todo, 1):
        entry = run_one(command, wanted[command])
        keep(entry)
        failed += entry["status"] != 0
        print(f"[{number}/{len(todo)}] {entry['seconds']:.0f} s, status {entry['status']}: {command}", flush=True)
    return 1 if failed else 0


def cell(text):
    return " ".join(text.split()).replace("|", "\\|")


def page(_):
    known, lines, counts = results(), [], {True: 0, False: 0, None: 0}
    for subject in subjects():
        lines += [
            "",
            f"## {subject.title}",
            "",
            "| promised | command | expected | got | when |",
            "|---|---|---|---|---|",
        ]
        for promise in subject.promises:
            entry = known.get(promise.command)
            holds, got = (None, "not run") if entry is None else promise.judge(entry["status"], entry["output"])
            counts[holds] += 1
            mark = {True: "", False: "**NO:** ", None: "**?** "}[holds]
            when = "" if entry is None else f"{entry['date']}, {entry['commit']}"
            columns = (promise.text, f"`{cell(promise.command)}`", promise.expected, mark + got, when)
            lines.append(f"| {' | '.join(cell(column) for column in columns)} |")
    head = [
        "# Status",
        "",
        "What flota promises, the command that shows it, and what came out when it was run last. This page is written",
        "by `make audit` from the lists in `tests/audit/promises`; nothing in it is written by hand. The time is UTC.",
        "",
        f"Of {sum(counts.values())} promises {counts[True]} hold, {counts[False]} do not, {counts[None]} were not run.",
    ]
    PAGE.write_text("\n".join(head + lines) + "\n")
    print(head[-1])
    return 0 if counts[False] == counts[None] == 0 else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(required=True)
    runs = verbs.add_parser("run")
    runs.add_argument("--only", nargs="+", default=[], metavar="WORD", help="commands of promises with all these words")
    runs.add_argument("--again", action="store_true", help="also what has passed before")
    runs.set_defaults(verb=run)
    verbs.add_parser("page").set_defaults(verb=page)
    arguments = parser.parse_args()
    return arguments.verb(arguments)


if __name__ == "__main__":
    sys.exit(main())
