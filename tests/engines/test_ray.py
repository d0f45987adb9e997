"""flota launch --on ray: on Ray clusters of several nodes, which are killed, cut off and too small."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from example import EXAMPLE, OF_EACH_WORKER, WORKERS, example_auc
from hosts import missing
from rays import BIN, LONGEST, Launch, environment, nodes_on_one_host, ray_on_hosts

from waiting import wait_until

pytest.importorskip("ray", reason="Ray is not installed (make setup installs it)")
pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing() or "all is there"),
    pytest.mark.timeout(400),
]

# Some steps, a line when it is in the middle of them, and what came of it. At step 60 it waits for a file: whatever the
# test does happens between step 40 and that.
SCRIPT = """
import hashlib, sys, time
from pathlib import Path
import torch, flota

mode, gate = sys.argv[1:]
flota.init()
torch.manual_seed(0)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = flota.nn.Embedding(None, 8, init=flota.initializer.Normal(0.0, 0.01), name="rows")
        self.last = torch.nn.Linear(8, 1)

    def forward(self, keys):
        return self.last(self.rows(keys)).squeeze(1)

model = Model()
optimizer = flota.distributed_optimizer(
    torch.optim.Adagrad(model.parameters(), lr=0.1), flota.Sync() if mode == "sync" else flota.Async()
)
if flota.is_server():
    flota.init_server()
    flota.run_server()
    sys.exit()
