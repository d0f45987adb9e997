"""Admission and shrinking in whole jobs: servers and workers make no difference to who gets a row."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parent / "admission_job.py"


def run(folder, servers, workers, fails=False, **settings):
    folder.mkdir(exist_ok=True)
    command = [sys.executable]
    if servers:
        command += ["-m", "flota.launch", f"--server_num={servers}", f"--worker_num={workers}", "--log_dir", folder]
    done = subprocess.run(
        [*command, SCRIPT, json.dumps({**settings, "out": str(folder)})],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=folder,
        check=False,
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    if fails:
        return done.stdout + done.stderr
    results = []
    for rank in range(max(workers, 1)):
        with np.load(folder / f"result-{rank}.npz") as result:
            results.append({name: result[name] for name in result.files})
    for other in results[1:]:
        assert np.array_equal(results[0]["removed"], other["removed"])
    return results[0]


@pytest.mark.parametrize("admission", ["count", "probability", "score"])
def test_sync_admits_and_removes_what_one_process_does(tmp_path, admission):
    settings = {"mode": "sync", "admission": admission, "steps": 30, "shrinks": 10}
    alone = run(tmp_path / "alone", 0, 0, **settings)
    here = (alone["rows"] != 0).any(axis=1)
    assert 0 < here.sum() < len(here)
    assert alone["removed"].sum() > 0
    for servers, workers in ((1, 1), (2, 2)):
        job = run(tmp_path / f"{servers}{workers}", servers, workers, **settings)
        assert np.array_equal((job["rows"] != 0).any(axis=1), here)
        assert np.array_equal(job["removed"], alone["removed"])
        np.testing.assert_allclose(job["rows"], alone["rows"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["async", "merged"])
def test_async_counts_every_appearance_once(tmp_path, mode):
    """Who has come three times has a row, whatever the order in which pushes came."""
    settings = {"admission": "count", "steps": 30}
    alone = run(tmp_path / "alone", 0, 0, mode="sync", **settings)
    job = run(tmp_path / "job", 2, 2, mode=mode, **settings)
    assert np.array_equal((job["rows"] != 0).any(axis=1), (alone["rows"] != 0).any(axis=1))


def test_geo_mode_refuses_it(tmp_path):
    said = run(tmp_path / "geo", 1, 1, fails=True, mode="geo", admission="count", steps=2)
    assert "is for sync and async mode" in said
