"""The documents' programs, as they stand, under the launcher."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flota.data.synthetic import Clicks

DOCUMENTS = Path(__file__).parent / "documents"


def launch(folder, *arguments, servers=1, workers=2, script="train.py"):
    command = [
        sys.executable, "-m", "flota.paddle", "-m", "paddle.distributed.launch", f"--server_num={servers}",
        f"--worker_num={workers}", "--view=none", script, *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    return [(folder / "log" / f"workerlog.{i}").read_text() for i in range(workers)]


def unused_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture
def workspace(tmp_path):
    def make(name):
        folder = tmp_path / name
        shutil.copytree(DOCUMENTS / name, folder)
        return folder

    return make


QUICK_STARTS = pytest.mark.parametrize(("name", "steps"), [("quick_start", 375), ("quick_start_2", 300)])
# Each begins with a comment; the document shows them one after the other.
STRATEGIES = {"async": "# 定义异步训练", "sync": "# 定义同步训练", "geo": "# 定义Geo异步训练"}


def losses_of(log):
    return [float(text) for text in re.findall(r"TRAIN ---> pass: 0 loss: (\S+)", log)]


@QUICK_STARTS
def test_the_quick_starts_run_as_they_stand(workspace, name, steps):
    """With all three strategies, of which the last one counts."""
    for log in launch(workspace(name)):
        losses = losses_of(log)
        assert len(losses) == steps
        assert np.isfinite(losses).all()


@QUICK_STARTS
@pytest.mark.parametrize("mode", STRATEGIES)
def test_the_quick_starts_learn_in_every_mode(workspace, name, steps, mode):
    """With one of the strategies, and a rate that a few hundred steps learn by."""
    folder = workspace(name)
    listing = folder / "train.py"
    before, blocks = listing.read_text().split(STRATEGIES["async"])
    blocks, after = (STRATEGIES["async"] + blocks).split("optimizer = paddle.optimizer.SGD(learning_rate=0.0001)")
    (chosen,) = (block for block in blocks.split("\n\n") if block.startswith(STRATEGIES[mode]))
    listing.write_text(f"{before}{chosen}\n\noptimizer = paddle.optimizer.SGD(learning_rate=0.1){after}")
    for log in launch(folder):
        losses = losses_of(log)
        assert len(losses) == steps
        assert np.mean(losses[-75:]) < 0.8 * np.mean(losses[:75])


ASYNC_1X = """config.sync_mode = False
config.split_method = "HashName"
config.slice_var_up = False"""


@pytest.mark.parametrize("settings", ["config.sync_mode = True", ASYNC_1X])
def test_the_fleet_of_1_x_trains_where_the_script_says_who_it_is(workspace, settings):
    folder = workspace("fleet_1x")
    listing = folder / "train.py"
    listing.write_text(listing.read_text().replace("config.sync_mode = True", settings))
    count = 1 + (settings == ASYNC_1X)
    servers = ",".join(f"127.0.0.1:{port}" for port in unused_ports(count))
    command = [sys.executable, "-m", "flota.paddle", "train.py"]
    places = [*(("server", str(number)) for number in range(count)), ("worker", "0"), ("worker", "1")]
    processes = [
        subprocess.Popen(
            [*command, *place, servers],
            cwd=folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "FLOTA_SECRET": "a secret of this test"},
        )
        for place in places
    ]
    try:
        outputs = [process.communicate(timeout=100)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0, output
    for output in outputs[count:]:
        passes = re.findall(r"Pass (\d), cost = (\S+), auc = (\S+), batch_auc = (\S+)", output)
        assert len(passes) == 400
        assert float(passes[-1][2]) > 0.9


def click_through(workspace, epochs):
    """The listing in small size: not twenty epochs, one reader, and a rate that a few hundred steps learn by."""
    folder = workspace("click_through")
    (folder / "raw_data").mkdir()
    Clicks(4000).write(folder / "raw_data", files=2)
    listing = folder / "train.py"
    text = listing.read_text()
    for before, after in (("epoch=20", f"epoch={epochs}"), ("thread_num = 10", "thread_num = 1"), ("1e-4", "0.05")):
        assert before in text
        text = text.replace(before, after)
    listing.write_text(text.replace("debug=False", "debug=False, print_period=10"))
    return folder


def areas_of(log):
    return [float(area) for area in re.findall(r"auc: \[(\S+)\]", log)]


def test_the_click_through_listing_trains_from_files_through_its_pipe(workspace):
    logs = launch(click_through(workspace, 4))
    assert max(area for log in logs for area in areas_of(log)) > 0.59


def test_the_click_through_listing_trains_alone(workspace):
    folder = click_through(workspace, 3)
    command = [sys.executable, "-m", "flota.paddle", "train.py", "--is_local", "1"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert max(areas_of(done.stdout + done.stderr)) > 0.59
