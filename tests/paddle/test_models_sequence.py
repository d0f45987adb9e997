"""Models of sequences, tasks and towers, as their authors write them: what the reference's training gives, alone; and
what the launcher makes of them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
MODELS = HERE / "models"
GOLDEN = json.loads((HERE / "golden" / "sequence_models.json").read_text())
NAMES = sorted(name for name, found in GOLDEN.items() if isinstance(found, dict))

sys.path.insert(0, str(MODELS))
import synthetic  # noqa: E402


def paddle(folder, *arguments):
    command = [sys.executable, "-m", "flota.paddle", *map(str, arguments)]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # several processes on two cores would wait for each other's threads
    done = subprocess.run(command, cwd=folder, env=alone, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Twenty steps of each model."""
    folder = tmp_path_factory.mktemp("models")
    paddle(folder, MODELS / "steps.py", "record.json", *NAMES, "mmoe:eager")
    return json.loads((folder / "record.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_a_model_trains_as_with_the_reference(trained, name):
    found, golden = trained[name], GOLDEN[name]
    assert list(found["parameters"].items()) == list(golden["parameters"].items())
    assert found["metrics"] == golden["metrics"]
    np.testing.assert_allclose(found["steps"], golden["steps"], rtol=1e-5, atol=1e-7)
    assert found["last"] == pytest.approx(golden["last"], rel=1e-4, abs=1e-5)
    assert found["inferred"] == pytest.approx(golden["inferred"], rel=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_as_text_names_its_parameters(trained, name):
    for parameter, shape in GOLDEN[name]["parameters"].items():
        sides = ", ".join(map(str, shape))
        assert re.search(rf"param {re.escape(parameter)} : .*shape\({sides},?\)", trained[name]["program"])


def test_a_model_without_a_program_trains_as_the_one_with_it(trained):
    found, golden = trained["mmoe:eager"], GOLDEN["mmoe"]
    columns = [golden["metrics"].index(name) for name in found["metrics"]]
    np.testing.assert_allclose(found["steps"], np.array(golden["steps"])[:, columns], rtol=1e-5)
    assert found["last"] == pytest.approx(golden["last"], rel=1e-4)


def test_word2vec_of_1_x_trains_as_with_the_reference(tmp_path):
    synthetic.write("word2vec", tmp_path, lines=16)
    printed = paddle(tmp_path, MODELS / "word2vec" / "train.py", "--data_dir", tmp_path)
    costs = [float(cost) for cost in re.findall(r"avg_cost: (\S+)", printed)]
    assert costs == pytest.approx(GOLDEN["word2vec"], rel=1e-5)


@pytest.mark.parametrize("mode", ["sync", "async", "geo"])
def test_two_tasks_on_one_table_train_with_servers(tmp_path, mode):
    shutil.copytree(MODELS, tmp_path / "models")
    for number in range(2):
        (tmp_path / "data").mkdir(exist_ok=True)
        synthetic.write("esmm", tmp_path / "data", lines=320, number=number)
    launch = ["-m", "paddle.distributed.launch", "--server_num=1", "--worker_num=2", "--view=none"]
    paddle(tmp_path, *launch, tmp_path / "models" / "ps_train.py", "esmm", mode, tmp_path / "data")
    first, last = [], []
    for worker in range(2):
        log = (tmp_path / "log" / f"workerlog.{worker}").read_text()
        assert re.findall(r"epoch \d: (\d+) samples", log) == ["320", "640", "960", "1280"]
        costs = [float(cost) for cost in re.findall(r"cost: \[?([\d.]+)", log)]
        epoch = len(costs) // 4
        first += costs[:epoch]
        last += costs[-epoch:]
        assert "lookup_table" in (tmp_path / f"program_{worker}.txt").read_text()
    # Of both workers: together they read all of the data in each epoch, and who reads what differs.
    assert np.mean(last) < np.mean(first)
    assert any((tmp_path / "saved_model").iterdir())
