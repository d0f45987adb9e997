"""What flota top shows of a sight, in 80 columns."""

import io

import pytest
from rich.console import Console

from flota.observe.sight import Requests, Server, Sight, Table, Worker
from flota.observe.top import picture

NOTE = {
    "phase": "training", "step": 123_456, "samples": 10, "samples_per_second": 98_765.4, "loss": 0.43219,
    "metrics": {"auc": 0.79}, "shares": {"pull": 0.25, "push": 0.1}, "in_flight": 3, "staleness": 1.25,
    "done": 0.5, "left_seconds": 90.0, "lease": "3bc08fcc6a789eee#0 2: 14, 15",
}  # fmt: skip


def sight(workers=2, servers=2, uptime=75.0):
    requests = {kind: Requests(10, 10, 10, 1.0, 99_900.0, 999e6, 999e6, 123.4e-6, 9.87e-3) for kind in ("pull", "push")}
    shown = [
        Server(
            index, "node1:6170", seen=0.0, uptime=uptime, memory_bytes=999 << 20, cpu_share=1.5, requests=requests,
            tables=[Table("deep", True, 999_000, 1 << 30, 1, 1, 1, 1, staleness=12.34, rows_pulled_per_second=1e6)],
        )
        for index in range(servers)
    ]  # fmt: skip
    return Sight(0.0, shown, [Worker(index, 0.1, dict(NOTE)) for index in range(workers)])


def painted(found, width=80, height=24, told=(), **settings):
    console = Console(file=io.StringIO(), width=width, height=height, **settings)
    frame = picture.Frame(width, height, plain=True, hot=5)
    console.print(picture.of_job("wide_and_deep.py", found, told, frame))
    return console.file.getvalue()


def words(text, line):
    return next(found.split() for found in text.splitlines() if found.split()[:1] == [line])


def test_80_columns_have_all_that_is_asked_for_first():
    text = painted(sight())
    assert max(map(len, text.splitlines())) <= 80
    heads = ["server", "rows", "memory", "pull/s", "push/s", "p50", "p99", "in/s", "out/s", "state"]
    assert words(text, "server") == heads
    assert words(text, "process") == ["process", "step", "samples/s", "loss", "AUC", "waits", "stale", "left", "state"]
    assert "leases worker 0: 14, 15 · worker 1: 14, 15" in text
    assert "up 01:15" in text


@pytest.mark.parametrize("uptime", [3600 * 5, 86400 * 45])
def test_a_server_that_runs_for_long_keeps_its_line(uptime):
    text = painted(sight(uptime=uptime))
    assert text.count("server 0") == 1
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("server 0"))
    assert lines[first + 1].startswith("server 1")
    assert ("5h00m" if uptime < 86400 else "45d00h") in lines[first]


@pytest.mark.parametrize("width", [40, 60, 80, 99, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(len, painted(sight(), width).splitlines())) <= width


def test_without_colour_there_is_none():
    text = painted(sight(), no_color=True, force_terminal=True)
    assert "\x1b[3" not in text


def test_a_job_without_leases_has_no_line_of_them():
    found = sight()
    for worker in found.workers:
        worker.note["lease"] = ""
    assert "leases" not in painted(found)
