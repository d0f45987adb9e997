"""Jobs that save what they train, and others that go on with it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "jobs" / "saves.py"


def launch(folder, *arguments, servers=1, workers=2):
    log = folder / "log"
    shutil.rmtree(log, ignore_errors=True)
    command = [
        sys.executable, "-m", "flota.launch", "--paddle", f"--server_num={servers}", f"--worker_num={workers}",
        "--view=none", f"--log_dir={log}", str(SCRIPT), *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=110)
    logs = [path.read_text() for path in sorted(log.glob("workerlog.*"))]
    assert done.returncode == 0, done.stdout + done.stderr + "".join(logs)
    return logs


def said(log, word):
    return re.findall(rf"^{word} (.*)$", log, re.MULTILINE)


@pytest.mark.parametrize("mode", ["sync", "async", "geo"])
def test_a_job_goes_on_with_what_another_has_saved(tmp_path, mode):
    saved = str(tmp_path / "model")
    first, second = launch(tmp_path, mode, "save", saved)
    assert said(first, "kept") == ["[20.0]"]
    assert said(second, "scores") == said(first, "served")  # both have what the servers have
    scores = said(second, "scores")
    for action, servers in (("load", 2), ("infer", 2)) if mode == "async" else (("load", 1),):
        for log in launch(tmp_path, mode, action, saved, servers=servers, workers=1):
            assert said(log, "scores") == scores
            if action == "load":
                assert said(log, "kept") == ["[21.0]"]


def test_a_job_saves_what_has_changed_since_its_base(tmp_path):
    (days,) = launch(tmp_path, "async", "days", str(tmp_path / "model"), workers=1)
    last = str(tmp_path / "model" / "19")
    for action, servers in (("load", 2), ("go_on", 1)):
        (log,) = launch(tmp_path, "async", action, last, servers=servers, workers=1)
        if action == "load":  # statistics of batches are the workers' own
            assert said(log, "scores") == said(days, "scores")
        assert said(log, "rows") == said(days, "rows")


def test_servers_begin_with_some_parameters_only(tmp_path):
    (first,) = launch(tmp_path, "async", "save", str(tmp_path / "model"), workers=1)
    (some,) = launch(tmp_path, "async", "some", str(tmp_path / "model"), servers=2, workers=1)
    assert said(some, "rows") == said(first, "rows")
    assert said(some, "scores") != said(first, "scores")
