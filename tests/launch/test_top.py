"""``flota top``: a running job in a terminal, as lines, as JSON."""

import contextlib
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launched import Launch, clean_environment

from waiting import wait_until

# Every third key is 7. It ends when the file "end" is there. It rests, or it would take the machine from other tests.
TRAIN = """
import time
from pathlib import Path
import torch, flota

flota.init()
model = flota.nn.EmbeddingCollection(features=3, dim=4)
optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.01), flota.Async())
if flota.is_server():
    flota.init_server()
    flota.run_server()
else:
    flota.init_worker()
    drawn = torch.Generator().manual_seed(flota.worker_index())
    step = 0
    while not Path("end").exists():
        keys = torch.randint(0, 10_000, (256, 3), generator=drawn)
        keys[:, 0] = 7
        loss = model(keys).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        flota.log_metrics(auc=0.75)
        time.sleep(0.005)
    flota.stop_worker()
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A launch with two servers and two workers, all of which train."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "train.py").write_text(TRAIN)
    command = [sys.executable, "-m", "flota.launch", "--server_num=2", "--worker_num=2", "--no_durable", "train.py"]
    launch = Launch(folder, command, clean_environment())
    try:
        wait_until(lambda: trains(launch, 2), timeout=120)
        yield launch
        (folder / "end").touch()
        assert launch.wait(60) == 0, launch.output
    finally:
        launch.clean_up()


def top(launch, *flags, folder=None, **settings):
    return subprocess.run(
        [sys.executable, "-m", "flota.cli", "top", *flags],
        cwd=folder or launch.folder,
        env=clean_environment(COLUMNS="80", **settings),
        capture_output=True,
        text=True,
        timeout=60,
    )


def trains(launch, workers):
    assert launch.process.poll() is None, launch.output
    done = top(launch, "--json", "--once", "--every=0.2")
    notes = [worker["note"] for worker in json.loads(done.stdout)["workers"]] if done.returncode == 0 else []
    return len(notes) == workers and all(note["step"] > 50 and note.get("samples_per_second") for note in notes)


def test_one_picture_fits_80_columns_and_has_no_colour(job):
    done = top(job, "--once")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert re.search(r"train\.py · \d\d:\d\d · [\d,]+ samples/s · loss \d\.\d{4} · AUC 0\.7500", done.stdout)
    for name in ("server 0", "server 1", "worker 0", "worker 1"):
        assert re.search(rf"^ ?{name} +\d", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"server +rows +memory .*pull/s +push/s +p50 +p99 +in/s +out/s", done.stdout)
    assert re.search(r"process +step +samples/s +loss +AUC +waits", done.stdout)
    assert re.search(r"hot keys 7 \d", done.stdout)
    assert "shards " in done.stdout


def test_lines_of_json_have_all_that_is_seen(job):
    done = top(job, "--json", "--count=2", "--every=0.5")
    assert done.returncode == 0, done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    assert [server["index"] for server in second["servers"]] == [0, 1]
    assert all(server["requests"]["pull"]["per_second"] > 0 for server in second["servers"])
    assert all(server["requests"]["pull"]["p99"] > 0 for server in second["servers"])
    assert [worker["note"]["step"] > 0 for worker in second["workers"]] == [True, True]
    assert sorted(row["name"] for row in second["processes"]) == ["server 0", "server 1", "worker 0", "worker 1"]
    (table,) = [table for table in second["tables"] if table["sparse"]]
    assert table["hot_keys"][0][0] == 7
    assert table["rows_pushed"] > next(table for table in first["tables"] if table["sparse"])["rows_pushed"]
    assert sum(rows for _, rows in table["by_server"]) == table["rows"]


def test_it_attaches_from_anywhere_with_the_secret(job, tmp_path):
    (worker, *_) = job_pids(job, "worker")
    told = Path(f"/proc/{worker}/environ").read_text().split("\0")
    environment = dict(entry.split("=", 1) for entry in told if "=" in entry)
    servers = environment["PADDLE_PSERVERS_IP_PORT_LIST"]
    settings = {name: environment[name] for name in ("FLOTA_SECRET", "FLOTA_SECRET_FILE") if name in environment}
    done = top(job, "--once", f"--servers={servers}", folder=tmp_path, **settings)
    assert done.returncode == 0, done.stderr
    assert "worker 1" in done.stdout
    refused = top(job, "--once", f"--servers={servers}", "--timeout=2", folder=tmp_path, FLOTA_SECRET="0" * 64)
    assert refused.returncode == 1
    assert "no server of this job answers" in refused.stderr
    both = top(job, f"--servers={servers}", "--log_dir=log", **settings)
    assert both.returncode == 2


def job_pids(job, role):
    found = json.loads(top(job, "--json", "--once").stdout)
    return [worker["note"]["pid"] for worker in found[f"{role}s"]]


def test_a_terminal_is_painted_over_until_q_is_pressed(job):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "flota.cli", "top", "--every=0.2"]
    environment = clean_environment(TERM="xterm-256color", COLUMNS="80", LINES="30")
    shown = subprocess.Popen(command, cwd=job.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    painted, asked = b"", False
    try:
        deadline = time.monotonic() + 60
        with contextlib.suppress(OSError):  # the other side is closed
            while time.monotonic() < deadline:
                if select.select([ours], [], [], 1.0)[0]:
                    painted += os.read(ours, 65536)
                if painted.count(b"server 1") >= 3 and not asked:
                    asked = True
                    os.write(ours, b"q")
                if shown.poll() is not None:
                    break
        assert shown.wait(10) == 0
    finally:
        shown.kill()
        os.close(ours)
    assert asked, painted[-2000:]
    assert painted.count(b"\x1b[?1049h") == painted.count(b"\x1b[?1049l") == 1
    assert b"Traceback" not in painted


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--log_dir=nowhere"], "nowhere/launch.json is not there"),
        (["--once", "--count=3"], "contradict"),
        (["--hot=-1"], "from 0"),
    ],
)
def test_what_makes_no_sense_is_refused(job, flags, says):
    done = top(job, *flags)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_the_end_of_the_job_ends_it(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    command = [sys.executable, "-m", "flota.launch", "--server_num=2", "--worker_num=1", "--max_restarts=0", "train.py"]
    launch = Launch(tmp_path, command, clean_environment(FLOTA_TIMEOUT="5"))
    watch = None
    try:
        wait_until(lambda: trains(launch, 1), timeout=120)
        with (tmp_path / "seen").open("w") as seen:
            watch = subprocess.Popen(
                [sys.executable, "-m", "flota.cli", "top", "--json", "--every=0.2"],
                cwd=tmp_path, env=clean_environment(), stdout=seen, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip

        def lines():
            return [
                json.loads(line) for line in (tmp_path / "seen").read_text().splitlines(True) if line.endswith("\n")
            ]

        wait_until(lambda: len(lines()) > 1, timeout=30)
        launch.process.terminate()
        assert launch.wait(60) != 0
        assert watch.wait(60) == 0
        assert watch.stderr.read() == "flota top: the job is over\n"
        assert all(server["error"] for server in lines()[-1]["servers"])
    finally:
        if watch is not None:
            watch.kill()
            watch.wait()
        launch.clean_up()
