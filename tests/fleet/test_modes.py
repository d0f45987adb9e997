"""Whole jobs through the launcher: what they train, against plain torch."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from flota.nn.naming import reset_names

# The script is a user's: one file for servers, workers and training alone. FLOTA_TEST says what to train.
SCRIPT = Path(__file__).parent / "train.py"
STEPS, BATCH = 50, 32


def run(folder, mode, optimizer, servers, workers, steps=STEPS, **settings):
    """Runs the script as a job, and returns what worker 0 had at the end."""
    settings |= {"mode": mode, "optimizer": optimizer, "steps": steps, "batch": BATCH, "out": str(folder)}
    command = [sys.executable]
    if servers:
        command += ["-m", "flota.launch", f"--server_num={servers}", f"--worker_num={workers}", "--log_dir", folder]
    done = subprocess.run(
        [*command, SCRIPT, json.dumps(settings)], capture_output=True, text=True, timeout=100, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with np.load(folder / "result.npz") as result:
        return {name: result[name] for name in result.files}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Plain torch in one process on whole batches, by optimizer."""
    sys.path.insert(0, str(SCRIPT.parent))
    import train

    reset_names()
    results = {}

    def result(optimizer):
        if optimizer not in results:
            results[optimizer] = train.plain_torch(optimizer, STEPS, BATCH)
        return results[optimizer]

    return result


@pytest.mark.parametrize("optimizer", ["SGD", "Adagrad", "Adam"])
def test_sync_equals_one_process_on_the_whole_batch(tmp_path, alone, optimizer):
    trained = run(tmp_path, "sync", optimizer, servers=2, workers=2)
    for name, values in alone(optimizer).items():
        np.testing.assert_allclose(trained[name], values, rtol=1e-6, atol=1e-6, err_msg=name)


def test_workers_with_larger_batches_weigh_more(tmp_path, alone):
    """128 samples over 3 workers are 42, 43 and 43."""
    trained = run(tmp_path, "sync", "SGD", servers=1, workers=3)
    for name, values in alone("SGD").items():
        np.testing.assert_allclose(trained[name], values, rtol=1e-6, atol=1e-6, err_msg=name)


def test_sync_runs_are_the_same_bit_for_bit_on_any_number_of_servers(tmp_path):
    runs = []
    for number, servers in enumerate((1, 1, 2, 3)):
        folder = tmp_path / str(number)
        folder.mkdir()
        runs.append(run(folder, "sync", "Adagrad", servers, workers=2, steps=15))
    for other in runs[1:]:
        for name, values in runs[0].items():
            assert np.array_equal(values, other[name]), name


def test_training_alone_equals_torch(tmp_path, alone):
    trained = run(tmp_path, "sync", "Adam", servers=0, workers=1)
    for name, values in alone("Adam").items():
        np.testing.assert_allclose(trained[name], values, rtol=1e-6, atol=1e-6, err_msg=name)


def test_async_learns(tmp_path):
    # Adagrad's steps shrink: it settles however stale the gradients are on a busy machine.
    trained = run(tmp_path, "async", "Adagrad", servers=2, workers=2, steps=300)
    assert trained["loss"][-20:].mean() < 0.7 * trained["loss"][:5].mean()


def test_workers_with_less_data_do_not_hang_the_others(tmp_path):
    trained = run(tmp_path, "uneven", "SGD", servers=1, workers=3, steps=10)
    assert np.isfinite(trained["loss"]).all()
    assert torch.from_numpy(trained["sums"]).tolist() == [33.0, 10.0, 12.0], "sum, least and greatest of the steps"
