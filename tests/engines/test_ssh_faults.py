"""Jobs on several hosts, when cables are cut and processes killed."""

import contextlib
import os
import re
import signal

import pytest
from hosts import Hosts, missing
from scaled import LIGHT_JOB, scale
from sshd import Cluster

from waiting import wait_until

pytestmark = pytest.mark.skipif(bool(missing("sshd")), reason=missing("sshd") or "all is there")

LOST_AFTER = 3  # seconds; the agents' own clocks run as long
FOREVER = "time.sleep(300)"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ssh")
    with Hosts(folder, 3) as hosts:
        yield Cluster(hosts, folder / "work")


@pytest.fixture
def start(cluster):
    """Starts a job of a server and a worker on each host, or as the flags say, and waits until all of it runs."""
    launches = []

    def start(text, *flags, processes=6, lost_after=LOST_AFTER):
        launch = cluster.launch("--hosts=h1,h2,h3", f"--lost_after={lost_after}", *flags, cluster.script(text))
        launches.append(launch)
        wait_until(lambda: len(cluster.processes()) == processes or launch.status is not None, 60)
        wait_until(lambda: "the logs of each host are in" in launch.output or launch.status is not None, 30)
        assert launch.status is None, launch.output
        return launch

    yield start
    for host in cluster.hosts:
        cluster.hosts.mend(host)
    for launch in launches:
        if launch.status is None:
            launch.signal(signal.SIGKILL)
    wait_until(lambda: not cluster.left(), 60)


def test_a_broken_connection_is_made_anew_and_loses_nothing_of_the_logs(cluster, start):
    launch = start("for n in range(400):\n    print('line', n, flush=True)\n    time.sleep(0.02)\n", "--log_dir=lines")
    for _ in range(2):
        begun = launch.output.count("h2: connected again")
        wait_until(lambda: cluster.hosts[1].processes("agent open") or cluster.hosts[1].processes("agent attach"))
        for pid in _connectors(cluster, 1):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda begun=begun: launch.output.count("h2: connected again") > begun, 20)
    assert launch.wait(60) == 0, launch.output
    for index, host in enumerate(("h1", "h2", "h3")):
        lines = (cluster.folder / f"lines/{host}/workerlog.{index}").read_text().splitlines()
        assert lines == [f"line {n}" for n in range(400)]


def _connectors(cluster, index):
    """The processes on a host that SSH has started: what they connect the agent with is at their standard input."""
    found = []
    for pid in cluster.hosts[index].processes("flota.launch.ssh.agent"):
        with contextlib.suppress(OSError):  # it has ended, or closes what it has open
            if os.readlink(f"/proc/{pid}/fd/0") != os.devnull:
                found.append(pid)
    return found


def test_a_host_that_is_lost_ends_the_job_with_its_name_and_ends_its_own_part(cluster, start):
    launch = start(FOREVER)
    cluster.hosts.cut(cluster.hosts[2])
    assert launch.wait(60) == 1, launch.output
    assert re.search(
        r"flota launch: h3 \(h3\) is lost, with server 2, worker 2: nothing was heard of it", launch.output
    )
    assert "the job ends: what its servers hold is on its disk" in launch.output
    assert not cluster.left(list(cluster.hosts)[:2])
    # The cable is still cut: the host ends what it runs by itself.
    wait_until(lambda: not cluster.left([cluster.hosts[2]]), 30)


def test_a_lost_host_of_workers_alone_ends_the_job_unless_they_may_move(cluster, start):
    launch = start(FOREVER, "--server_num=1", processes=4)
    cluster.hosts.cut(cluster.hosts[2])
    assert launch.wait(60) == 1, launch.output
    assert "the job ends: with --if_lost=move, its workers would have gone on on another host" in launch.output


