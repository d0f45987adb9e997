"""Whole jobs: half the steps, a checkpoint, and the other half in another job are the same as all steps in one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parent / "resumed.py"


def job(folder, servers, workers=2, fails=False, **settings):
    """Runs the script as a job, and returns what worker 0 had at the end, or what was printed if it fails."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable]
    if servers:
        command += ["-m", "flota.launch", f"--server_num={servers}", f"--worker_num={workers}", "--log_dir", folder]
    done = subprocess.run(
        [*command, SCRIPT, json.dumps({"out": str(folder), **settings})],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=folder,
        check=False,
        env={**os.environ, "FLOTA_TIMEOUT": "20"},
    )
    if fails:
        assert done.returncode != 0
        return done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    with np.load(folder / "result.npz") as result:
        return {name: result[name] for name in result.files}


def same(one, other):
    for name, values in one.items():
        assert np.array_equal(values, other[name]), name


@pytest.mark.parametrize(
    ("optimizer", "how"),
    [
        ("Adagrad", "workers"),
        ("Adam", "servers"),
    ],
)
def test_a_job_goes_on_where_another_stopped_on_other_servers(tmp_path, optimizer, how):
    straight = job(tmp_path / "straight", 2, optimizer=optimizer, first=0, last=40)
    saved = str(tmp_path / "saved")
    job(tmp_path / "half", 1, optimizer=optimizer, first=0, last=20, save=saved)
    # Another number of servers, and other blocks.
    rest = job(tmp_path / "rest", 3, optimizer=optimizer, first=20, last=40, load=saved, how=how, min_block_size=16)
    same(straight, rest)


def test_training_alone_goes_on_with_servers_and_back(tmp_path):
    straight = job(tmp_path / "straight", 0, optimizer="Adam", first=0, last=30)
    saved = [str(tmp_path / f"saved{i}") for i in range(2)]
    job(tmp_path / "alone", 0, optimizer="Adam", first=0, last=10, save=saved[0])
    settings = {"optimizer": "Adam", "workers": 1}
    job(tmp_path / "servers", 2, first=10, last=20, load=saved[0], save=saved[1], **settings)
    back = job(tmp_path / "back", 0, optimizer="Adam", first=20, last=30, load=saved[1], how="workers")
    assert back["steps"] == 30
    for name, values in straight.items():
        np.testing.assert_allclose(back[name], values, rtol=1e-5, atol=1e-6, err_msg=name)


def test_async_workers_begin_with_what_was_loaded(tmp_path):
    saved = str(tmp_path / "saved")
    one = job(tmp_path / "one", 2, optimizer="Adagrad", first=0, last=10, mode="async", save=saved, workers=1)
    other = job(tmp_path / "other", 1, optimizer="Adagrad", first=10, last=10, mode="async", load=saved)
    same(one, other)


def test_servers_refuse_a_folder_that_is_not_there(tmp_path):
    settings = {"first": 1, "last": 2, "load": str(tmp_path / "nowhere"), "how": "servers"}
    said = job(tmp_path / "job", 1, fails=True, optimizer="SGD", **settings)
    assert f"there is no checkpoint at {tmp_path / 'nowhere'}: the folder does not exist" in said
