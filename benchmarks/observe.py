"""What it costs to see a job: training with everything on that shows it, beside the same with nothing on.

The model of ``benchmarks/train_ctr.py`` is trained by a launch of one server and two workers, ``--seconds`` at a time,
in turns. With everything on, workers tell server 0 how they do; a page follows the job and somebody watches it; every
process has a metrics port, and all are read every 5 s; TensorBoard's files are written; ``flota top`` looks once a
second; ten steps are traced once; lines are JSON. All of that runs on the same cores as the job. With nothing on, not
even workers' notes are sent (``FLOTA_OBSERVE=0``).

What is compared is the samples of all workers in a second: the median over rounds of each round's ratio, and the best
of all rounds. The bar is 0.98. A part that has seen nothing of the job ends the benchmark.

    python benchmarks/observe.py                       # 8 rounds of 2 x 20 s
    python benchmarks/observe.py --what page top       # some of it: notes, page, metrics, tensorboard, top, trace, json
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tuning import Case, run

BAR = 0.98
METRICS_PORT, PROCESSES = 19300, 4  # of the launch and those after it
SCRAPE_SECONDS = 5.0
_PATIENCE = 60.0  # seconds for a job to begin
_LOOK = 0.2
_TRACE_AFTER = 8.0  # seconds from the beginning of a launch on: in the middle of what is measured

# Looks until the event is set; says how often it has seen something of the job.
Looker = Callable[[Path, threading.Event], int]


def flota(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "flota.cli", *arguments]


@contextmanager
def beside(look: Looker, log_dir: Path) -> Iterator[None]:
    """``look`` on a thread of its own, until the job has ended."""
    ended = threading.Event()
    with ThreadPoolExecutor(1) as thread:
        seen = thread.submit(look, log_dir, ended)
        try:
            yield
        finally:
            ended.set()
        if not seen.result(_PATIENCE):
            raise SystemExit(f"{look.__name__} has seen nothing of the job: the result would say nothing")


def begun(log_dir: Path, ended: threading.Event) -> bool:
    """Waits for the launch."""
    until = time.monotonic() + _PATIENCE
    while not (log_dir / "launch.json").exists() and time.monotonic() < until and not ended.is_set():
        ended.wait(_LOOK)
    return not ended.is_set()


def watch_top(log_dir: Path, ended: threading.Event) -> int:
    if not begun(log_dir, ended):
        return 0
    with tempfile.TemporaryFile() as out:
        command = flota("top", f"--log_dir={log_dir}", "--json")
        top = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        ended.wait()
        top.terminate()
        top.wait(10)
        out.seek(0)
        return len(out.readlines())


def trace_once(log_dir: Path, ended: threading.Event) -> int:
    if not begun(log_dir, ended) or ended.wait(_TRACE_AFTER):
        return 0
    command = flota("trace", f"--log_dir={log_dir}", "--steps=10", "-o", str(log_dir / "trace.json"))
    # Again where its workers do not train yet.
    while subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        if ended.wait(_LOOK):
            return 0
    return 1


def scrape(log_dir: Path, ended: threading.Event) -> int:
    answers = 0
    while not ended.wait(SCRAPE_SECONDS):
        for port in range(METRICS_PORT, METRICS_PORT + PROCESSES):
            with contextlib.suppress(OSError):
                answers += bool(urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2).read())
    return answers


def watch_page(log_dir: Path, ended: threading.Event) -> int:
    """As a browser: comes in by the link, takes the curves so far, and reads the stream."""
    if not begun(log_dir, ended):
        return 0
    token, port, lines = "", "", 0
    while not (token and port) and not ended.wait(_LOOK):
        done = subprocess.run(flota("dashboard", "--link", f"--log_dir={log_dir}"), capture_output=True, text=True)
        # What the launch prints goes nowhere; the process of the page is told where it listens.
        token, port = done.stdout.strip(), page_port(log_dir)
    with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
        page = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
        page.request("GET", f"/login?token={token}")
        answer = page.getresponse()
        cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
        answer.read()
        for path in ("/", "/data/history", "/data/stream"):
            page.request("GET", path, headers={"Cookie": cookie})
            answer = page.getresponse()
            if answer.status != 200:
                return 0
            if path != "/data/stream":
                answer.read()
        while not ended.is_set() and answer.readline():
            lines += 1
    return lines


def count_events(log_dir: Path, ended: threading.Event) -> int:
    ended.wait()
    return len(list(log_dir.parent.glob("events/**/*tfevents*")))


def page_port(log_dir: Path) -> str:
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if "flota.observe.page" in command and f"--log_dir={log_dir} " in command:
                found = re.search(r"--listen=\S+:(\d+)", command)
                return found[1] if found else ""
    return ""


# What each of them adds: flags of the launch, and who looks meanwhile.
PARTS: dict[str, tuple[Callable[[Path], list[str]], Looker | None]] = {
    "notes": (lambda _: [], None),
    "page": (lambda _: ["--dashboard"], watch_page),
    "metrics": (lambda _: [f"--metrics_port={METRICS_PORT}"], scrape),
    "tensorboard": (lambda folder: [f"--tensorboard={folder / 'events'}"], count_events),
    "top": (lambda _: [], watch_top),
    "trace": (lambda _: [], trace_once),
    "json": (lambda _: ["--log_format=json"], None),
}


def train(what: list[str], seconds: float) -> float:
    """Samples a second, with these parts on; none: nothing at all."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as watching:
        folder = Path(name)
        flags = [flag for part in what for flag in PARTS[part][0](folder)]
        for look in (PARTS[part][1] for part in what):
            if look is not None:
                watching.enter_context(beside(look, folder / "log"))
        os.environ["FLOTA_OBSERVE"] = "1" if what else "0"
        return run(Case("observe", prefetch=True, launch=tuple(flags)), seconds, folder / "log")["speed"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    with_all: list[float] = []
    with_none: list[float] = []
    for number in range(arguments.rounds):
        # Who comes first changes, for a machine that becomes slower or faster meanwhile.
        for what, speeds in [(arguments.what, with_all), ([], with_none)][:: 1 if number % 2 else -1]:
            speeds.append(train(what, arguments.seconds))
        print(f"round {number}: {with_all[-1]:,.0f} samples/s seen, {with_none[-1]:,.0f} unseen", flush=True)
    ratios = [seen / unseen for seen, unseen in zip(with_all, with_none, strict=True)]
    median, best = statistics.median(ratios), max(with_all) / max(with_none)
    print(f"{'+'.join(arguments.what)}: median of the ratios {median:.3f}, of the best {best:.3f} (bar {BAR})")
    told = {"benchmark": "observe", "what": arguments.what, "median": round(median, 4), "best": round(best, 4)}
    print(json.dumps({**told, "ratios": [round(ratio, 4) for ratio in ratios], "bar": BAR}))


if __name__ == "__main__":
    main()
