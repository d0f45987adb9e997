"""What workers report: few small datagrams that never wait, and that a launcher understands."""

import json
import math
import socket
import subprocess
import sys
import time

import pytest
import torch
from launched import clean_environment

from flota.launch.progress import Progress
from flota.report import Reporter


@pytest.fixture
def listener(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "report"))
        listener.setblocking(False)
        yield listener


@pytest.fixture
def reporter(tmp_path, listener):
    reporter = Reporter(str(tmp_path / "report"), index=3)
    yield reporter
    reporter.close()


@pytest.fixture
def progress(tmp_path):
    progress = Progress(tmp_path / "report", [0, 3])
    yield progress
    progress.close()


def received(listener):
    messages = []
    while True:
        try:
            messages.append(json.loads(listener.recv(4096)))
        except BlockingIOError:
            return messages


def test_a_report_says_who_where_how_much_and_how_well(listener, reporter):
    before = time.monotonic()
    reporter.step(1, samples=512, loss=0.25)
    (message,) = received(listener)
    assert before <= message.pop("time") <= time.monotonic()
    assert message == {"role": "worker", "index": 3, "step": 1, "samples": 512, "loss": 0.25}


def test_reports_are_few_and_the_last_is_not_lost(listener, reporter):
    for step in range(1, 1001):
        reporter.step(step, samples=10)
    assert len(received(listener)) <= 2
    reporter.flush()
    assert [(message["step"], message["samples"]) for message in received(listener)] == [(1000, 10_000)]
    reporter.flush()
    assert received(listener) == []


def test_a_loss_may_be_a_tensor_and_its_graph_is_not_kept(listener, reporter):
    weight = torch.ones(3, requires_grad=True)
    reporter.step(1, 1, (weight * 2).sum())
    reporter.step(2, 1, (weight * 3).sum())
    assert reporter._loss.grad_fn is None
    reporter.flush()
    assert [message["loss"] for message in received(listener)] == [6, 9]


def test_a_loss_that_is_no_number_does_no_harm(listener, reporter):
    reporter.step(1, 1, torch.ones(2))
    assert received(listener)[0]["loss"] is None


def test_the_first_nan_is_reported_at_once(listener, reporter):
    reporter.step(1, 1, 0.5)
    reporter.step(2, 1, math.nan)
    reporter.step(3, 1, math.nan)
    messages = received(listener)
    assert [message["step"] for message in messages] == [1, 2]
    assert messages[1]["loss"] is None
    assert messages[1]["loss_is_nan"] is True
    reporter.step(4, 1, -math.inf)
    reporter.flush()
    (message,) = received(listener)
    assert (message["loss"], message["loss_is_infinite"]) == (None, True)


def test_a_worker_says_that_it_is_done(listener, reporter):
    reporter.step(1, 1)
    reporter.finished()
    assert [message.get("finished", False) for message in received(listener)] == [False, True]


def test_nobody_who_reads_does_not_hold_up_training(listener, reporter):
    began = time.monotonic()
    for step in range(100):
        reporter.step(step, 1, math.nan if step % 2 else 0.0)  # each NaN would be sent at once
    assert time.monotonic() - began < 1
    assert 1 <= len(received(listener)) < 100


def test_a_launcher_that_is_gone_is_not_missed(tmp_path, listener, reporter):
    listener.close()
    reporter.step(1, 1)
    reporter.step(2, 1)
    reporter.finished()
    nobody = Reporter(str(tmp_path / "nowhere"), index=0)
    nobody.step(1, 1)
    nobody.finished()


def test_without_a_launcher_nothing_happens():
    code = "from flota import report; report.step(1, 512, 0.5); report.finished(); assert report._reporter is None"
    assert subprocess.run([sys.executable, "-c", code], env=clean_environment()).returncode == 0


def test_servers_have_nothing_to_report(tmp_path, listener):
    code = "from flota import report; report.step(1, 512, 0.5)"
    job = {"FLOTA_REPORT": str(tmp_path / "report"), "PADDLE_TRAINER_ID": "3"}
    for role, count in (("PSERVER", 0), ("TRAINER", 1)):
        environment = clean_environment(TRAINING_ROLE=role, **job)
        assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0
        assert len(received(listener)) == count


def test_speed_is_what_lies_between_reports(tmp_path, progress):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(str(tmp_path / "report"))
        for index, moment, step in ((3, 10.0, 1), (0, 10.5, 1), (3, 12.0, 5), (0, 12.0, 4)):
            message = {
                "role": "worker",
                "index": index,
                "step": step,
                "samples": step * 100,
                "time": moment,
                "loss": 0.1,
            }
            sender.send(json.dumps(message).encode())
        progress.receive()
    assert progress.workers[3].samples_per_second == 400 / 2
    assert progress.workers[0].samples_per_second == 300 / 1.5
    assert progress.samples_per_second == 700 / 2
    assert progress.steps == 5


@pytest.mark.parametrize(
    "datagram",
    [
        b"", b"\xff\xfe", b"[]", b"{}", b"[" * 1024, b'{"role": "worker"}', b"7" * 5000,
        b'{"role": "worker", "index": 99, "step": 1, "samples": 1, "time": 1.0, "loss": null}',
        b'{"role": "worker", "index": 0, "step": -1, "samples": 1, "time": 1.0, "loss": null}',
        b'{"role": "worker", "index": 0, "step": 1, "samples": 1, "time": 1.0, "loss": "low"}',
        b'{"role": "worker", "index": [0], "step": 1, "samples": 1, "time": 1.0, "loss": null}',
    ],
)  # fmt: skip
def test_what_is_no_report_is_left_out(tmp_path, progress, datagram):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(str(tmp_path / "report"))
        sender.send(datagram)
    progress.receive()
    assert progress.steps is None
