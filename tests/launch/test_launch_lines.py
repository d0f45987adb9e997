"""A launch whose lines are JSON, and whose workers write event files."""

import json
import subprocess
import sys

import pytest
from launched import Launch, clean_environment
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from waiting import wait_until

TRAIN = """
import torch, flota
from pathlib import Path

flota.init()
model = torch.nn.Module()
model.rows = flota.nn.Embedding(None, 4)
optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.01), flota.Async())
if flota.is_server():
    flota.init_server()
    flota.run_server()
else:
    flota.init_worker()
    print("words of the script")
    step = 0
    while not Path("end").exists():
        loss = model.rows(torch.arange(step % 100, step % 100 + 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        flota.log_metrics(auc=0.75)
    flota.stop_worker()
"""
KEYS = {"time", "level", "role", "index", "pid", "event", "message"}


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """One that has ended well; worker 1 was killed before it had made a step, and started again."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "train.py").write_text(KILLS_ITSELF + TRAIN)
    command = [sys.executable, "-m", "flota.launch", "--server_num=1", "--worker_num=2", "--log_format=json"]
    launch = Launch(folder, [*command, "--tensorboard=runs", "train.py"], clean_environment())
    try:
        wait_until(lambda: launch.process.poll() is not None or all(map(writes, (0, 1), [folder] * 2)), timeout=150)
        (folder / "end").touch()
        assert launch.wait(60) == 0, launch.output
        yield launch
    finally:
        launch.clean_up()


KILLS_ITSELF = """
import os, signal
if os.environ.get("PADDLE_TRAINER_ID") == "1" and os.environ["FLOTA_RESTARTS"] == "0":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def writes(index, folder):
    return any(file.stat().st_size > 200 for file in folder.glob(f"runs/worker-{index}/events.*"))


def objects(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_each_line_of_the_launch_is_an_object(job):
    lines = job.output.splitlines()
    others = [line for line in lines if not line.startswith("{")]
    assert set(others) == {"words of the script"}  # of worker 0, as it came
    said = [one for one in objects(job.output) if one["role"] == "launch"]
    assert all(KEYS | {"host"} <= one.keys() for one in said)
    events = [one["event"] for one in said]
    assert events[0] == "configuration"
    assert said[0]["values"]["worker_num"] == "2"
    (told,) = [one for one in said if one["event"] == "environment" and "server 0" in one["message"]]
    assert told["values"]["TRAINING_ROLE"] == "PSERVER"
    (restart,) = [one for one in said if one["event"] == "restarting"]
    assert (restart["process"], restart["level"], restart["restart"]) == ("worker 1", "warning", 1)
    progress = [one for one in said if one["event"] == "progress"]
    assert progress[-1]["step"] > 0
    assert events[-1] == "finished"


def test_no_line_has_the_secret(job):
    assert "FLOTA_SECRET" not in job.output


def test_each_line_of_flota_on_a_worker_is_an_object(job):
    log = job.log("workerlog.0")
    (said,) = [one for one in objects(log) if one["event"] == "configuration"]
    assert said.keys() >= KEYS
    assert (said["role"], said["index"], said["level"]) == ("worker", 0, "info")
    assert "mode=async" in said["message"]
    assert "words of the script" in log.splitlines()
    assert not any(line.startswith("flota: ") for line in log.splitlines())
    assert objects(job.log("workerlog.1"))[0]["event"] == "restarting"


def test_workers_write_event_files(job):
    for index in (0, 1):
        found = EventAccumulator(str(job.folder / "runs" / f"worker-{index}")).Reload()
        tags = found.Tags()["scalars"]
        assert {"loss", "learning_rate", "metric/auc", "speed/samples_per_second", "share/pull"} <= set(tags)
        last = found.Scalars("loss")[-1]
        assert last.step > 10
        assert found.Scalars("metric/auc")[-1].value == 0.75
    assert "staleness/mean" in EventAccumulator(str(job.folder / "runs" / "worker-0")).Reload().Tags()["scalars"]


def run(folder, *flags, **settings):
    (folder / "train.py").write_text(TRAIN)
    return subprocess.run(
        [sys.executable, "-m", "flota.launch", *flags, "--server_num=1", "--worker_num=1", "train.py"],
        cwd=folder, env=clean_environment(**settings), capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "settings", "says"),
    [
        (["--tensorboard=train.py"], {}, "--tensorboard=train.py: it is there, and no folder"),
        (["--tensorboard=s3://bucket/runs"], {}, "workers write into a folder of their host"),
        (["--on=ray", "--tensorboard=runs"], {}, "--tensorboard=runs does nothing under --on ray"),
        (["--log_format=xml"], {}, "invalid choice: 'xml'"),
        ([], {"FLOTA_LOG_LEVEL": "loud"}, "FLOTA_LOG_LEVEL=loud: it is one of debug, info, warning, error"),
        ([], {"FLOTA_LOG_FORMAT": "xml"}, "FLOTA_LOG_FORMAT=xml: it is one of text, json"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, flags, settings, says):
    done = run(tmp_path, *flags, **settings)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "log").exists()


def test_a_refusal_is_an_object_too(tmp_path):
    done = run(tmp_path, "--log_format=json", "--metrics_port=65535")
    assert (done.returncode, done.stdout) == (2, "")
    (said,) = objects(done.stderr)
    assert (said["event"], said["level"], said["role"]) == ("refused", "error", "launch")
    assert said["message"].startswith("--metrics_port=65535: the job's processes need ports up to")


def test_a_missing_tensorboard_is_refused_before_anything_starts(tmp_path):
    (tmp_path / "hidden").mkdir()
    # Python finds nothing by this name in the folders of installed packages.
    (tmp_path / "hidden" / "sitecustomize.py").write_text(
        "import importlib.util as u\nplain = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'tensorboard' else plain(name, *more)\n"
    )
    done = run(tmp_path, "--tensorboard=runs", PYTHONPATH=str(tmp_path / "hidden"))
    assert done.returncode == 2
    assert "pip install 'flota[tensorboard]'" in done.stderr
    assert not (tmp_path / "log").exists()


def test_below_the_level_a_launch_says_nothing(start):
    launch = start("if is_server:\n    serve()\n", "--worker_num=1", "--view=none", FLOTA_LOG_LEVEL="error")
    assert launch.wait() == 0
    assert launch.output == ""


def test_a_failure_is_an_object_with_its_process(start):
    launch = start("if is_server:\n    serve()\nsys.exit(3)\n", "--log_format=json", "--view=none")
    assert launch.wait() == 3
    (said,) = [one for one in objects(launch.output) if one["event"] == "process_failed"]
    assert (said["process"], said["status"], said["level"]) == ("worker 0", 3, "error")
    assert "worker 0" in said["message"]
    assert all(line.startswith("{") for line in launch.output.splitlines())
    assert "flota launch: " not in launch.output
