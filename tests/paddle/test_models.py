"""Models as repositories of them write them: trained, and compared with what the reference has made of them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MODELS = Path(__file__).parent / "models"
GOLDEN = json.loads((Path(__file__).parent / "golden" / "models.json").read_text())
CTR = ["autoint", "dcn", "deepfm", "wide_deep", "xdeepfm"]
TWINS = ["dcn/fluid_model", "wide_deep/dygraph_model"]


def run(folder, *arguments):
    command = [sys.executable, "-m", "flota.paddle", *arguments]
    # Readers are pipe commands that say `python`; arithmetic this small is slower with more threads.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=110, env=env)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What happened in a process that has trained all of them."""
    folder = tmp_path_factory.mktemp("models") / "models"
    shutil.copytree(MODELS, folder)
    run(folder, "tools/train_all.py", "record.json", *CTR, *TWINS)
    records = json.loads((folder / "record.json").read_text())
    return {name: {**record, "program": _text(folder / name)} for name, record in records.items()}


def _text(folder):
    path = folder / "program.txt"
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("name", CTR)
def test_a_model_trains_as_with_the_reference(trained, name):
    found, wanted = trained[name], GOLDEN[name]
    assert "failed" not in found, found["failed"]
    assert found["parameters"] == wanted["parameters"]
    for fetched, values in wanted["fetched"].items():
        assert found["fetched"][fetched] == pytest.approx(values, rel=1e-5, abs=1e-6), fetched
    assert found.get("served", []) == pytest.approx(wanted.get("served", []), rel=1e-5)
    for parameter, (total, size) in wanted["after"].items():
        assert found["after"][parameter] == pytest.approx([total, size], rel=1e-5, abs=1e-5 * size), parameter


@pytest.mark.parametrize("name", CTR)
def test_a_printed_program_shows_parameters_and_operations(trained, name):
    text = trained[name]["program"]
    for parameter in GOLDEN[name]["parameters"]:
        assert f"param {parameter} : LOD_TENSOR" in text
    assert "= auc_area(" in text


def test_the_same_model_of_1_x_trains_alike(trained):
    found = trained["dcn/fluid_model"]
    assert "failed" not in found, found["failed"]
    assert found["parameters"] == GOLDEN["dcn"]["parameters"]
    assert found["fetched"]["total"] == pytest.approx(GOLDEN["dcn"]["fetched"]["total"], rel=1e-5)


def test_the_same_model_without_a_program_trains_alike(trained):
    found = trained["wide_deep/dygraph_model"]
    assert "failed" not in found, found["failed"]
    wanted = GOLDEN["wide_deep"]
    assert found["parameters"] == wanted["parameters"]
    assert found["fetched"]["loss"] == pytest.approx(wanted["fetched"]["loss"], rel=1e-5)
    assert found["fetched"]["auc"][0] == pytest.approx(wanted["fetched"]["auc"][-1], abs=1e-3)  # by other buckets


@pytest.mark.parametrize(("name", "mode"), [("dcn", "async"), ("dcn", "geo"), ("xdeepfm", "sync")])
def test_a_model_learns_with_servers(tmp_path, name, mode):
    folder = tmp_path / "models"
    shutil.copytree(MODELS, folder)
    data = folder / name / "data" / "train"
    data.mkdir(parents=True)
    code = f"import click_data; click_data.write({str(data)!r}, files=2, lines=600)"
    subprocess.run([sys.executable, "-c", code], cwd=folder / "tools", check=True)
    options = [f"hyper_parameters.optimizer.strategy={mode}", "hyper_parameters.optimizer.learning_rate=0.2"]
    options += ["runner.epochs=6", *(["hyper_parameters.distributed_embedding=1"] if name == "dcn" else [])]
    launcher = ["-m", "paddle.distributed.launch", "--server_num=1", "--worker_num=2", "--view=none"]
    run(folder, *launcher, "tools/static_ps_trainer.py", "-m", f"{name}/config.yaml", "-o", *options)
    results = [json.loads((folder / name / f"result_{worker}.json").read_text()) for worker in range(2)]
    assert results[0] == results[1]
    assert results[0]["auc"][-1] > max(results[0]["auc"][0], 0.52)
    assert (folder / name / "output" / "5_inference").exists()