def test_a_copy_that_gets_stuck_ends_with_the_host_s_name(cluster, tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "train.py").touch()
    with (package / "big").open("wb") as big:
        big.truncate(1 << 30)
    hosts = cluster.file(tmp_path, ["h1", "h2"], where="stuck")
    launch = cluster.launch(f"--hosts={hosts}", f"--job_dispatch_package={package}", "train.py")
    place = cluster.workspace("h2", "stuck")
    wait_until(lambda: any(file.stat().st_size for file in place.glob(".flota-draft-*")), 60)
    cluster.hosts.silence(cluster.hosts[1])
    try:
        assert launch.wait(60) == 1, launch.output
    finally:
        cluster.hosts.silence(cluster.hosts[1], False)
    assert "nothing was started, for the package could not be copied:\n  h2: the connection broke: " in launch.output
    assert "  h1: " not in launch.output
    wait_until(lambda: not cluster.left(), 60)  # h2 hears of it, now that it is heard


def _told(log, text):
    return log.exists() and text in log.read_text()


TRAIN = """
import torch
import flota

torch.manual_seed(7)
flota.init()
model = flota.nn.Embedding(None, 4)
optimizer = flota.distributed_optimizer(torch.optim.Adagrad(model.parameters(), lr=0.1), flota.{mode}())
if flota.is_server():
    flota.init_server()
    flota.run_server()
    raise SystemExit
flota.init_worker()
for step in range(120):
    model(torch.arange(8) + step).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 20:
        print("in the middle", flush=True)
    time.sleep(0.05)
print("steps", flota.all_reduce([float(optimizer.steps)]))
flota.stop_worker()
"""


@pytest.mark.timeout(400)
def test_workers_of_a_lost_host_go_on_on_another(cluster):
    mode = "Async"
    (cluster.folder / f"{mode}.py").write_text("import time" + TRAIN.replace("{mode}", mode))
    launch = cluster.launch(
        "--hosts=h1,h2,h3", f"--lost_after={LOST_AFTER}", "--if_lost=move", "--server_num=1", f"--log_dir={mode}",
        f"{mode}.py",
    )  # fmt: skip
    try:
        middle = cluster.folder / mode / "h3/workerlog.2"
        wait_until(lambda: _told(middle, "in the middle") or launch.status is not None, 150)
        cluster.hosts.cut(cluster.hosts[2])
        assert launch.wait(150) == 0, launch.output
    finally:
        cluster.hosts.mend(cluster.hosts[2])
    assert "flota launch: h3 (h3) is lost, with worker 2:" in launch.output
    assert "the workers of h3 go on on h2\n" in launch.output
    assert "was started again (restart 1)" in (cluster.folder / mode / "h2/workerlog.2").read_text()
    assert "steps [360.]" in (cluster.folder / mode / "h1/workerlog.0").read_text()
    wait_until(lambda: not cluster.left(), 60)


@pytest.mark.timeout(400)
def test_workers_that_have_come_to_a_host_go_on_elsewhere_when_it_is_lost(cluster, tmp_path):
    (tmp_path / "train.py").write_text(LIGHT_JOB)
    flags = ["--hosts=h1,h2,h3", f"--lost_after={LOST_AFTER}", "--if_lost=move", "--server_num=1"]
    launch = cluster.launch(*flags, "train.py", cwd=tmp_path)
    try:
        wait_until(lambda: len(list(tmp_path.glob("pids/worker.?"))) == 3 or launch.status is not None, 60)
        assert launch.status is None, launch.output
        assert scale(cluster.head, tmp_path, 6)[-1] == "6 workers (3 before)"
        assert scale(cluster.head, tmp_path, 5)[-1] == "5 workers (6 before)"
        cluster.hosts.cut(cluster.hosts[2])  # it had workers 2 and 5
        wait_until(lambda: "the workers of h3 go on on h2" in launch.output, 60)
        # Who has one host less has its workers elsewhere.
        wait_until(lambda: scale(cluster.head, tmp_path, 6)[-1] == "6 workers (5 before)", 60)
        log = tmp_path / "log/h2/workerlog.5"
        wait_until(lambda: _told(log, "told"), 30)
        # And a host from which all have gone waits for more, and ends with the job.
        assert scale(cluster.head, tmp_path, 1)[-1] == "1 worker (6 before)"
        assert scale(cluster.head, tmp_path, 3)[-1] == "3 workers (1 before)"
        (tmp_path / "end").touch()
        assert launch.wait(60) == 0, launch.output
    finally:
        cluster.hosts.mend(cluster.hosts[2])
    wait_until(lambda: not cluster.left(), 60)


