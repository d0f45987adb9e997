"""What a user sees while a job runs, in a terminal and elsewhere."""

import contextlib
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launched import PRELUDE, clean_environment

from flota.launch import log_tail, rows, saying
from flota.launch.plan import Endpoint, Member
from flota.launch.processes import LocalProcess
from flota.launch.progress import Progress

TRAIN = """
from flota import report
if is_server:
    serve()
for step in range(1, 21):
    time.sleep(0.01)
    report.step(step, samples=512, loss=float("nan") if index == 1 and step >= 7 else 1 / step)
    if step % 10 == 0:
        print(f"worker {index} is at step {step}")
report.finished()
"""


@pytest.fixture
def train(start):
    def train(*flags):
        launch = start(TRAIN, "--worker_num=2", *flags)
        assert launch.wait() == 0, launch.output
        return launch.output

    return train


def test_lines_show_each_worker_and_what_the_first_prints(train):
    output = train()
    assert re.search(r"launch\] worker 0: step 20, [\d,]+ samples/s, loss 0\.0500, finished\n", output)
    assert re.search(r"launch\] worker 1: step 20, [\d,]+ samples/s, loss nan, finished\n", output)
    assert "\nworker 0 is at step 10\nworker 0 is at step 20\n" in output
    assert "worker 1 is at step" not in output
    assert re.search(r"launch\] done: 20 steps, [\d,]+ samples/s, \d\.\d s; logs in log\n$", output)


def test_a_loss_that_is_not_a_number_is_told_with_worker_and_step(train):
    assert "launch] worker 1: the loss is NaN at step 7\n" in train()


def test_without_a_view_the_end_is_still_told(train):
    output = train("--no-view")
    assert "worker 0: step" not in output
    assert "worker 0 is at step" not in output
    assert "done: 20 steps" in output


def test_a_terminal_shows_a_table_that_moves(tmp_path):
    (tmp_path / "train.py").write_text(PRELUDE + TRAIN.replace("0.01", "0.04"))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "flota.launch", "--worker_num=2", "train.py"]
    environment = clean_environment(TERM="xterm-256color", COLUMNS="100", LINES="40")
    launch = subprocess.Popen(command, cwd=tmp_path, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    painted = b""
    try:
        with contextlib.suppress(OSError):  # the launch has ended, and with it the terminal's other side
            while part := os.read(ours, 65536):
                painted += part
        assert launch.wait(5) == 0
    finally:
        launch.kill()
        os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", painted.decode())
    tables = re.findall(r"worker 0 +│ +([\d,-]+) │", text)
    assert len(tables) > 2  # painted again and again
    assert tables[-1] == "20"
    assert re.search(r"worker 1 +│ +20 │ +[\d,]+ │ +nan │ finished", text)
    assert re.search(r"server 0 .*│ stopped", text)
    assert "worker 0 is at step 20" in text
    assert "done: 20 steps" in text


def test_a_file_that_grows_is_read_line_by_line(tmp_path):
    tail = log_tail.LogTail(tmp_path / "log")
    assert tail.new_lines() == []
    with (tmp_path / "log").open("wb", buffering=0) as log:
        log.write(b"one\ntwo")
        assert tail.new_lines() == ["one"]
        log.write(b" and more\r\n\xff\nend")
        assert tail.new_lines() == ["two and more", "\ufffd"]
        assert tail.new_lines(last=True) == ["end"]
    tail.close()


def test_a_worker_that_makes_no_step_for_long_is_shown_as_such(tmp_path):
    progress = Progress(tmp_path / "report", [0])
    worker = progress.workers[0]
    process = LocalProcess(Member("worker", 0, Endpoint("127.0.0.1", 1)), Path("log"), guard=None)
    process._process = object()
    worker.take({"step": 5, "samples": 5, "time": time.monotonic(), "loss": None})
    assert rows.state(process, worker) == "running"
    worker.take({"step": 6, "samples": 6, "time": time.monotonic() - 75, "loss": None})
    assert rows.state(process, worker) == "no step for 01:15"
    progress.close()


@pytest.mark.parametrize(("seconds", "text"), [(0, "00:00"), (75.9, "01:15"), (3600 * 30 + 61, "30:01:01")])
def test_time_is_shown_as_a_clock(seconds, text):
    assert saying.clock(seconds) == text