flota.init_worker()
for step in range(120):
    random = torch.Generator().manual_seed(step * 10 + flota.worker_index())
    keys = torch.randint(0, 1000, (64,), generator=random)
    loss = ((model(keys) - keys % 7) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 40:
        print("in the middle", flush=True)
    while step == 60 and not Path(gate).exists():
        time.sleep(0.01)
flota.barrier_worker()
model.eval()
with torch.no_grad():
    values = model(torch.arange(1000))
    print(f"loss {((values - torch.arange(1000) % 7) ** 2).mean():.3f}")
    print("result", hashlib.sha256(values.numpy().tobytes()).hexdigest(), flush=True)
flota.stop_worker()
"""
SECRET = "a secret that is easy to look for"
NUMBERS = ["--server_num=2", "--worker_num=2"]
ONE_EACH = ["--server_num=1", "--worker_num=1"]

# Starts a process of its own, as readers of data do, and runs until it is ended.
ENDLESS = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)  # of train_endless"])
print("in the middle", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("script") / "train.py"
    file.write_text(SCRIPT)
    return file


@pytest.fixture(scope="module")
def undisturbed(script, tmp_path_factory) -> str:
    """What worker 0 says at the end of the same job on one host, without Ray, where nobody died."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "gate").touch()
    subprocess.run(
        [BIN / "flota", "launch", *NUMBERS, "--view=none", script, "sync", folder / "gate"],
        cwd=folder, env=environment(OMP_NUM_THREADS="1"), capture_output=True, timeout=LONGEST, check=True,
    )  # fmt: skip
    return result((folder / "log" / "workerlog.0").read_text())


def result(log: str) -> str:
    found = re.search(r"^result (\w+)$", log, re.MULTILINE)
    assert found, log
    return found[1]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with nodes_on_one_host(tmp_path_factory.mktemp("nodes"), 2, cpus=4) as nodes:
        yield nodes


@pytest.fixture
def launch(nodes, tmp_path):
    def launch(*words, **settings):
        return Launch(nodes.host, tmp_path / "launch", f"--ray_address={nodes.head}", *words, **settings)

    return launch


def left_of(host, script) -> list[int]:
    return [pid for text in ("ray.keeper", script.stem) for pid in host.processes(text)]


def test_a_killed_node_costs_a_sync_job_nothing(nodes, launch, script, undisturbed, tmp_path):
    gate = tmp_path / "gate"
    job = launch(*NUMBERS, f"--durable={tmp_path / 'kept'}", script, "sync", gate)
    job.wait_for("in the middle", "workerlog.0")
    address = job.place_of("server 1")
    with nodes.without(address):
        job.wait_for(rf"server 1 was lost with its place on h1 \({address}\); starting it again")
        gate.touch()
        assert job.wait() == 0, job.output
    assert re.search(r"server 1 is on h1 \(\S+\) now, at ", job.output)
    assert "TLS for" in job.output
    assert result(job.log("workerlog.0")) == undisturbed
    assert not left_of(nodes.host, script)


def test_a_killed_node_costs_an_async_job_little(nodes, launch, script, tmp_path):
    gate = tmp_path / "gate"
    job = launch("--server_num=1", "--worker_num=2", f"--durable={tmp_path / 'kept'}", script, "async", gate)
    job.wait_for("in the middle", "workerlog.0")
    with nodes.without(job.place_of("server 0")):
        job.wait_for("server 0 was lost with its place")
        gate.touch()
        assert job.wait() == 0, job.output
    # Untrained it is 13.
    assert float(re.search(r"^loss (\S+)$", job.log("workerlog.0"), re.MULTILINE)[1]) < 5


def test_a_server_that_keeps_nothing_is_lost_with_its_node(nodes, launch, script, tmp_path):
    job = launch(*ONE_EACH, "--no_durable", script, "sync", tmp_path / "gate")
    job.wait_for("in the middle", "workerlog.0")
    address = job.place_of("server 0")
    with nodes.without(address):
        assert job.wait() == 137
    assert re.search(rf"server 0 \(.*\) was lost with its place on h1 \({address}\)", job.output)
    assert "it has kept nothing on disk" in job.output
    assert not left_of(nodes.host, script)


def test_a_server_that_is_killed_on_its_node_comes_back_with_what_it_had(nodes, launch, script, undisturbed, tmp_path):
    job = launch(*NUMBERS, script, "sync", tmp_path / "gate")
    job.wait_for("in the middle", "workerlog.0")
    scripts = nodes.host.processes(f"-u {script.name}")
    servers = [pid for pid in scripts if b"TRAINING_ROLE=PSERVER" in Path(f"/proc/{pid}/environ").read_bytes()]
    os.kill(servers[0], signal.SIGKILL)
    (tmp_path / "gate").touch()
    assert job.wait() == 0, job.output
    assert re.search(r"server \d was killed by SIGKILL on h1 \(\S+\); starting it again", job.output)
    assert result(job.log("workerlog.0")) == undisturbed


@pytest.fixture
def endless(tmp_path) -> Path:
    folder = tmp_path / "script"
    folder.mkdir()
    (folder / "train_endless.py").write_text(ENDLESS)
    return folder / "train_endless.py"


def test_ctrl_c_ends_everything_and_the_secret_is_nowhere(nodes, launch, endless):
    job = launch(*NUMBERS, endless, FLOTA_SECRET=SECRET)
    job.wait_for("in the middle", "workerlog.1")
    assert len(left_of(nodes.host, endless)) >= 4
    assert not nodes.host.processes(SECRET)
    job.running.signal(signal.SIGINT)
    assert job.wait() == 130
    assert "SIGINT: stopping 4 processes" in job.output
    wait_until(lambda: not left_of(nodes.host, endless), 20)
    # The secret went through Ray, and Ray has written it down nowhere.
    rays = nodes.host.folder / "private" / "tmp" / "ray"
    assert not nodes.host.run(["grep", "-rlF", SECRET, rays], check=False)


def test_what_looks_after_a_process_may_be_killed(nodes, launch, endless):
    job = launch("--server_num=1", "--worker_num=1", endless)
    job.wait_for("in the middle", "workerlog.0")
    job.wait_for("in the middle", "serverlog.0")
    os.kill(nodes.host.processes("ray.keeper")[0], signal.SIGKILL)  # later ones are their guards
    job.wait_for("was killed by SIGKILL on .*; starting it again in 1 s")
    restarted = "workerlog.0" if "worker 0 was killed" in job.output else "serverlog.0"
    job.wait_for("restart 1(.|\n)*in the middle", restarted)
    os.kill(nodes.host.processes("ray::Seat")[0], signal.SIGKILL)
    job.wait_for("was lost with its place on .*; starting it again")
    job.wait_for(r"\w+ \d is on h1 \(\S+\) now")
    job.running.signal(signal.SIGINT)
    assert job.wait() == 130
    wait_until(lambda: not left_of(nodes.host, endless), 20)


def test_nothing_outlives_a_launch_that_is_killed(nodes, launch, endless):
    job = launch(*ONE_EACH, endless)
    job.wait_for("in the middle", "workerlog.0")
    job.running.signal(signal.SIGKILL)
    wait_until(lambda: not left_of(nodes.host, endless), 30)


def test_too_small_a_cluster_is_told_what_was_asked_and_what_there_is(launch, script):
    job = launch("--ray_wait=1", "--server_num=1", "--worker_num=2", "--worker_cpus=5", script, "sync", "gate")
    assert job.wait() == 1
    assert "Ray has had no room for the job for 1 s" in job.output
    assert "2 of (CPU 5)" in job.output
    assert "CPU 4 of 4" in job.output


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    # 8 times 2 seconds: a cable may be cut for 10.
    with ray_on_hosts(tmp_path_factory.mktemp("hosts"), 3, 2, RAY_health_check_failure_threshold="8") as hosts:
        yield hosts


ON_HOSTS = ["--ray_address=auto", f"--server_num={WORKERS}", f"--worker_num={WORKERS}", EXAMPLE, "--mode=sync"]


def test_the_example_trains_on_three_hosts_past_a_cut_cable(hosts, auc_alone, tmp_path):
    job = Launch(hosts[0], tmp_path / "launch", *ON_HOSTS, *OF_EACH_WORKER)
    job.wait_for("step 100:", "workerlog.0")
    hosts.cut(hosts[2])
    job.wait_for(r"on h3 .* has not answered for 10 s")
    hosts.mend(hosts[2])
    assert job.wait() == 0, job.output
    names = [f"{role} {i}" for role in ("server", "worker") for i in range(WORKERS)]
    assert {job.place_of(name) for name in names} == {host.address for host in hosts}
    assert "restarts" not in job.output
    assert "TLS for" in job.output
    assert abs(example_auc(job.log("workerlog.0")) - auc_alone) < 0.005


def test_a_server_that_kept_what_it_had_on_a_host_that_is_lost_ends_the_job(hosts, script, tmp_path):
    """Ray finds it another place, where nothing is; it is not started there with empty tables."""
    job = Launch(hosts[0], tmp_path / "launch", "--server_num=2", "--worker_num=1", script, "sync", tmp_path / "gate")
    job.wait_for("in the middle", "workerlog.0")
    places = [job.place_of("server 0"), job.place_of("server 1")]
    index = next(i for i, place in enumerate(places) if place != hosts[0].address)
    host = next(host for host in hosts if host.address == places[index])
    host.kill()
    assert job.wait() == 137
    assert re.search(rf"server {index} .* was lost with its place on {host.name} \({host.address}\)", job.output)
    assert f"what server {index} had kept was on that node's own disk" in job.output
    assert "With --durable=DIR, a folder that all nodes share, a lost node costs nothing" in job.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--ray_address=ray://10.0.0.1:10001"], "Ray's client (ray://) is not supported"),
        (["--ray_address=here"], "it must be auto"),
        (["--ray_address=127.0.0.1:1"], "nothing answers there"),
        (["--strategy=spred"], "one of SPREAD, PACK"),
        (["--gpus=0"], "--gpus=0 does nothing under --on ray"),
        (["--worker_cpuss=2"], "did you mean --worker_cpus"),
        (["--job_workspace=there"], "name it from the root"),
        (["--job_workspace=/a", "--job_dispatch_package=/b"], "contradict each other"),
        (["--job_dispatch_package=/usr"], "is not in --job_dispatch_package=/usr"),
        (["--resume"], "needs --durable=DIR"),
        (["--certs=nowhere"], "nowhere has no"),
        (["--server_num=-1"], "must not be negative"),
    ],
)
def test_what_cannot_act_is_refused_at_once(words, why, script, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "flota.launch", "--on=ray", *words, script],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode in (1, 2)
    assert why in done.stderr
