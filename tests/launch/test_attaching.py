"""Who looks at the job of a launch on this host: it tells them how its servers are asked, and how its processes are."""

import json
import subprocess
import sys

from launched import clean_environment
from test_scaling import LIGHT_JOB

from waiting import wait_until

# Attaches as flota top does, in a process that knows nothing of the job.
LOOK = """
import argparse, dataclasses, json
from flota.observe import attach
parser = argparse.ArgumentParser()
attach.add_arguments(parser)
attached = attach.attach(parser.parse_args())
sight = attached.looker().look()
print(json.dumps({
    "title": attached.title,
    "servers": attached.servers,
    "alive": [server.alive for server in sight.servers],
    "why": [server.error for server in sight.servers],
    "log_dir": str(attached.log_dir),
    "durable": str(attached.durable),
    "processes": attached.processes(),
}))
"""


def look(folder, *flags, **settings):
    return subprocess.run(
        [sys.executable, "-c", LOOK, *flags],
        cwd=folder,
        env=clean_environment(**settings),
        capture_output=True,
        text=True,
        timeout=60,
    )


def seen(folder, *flags, **settings):
    done = look(folder, *flags, **settings)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_launch_tells_how_its_servers_are_asked(start, tmp_path):
    launch = start(LIGHT_JOB, "--server_num=2", "--worker_num=1", "--view=none")
    launch.pids("server.0", "server.1", "worker.0")
    found = seen(tmp_path)
    assert found["title"] == "train.py"
    assert found["alive"] == [True, True], found["why"]
    assert found["log_dir"] == str(tmp_path / "log")
    assert found["durable"] == str(tmp_path / "log" / "durable")
    assert [(row["name"], row["state"], row["running"]) for row in found["processes"]] == [
        ("worker 0", "running", True), ("server 0", "running", True), ("server 1", "running", True)
    ]  # fmt: skip
    names = ["workerlog.0", "serverlog.0", "serverlog.1"]
    assert [row["log"] for row in found["processes"]] == [str(tmp_path / "log" / name) for name in names]
    (tmp_path / "end").touch()
    assert launch.wait() == 0, launch.output


def test_a_job_with_certificates_is_seen_from_any_folder(start, tmp_path):
    # 127.0.0.1 needs none; they are asked for.
    subprocess.run(
        [sys.executable, "-m", "flota.cli", "certs", "set", "--host", "127.0.0.1", "--client"],
        cwd=tmp_path, env=clean_environment(), check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    launch = start(LIGHT_JOB, "--server_num=1", "--worker_num=1", "--view=none", "--certs=set", "--no_durable")
    launch.pids("server.0", "worker.0")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    found = seen(elsewhere, f"--log_dir={tmp_path / 'log'}", FLOTA_SECRET="of another job", FLOTA_INSECURE="1")
    assert found["alive"] == [True], found["why"]
    assert found["durable"] == "None"
    (tmp_path / "end").touch()
    assert launch.wait() == 0, launch.output


def test_a_process_that_was_started_again_is_seen_so(start, tmp_path):
    script = "import signal\nif is_server: serve()\nready()\nif restarts == 0: die()\nserve()"
    launch = start(script, "--server_num=1", "--worker_num=1", "--view=none")
    wait_until(lambda: "starting it again" in launch.output, timeout=30)
    wait_until(lambda: [row["restarts"] for row in seen(tmp_path)["processes"]] == [1, 0], timeout=60)


def test_where_no_launch_runs_it_is_said(tmp_path):
    done = look(tmp_path)
    assert done.returncode != 0
    assert "no launch runs a job here: log/launch.json is not there" in done.stderr
    done = look(tmp_path, "--servers=127.0.0.1:6170")
    assert "no secret" in done.stderr
