"""Every process of a launch tells Prometheus what it counts, and the dashboard asks for nothing else."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from launched import Launch, clean_environment
from prometheus_client.parser import text_string_to_metric_families

from flota.prometheus.families import FAMILIES, SUMMARY
from waiting import wait_until

ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "deploy/grafana/flota.json").read_text())

# It ends when the file "end" is there. It rests, or it would take the machine from other tests.
TRAIN = """
import time
from pathlib import Path
import torch, flota

flota.init()
model = torch.nn.Module()
model.rows = flota.nn.Embedding(None, 4)
model.out = torch.nn.Linear(4, 1)
optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.01), flota.Async())
if flota.is_server():
    flota.init_server()
    flota.run_server()
else:
    flota.init_worker()
    step = 0
    while not Path("end").exists():
        loss = model.out(model.rows(torch.arange(step % 100, step % 100 + 64))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        flota.log_metrics(auc=0.75, recall=0.5)
        time.sleep(0.005)
    flota.stop_worker()
"""


def first_of(count):
    """The first of so many ports that nobody uses."""
    for first in range(20_100, 31_000, 97):
        held = []
        try:
            for port in range(first, first + count):
                held.append(socket.create_server(("127.0.0.1", port)))
            return first
        except OSError:
            continue
        finally:
            for one in held:
                one.close()
    raise AssertionError("no ports are free")


def get(port, path="/metrics"):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.read().decode(), answer.headers["Content-Type"]


def scraped(port):
    """The text, or nothing where nobody answers."""
    try:
        return get(port)[0]
    except (OSError, urllib.error.URLError):
        return ""


def start(folder, *flags, **settings):
    (folder / "train.py").write_text(TRAIN)
    command = [sys.executable, "-m", "flota.launch", "--server_num=2", "--worker_num=2", *flags, "train.py"]
    return Launch(folder, command, clean_environment(**settings))


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A launch with two servers and two workers, all of which train; its first metrics port is ``job.first``."""
    first = first_of(5)
    launch = start(tmp_path_factory.mktemp("job"), f"--metrics_port={first}", FLOTA_SNAPSHOT_SECONDS="1")
    launch.first = first
    try:
        wait_until(lambda: trains(launch), timeout=120)
        yield launch
        (launch.folder / "end").touch()
        assert launch.wait(60) == 0, launch.output
        assert scraped(first) == ""
    finally:
        launch.clean_up()


def trains(launch):
    assert launch.process.poll() is None, launch.output
    steps = [re.search(r"^flota_steps_total\S* (\S+)$", scraped(launch.first + at), re.MULTILINE) for at in (3, 4)]
    return all(step and float(step[1]) > 20 for step in steps)


def test_each_process_has_a_port_of_its_own_that_can_be_foretold(job):
    roles = []
    for port in range(job.first, job.first + 5):
        text, kind = get(port)
        assert kind == "text/plain; version=0.0.4; charset=utf-8"
        found = {
            (sample.labels["role"], sample.labels["index"])
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        assert len(found) == 1
        roles += found
    assert roles == [("launch", "0"), ("server", "0"), ("server", "1"), ("worker", "0"), ("worker", "1")]
    assert f"metrics: http://127.0.0.1:{job.first}/metrics of this launch" in job.output


def test_nobody_listens_beyond_loopback(job):
    own = set(range(job.first, job.first + 5))
    listening = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        address, state = line.split()[1], line.split()[3]
        host, port = address.split(":")
        if state == "0A" and int(port, 16) in own:
            listening.append(host)
    assert set(listening) == {"0100007F"}
    assert len(listening) == 5
    assert not any(port in own for port in ports6())


def ports6():
    file = Path("/proc/net/tcp6")
    lines = file.read_text().splitlines()[1:] if file.exists() else []
    return [int(line.split()[1].split(":")[1], 16) for line in lines]


def test_prometheus_is_told_where_they_all_are(job):
    text, kind = get(job.first, "/targets")
    (group,) = json.loads(text)
    assert kind == "application/json"
    assert sorted(group["targets"]) == [f"127.0.0.1:{job.first + at}" for at in range(5)]


def test_the_launch_tells_of_its_processes(job):
    text = get(job.first)[0]
    for process in ("server 0", "server 1", "worker 0", "worker 1"):
        assert f'flota_launch_process_up{{index="0",process="{process}",role="launch"}} 1.0' in text
        assert f'flota_launch_process_restarts_total{{index="0",process="{process}",role="launch"}} 0.0' in text


def exported(job):
    """The names of all samples of all processes, as queries name them."""
    found = set()
    for port in range(job.first, job.first + 5):
        for family in text_string_to_metric_families(get(port)[0]):
            found |= {sample.name for sample in family.samples}
    return found


def expressions():
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    found = [target["expr"] for panel in panels for target in panel["targets"]]
    variables = [v["query"]["query"] for v in DASHBOARD["templating"]["list"] if v["type"] == "query"]
    return found + variables


# Of data sets alone, which this job does not read.
OF_PASSES = {"flota_pass_done_ratio", "flota_pass_remaining_seconds", "flota_pass_epoch"}


def test_the_dashboard_asks_for_what_is_exported(job):
    asked = set(re.findall(r"\bflota_\w+", " ".join(expressions())))
    assert len(asked) > 25
    assert asked - exported(job) == OF_PASSES
    assert set(FAMILIES) >= OF_PASSES


def test_the_dashboard_asks_for_kinds_and_parts_that_there_are(job):
    texts = "".join(get(job.first + at)[0] for at in range(5))
    for expression in expressions():
        for label, sign, wanted in re.findall(r'\b(kind|part|metric)(=~|=)"([^"]+)"', expression):
            there = set(re.findall(rf'\b{label}="([^"]+)"', texts))
            matching = [one for one in there if re.fullmatch(wanted if sign == "=~" else re.escape(wanted), one)]
            assert matching, f"{expression}: there is no {label} {wanted}"


def test_the_dashboard_is_whole():
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert len({panel["title"] for panel in panels}) == len(panels)
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    for expression in expressions():
        assert 'job="$job"' in expression or "label_values" in expression
        for counter in re.findall(r"(flota_\w+_total)\{", expression):
            assert f"rate({counter}" in expression or "restarts" in counter or "failures" in counter
    assert {"datasource", "job"} == {variable["name"] for variable in DASHBOARD["templating"]["list"]}


PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not there: install Debian's package prometheus")
def test_promtool_has_nothing_to_say(job, tmp_path):
    for port in range(job.first, job.first + 5):
        done = subprocess.run(
            [PROMTOOL, "check", "metrics"], input=get(port)[0], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
    rules = [
        {"record": f"panel:{i}", "expr": text.replace("$job", "flota").replace("$__rate_interval", "1m")}
        for i, text in enumerate(expressions())
        if "label_values" not in text
    ]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(
        [PROMTOOL, "check", "rules", "rules.json"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_family_is_told_by_somebody(job):
    """All but those of jobs that read data sets, wait for admission, or have come to hold what this one has not."""
    there = exported(job)
    missing = {
        name
        for name, family in FAMILIES.items()
        if not {name, f"{name}_bucket", f"{name}_count"} & there
        or (family.kind == SUMMARY and f"{name}_sum" not in there)
    }
    assert missing == OF_PASSES | {"flota_table_waiting_keys"}


# --- what cannot be had ---


def test_a_port_that_is_taken_is_refused_before_anything_starts(tmp_path):
    first = first_of(5)
    with socket.create_server(("127.0.0.1", first + 3)):
        launch = start(tmp_path, f"--metrics_port={first}")
        try:
            assert launch.wait(60) == 1
        finally:
            launch.clean_up()
    assert f"port {first + 3} is in use: the metrics port of worker 0 cannot listen" in launch.output
    assert not (tmp_path / "log" / "workerlog.0").exists()


@pytest.mark.parametrize(
    ("flags", "settings", "says"),
    [
        (["--metrics_port=65533"], {}, "the job's processes need ports up to 65537"),
        (["--metrics_host=0.0.0.0"], {}, "--metrics_host is the address of ports that nobody asked for"),
        ([], {"FLOTA_METRICS_PORT": "nine"}, "FLOTA_METRICS_PORT=nine: a port is a number"),
        (["--metrics_port=6200", "--servers=127.0.0.1:6201,127.0.0.1:6170"], {}, "127.0.0.1:6201 is of the job"),
        (["--on=ray"], {"FLOTA_METRICS_PORT": "9300"}, "--metrics_port=9300 does nothing under --on ray"),
    ],
)
def test_what_would_not_act_is_refused(tmp_path, flags, settings, says):
    flags = [*flags, "--server_num=2"]
    (tmp_path / "train.py").write_text(TRAIN)
    command = [sys.executable, "-m", "flota.launch", *flags, "--worker_num=2", "train.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=clean_environment(**settings), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_process_that_was_started_again_is_at_its_port_again(tmp_path):
    first = first_of(5)
    launch = start(tmp_path, FLOTA_METRICS_PORT=str(first))
    launch.first = first
    try:
        wait_until(lambda: trains(launch), timeout=120)
        told = json.loads(subprocess.run(
            [sys.executable, "-m", "flota.cli", "top", "--json", "--once"],
            cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=60,
        ).stdout)  # fmt: skip
        pid = next(worker["note"]["pid"] for worker in told["workers"] if worker["index"] == 1)
        os.kill(pid, 9)
        again = 'flota_launch_process_restarts_total{index="0",process="worker 1",role="launch"} 1.0'
        wait_until(lambda: again in scraped(first) and 'index="1"' in scraped(first + 4), timeout=60)
        launch.process.terminate()
        assert launch.wait(60) == 143, launch.output
    finally:
        launch.clean_up()