def test_ctrl_c_ends_a_host_too_that_cannot_be_reached(cluster, start):
    launch = start(FOREVER)
    cluster.hosts.cut(cluster.hosts[1])
    wait_until(lambda: "h2: the connection broke" in launch.output, 20)
    launch.signal(signal.SIGINT)
    assert launch.wait(60) == 130, launch.output
    assert "launch] h2 was not reached any more: its agent ends what runs there by itself at " in launch.output
    assert not cluster.left([cluster.hosts[0], cluster.hosts[2]])
    wait_until(lambda: not cluster.left([cluster.hosts[1]]), 30)


def test_ctrl_c_reaches_a_host_whose_cable_is_mended_in_time(cluster, start):
    launch = start(FOREVER, lost_after=60)
    cluster.hosts.cut(cluster.hosts[1])
    wait_until(lambda: "h2: the connection broke" in launch.output, 30)
    launch.signal(signal.SIGINT)
    wait_until(lambda: not cluster.processes([cluster.hosts[0]]), 30)
    assert cluster.processes([cluster.hosts[1]])
    cluster.hosts.mend(cluster.hosts[1])
    assert launch.wait(60) == 130, launch.output
    assert not cluster.left()


def test_a_second_ctrl_c_does_not_wait(cluster, start):
    launch = start("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER, "--timeout=100")
    launch.signal(signal.SIGINT)
    wait_until(lambda: "stopping the job" in launch.output)
    launch.signal(signal.SIGINT)
    assert launch.wait(30) == 130, launch.output
    assert "hurrying: what is left is killed" in launch.output
    wait_until(lambda: not cluster.left(), 30)


def test_a_launch_that_is_killed_leaves_nothing_behind(cluster, start):
    launch = start(FOREVER)
    launch.signal(signal.SIGKILL)
    wait_until(lambda: not cluster.left(), 30)


def test_an_agent_that_is_killed_takes_its_host_s_processes_along_and_ends_the_job(cluster, start):
    launch = start(FOREVER)
    of_ssh = _connectors(cluster, 1)
    agents = [pid for pid in cluster.hosts[1].processes("flota.launch.ssh.agent open") if pid not in of_ssh]
    for pid in agents:
        os.kill(pid, signal.SIGKILL)
    assert launch.wait(60) == 1, launch.output
    assert "flota launch: h2 (h2) is lost, with server 1, worker 1: its agent is not there any more" in launch.output
    wait_until(lambda: not cluster.left(), 30)


@pytest.mark.timeout(400)
def test_a_job_that_was_killed_is_resumed_on_all_its_hosts(cluster):
    (cluster.folder / "resumed.py").write_text("import time" + TRAIN.replace("{mode}", "Sync"))
    flags = ["--hosts=h1,h2", f"--lost_after={LOST_AFTER}", "--server_num=2", "--worker_num=2", "--log_dir=resumed"]
    launch = cluster.launch(*flags, "resumed.py")
    middle = cluster.folder / "resumed/h1/workerlog.0"
    wait_until(lambda: _told(middle, "in the middle") or launch.status is not None, 150)
    launch.signal(signal.SIGKILL)
    wait_until(lambda: not cluster.left(), 30)
    launch = cluster.launch(*flags, "--resume")
    assert launch.wait(150) == 0, launch.output
    told = middle.read_text()
    assert "worker 0 was started again (restart 1)" in told
    assert "steps [240.]" in told
