"""Jobs on several hosts that are reached by SSH: what is checked, copied, told and left where."""

import json
import os
import re
import signal
import time

import numpy as np
import pytest
from example import EXAMPLE, OF_EACH_WORKER, WORKERS, example_auc
from hosts import Hosts, missing
from scaled import COUNTING, scale, write_data
from sshd import FLOTA, Cluster

from waiting import wait_until

pytestmark = pytest.mark.skipif(bool(missing("sshd")), reason=missing("sshd") or "all is there")

# What a worker is told, and nothing that takes time.
TELL = """
print("worker", index, "at", os.uname().nodename, "in", os.getcwd(), *sys.argv[1:])
print("value", os.environ.get("VALUE"), "secret", len(os.environ["FLOTA_SECRET"]))
"""


# Trains a little, and saves it.
SAVE = """
import torch
import flota

flota.init()
model = flota.nn.Embedding(None, 4)
optimizer = flota.distributed_optimizer(torch.optim.Adagrad(model.parameters(), lr=0.1), flota.Sync())
if flota.is_server():
    flota.init_server()
    flota.run_server()
    raise SystemExit
flota.init_worker()
model(torch.arange(100)).sum().backward()
optimizer.step()
flota.save_persistables("output")
flota.stop_worker()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ssh")
    with Hosts(folder, 3) as hosts:
        yield Cluster(hosts, folder / "work")


@pytest.fixture
def package(cluster, tmp_path):
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "train.py").write_text(cluster.job(TELL))
    return folder


def test_a_package_is_copied_and_runs_on_every_host(cluster, package, tmp_path):
    hosts = cluster.file(tmp_path, extra={"h2": {"env": {"VALUE": 7}}})
    launch = cluster.launch(
        f"--hosts={hosts}", f"--job_dispatch_package={package}", "--log_dir=told", "train.py", "--rate", "0.1"
    )
    assert launch.wait(60) == 0, launch.output
    logs = cluster.folder / "told"
    for host, index in (("h1", 0), ("h2", 1), ("h3", 2)):
        workspace = cluster.workspace(host)
        told = (logs / host / f"workerlog.{index}").read_text()
        assert f"worker {index} at {host} in {workspace} --rate 0.1\n" in told
        assert ("value 7" in told) == (host == "h2")
        for alias in ("train.log", "paddle_trainer.INFO"):
            assert (logs / host / alias).read_text() == (workspace / "told" / alias).read_text() == told
        for alias in ("server.log", "paddle_pserver2.INFO"):
            assert os.readlink(logs / host / alias) == os.readlink(workspace / "told" / alias) == f"serverlog.{index}"
        assert (workspace / "nodefile").read_text() == f"{index}\n"
    assert not cluster.left()


def test_what_a_script_saves_is_on_the_first_host(cluster, package, tmp_path):
    (package / "train.py").write_text(SAVE)
    hosts = cluster.file(tmp_path, where="saving")
    launch = cluster.launch(f"--hosts={hosts}", f"--job_dispatch_package={package}", "--log_dir=saving", "train.py")
    assert launch.wait(90) == 0, launch.output
    saved = [cluster.workspace(host, "saving") / "output" for host in ("h1", "h2", "h3")]
    assert [folder.exists() for folder in saved] == [True, False, False]
    cluster.head.run([FLOTA, "checkpoint", "verify", saved[0]])
    assert "100 rows" in cluster.head.run([FLOTA, "checkpoint", "inspect", saved[0]])


def test_only_what_changed_is_sent_and_only_what_was_brought_is_removed(cluster, package, tmp_path):
    (package / "data").mkdir()
    (package / "data/big").write_bytes(os.urandom(3_000_000))
    (package / "old.py").write_text("old")
    (package / "latest").symlink_to("data/big")
    (package / ".git").mkdir()
    (package / ".git/config").write_text("mine")

    def dispatched():
        hosts = cluster.file(tmp_path, ["h2"], where="parcel")
        launch = cluster.launch(f"--hosts={hosts}", f"--job_dispatch_package={package}", "train.py")
        assert launch.wait(60) == 0, launch.output
        return launch.output

    place = cluster.workspace("h2", "parcel")
    assert re.search(r"h2: 4 of 4 files copied to .* \(2\.9 MiB\)", dispatched())
    assert (place / "data/big").read_bytes() == (package / "data/big").read_bytes()
    assert os.readlink(place / "latest") == "data/big"
    assert not (place / ".git").exists()
    (place / "output").mkdir()
    (place / "output/model").write_text("made by the job")
    assert "has all 4 files of the package already\n" in dispatched()
    (package / "old.py").unlink()
    (package / "train.py").write_text(cluster.job(TELL + "print('new')\n"))
    (place / "data/big").write_bytes(b"somebody was here")
    third = dispatched()
    assert re.search(r"h2: 2 of 3 files copied to .* \(2\.9 MiB\), 1 removed\n", third)
    assert not (place / "old.py").exists()
    assert (place / "output/model").read_text() == "made by the job"
    assert (place / "data/big").read_bytes() == (package / "data/big").read_bytes()
    assert "new" in (place / "log/workerlog.0").read_text()


def test_logs_that_the_head_sees_anyhow_are_not_sent_to_it(cluster, package, tmp_path):
    launch = cluster.launch(
        f"--hosts={cluster.file(tmp_path, where='elsewhere')}", f"--job_dispatch_package={package}",
        f"--log_dir={tmp_path}/logs", "train.py",
    )  # fmt: skip
    assert launch.wait(60) == 0, launch.output
    for index, host in enumerate(("h1", "h2", "h3")):
        told = (tmp_path / "logs" / host / f"workerlog.{index}").read_text()
        assert told.count(f"worker {index} at {host}") == 1
    assert not list(tmp_path.rglob(".flota-head*"))


def test_hosts_that_see_one_file_system_do_not_write_to_one_file(cluster):
    launch = cluster.launch("--hosts=h1,h2,h3", "--log_dir=shared", cluster.script(TELL))
    assert launch.wait(60) == 0, launch.output
    for index, host in enumerate(("h1", "h2", "h3")):
        told = (cluster.folder / "shared" / host / "train.log").read_text()
        assert told.count(f"worker {index} at {host}") == 1
        assert (cluster.folder / "shared" / host / "nodefile").read_text() == f"{index}\n"


def test_all_that_is_wrong_is_told_together_and_nothing_starts(cluster, tmp_path):
    h1, _, h3 = cluster.hosts
    (tmp_path / "job").mkdir()
    (tmp_path / "job/train.py").write_text("import pathlib; pathlib.Path('started').touch()")
    other = cluster.folder / "other-flota"
    other.write_text(
        '#!/bin/sh\nshift 2\nexec python3 -c \'import json; print("flota-agent 1"); '
        'print(json.dumps(dict(op="facts", python="3.12.1", executable="/opt/python", flota="9.9", wire=2, torch="3", '
        "cores=1)), flush=True); input(); input()'\n"
    )
    other.chmod(0o755)
    taken = h1.start(["python3", "-c", "import socket, time; s = socket.create_server(('h1', 6170)); time.sleep(60)"])
    wait_until(lambda: ":181A" in h1.run(["cat", "/proc/net/tcp"]))
    # To server 1, which is on h2, nothing goes out from h3.
    h3.run(["ip", "rule", "add", "ipproto", "tcp", "dport", "6171", "prohibit"])
    try:
        entries = [
            {"name": "h1", "workspace": str(tmp_path / "job")},
            {"name": "h2", "workspace": str(tmp_path / "job")},
            {"name": "h3", "workspace": str(tmp_path)},
        ]
        hosts = tmp_path / "hosts.yaml"
        hosts.write_text(json.dumps(entries))
        launch = cluster.launch("--on=ssh", f"--hosts={hosts}", f"--job_workspace={tmp_path}/job", "missing.py")
        assert launch.wait(60) == 1
        for host in ("h1", "h2", "h3"):
            assert f"  {host}: there is no script missing.py in {tmp_path}/job\n" in launch.output
        launch = cluster.launch(f"--hosts={hosts}", "--server_num=2", "--worker_num=3", cluster.script(TELL))
        assert launch.wait(60) == 1, launch.output
    finally:
        h3.run(["ip", "rule", "del", "ipproto", "tcp", "dport", "6171", "prohibit"])
        taken.signal(signal.SIGKILL)
    assert "  h1: port 6170 is in use, and server 0 is to have it: give another --first_port" in launch.output
    assert re.search(r"  h3: h3 cannot reach server 1 of h2 at h2:6171 \(.*\): a firewall", launch.output)
    assert "h1: h1 cannot reach" not in launch.output
    entries[1]["python"] = str(other)
    hosts.write_text(json.dumps(entries))
    launch = cluster.launch(f"--hosts={hosts}", "--worker_num=3", cluster.script(TELL))
    assert launch.wait(60) == 1
    assert "  h2: its Python (/opt/python) has flota 9.9, and this is flota" in launch.output
    assert not (tmp_path / "job/started").exists()
    assert not cluster.left()


def test_a_host_whose_key_nobody_knows_is_refused(cluster):
    known = cluster.known_hosts.read_text()
    without = [line for line in known.splitlines(keepends=True) if not line.startswith("h2 ")]
    try:
        cluster.known_hosts.write_text("".join(without))
        launch = cluster.launch("--hosts=h1,h2", cluster.script(TELL))
        assert launch.wait(60) == 1
        assert re.search(r"  h2: its host key ssh-ed25519 SHA256:\S+ is not in known_hosts:", launch.output)
        stranger = next(line for line in without if line.startswith("h1 ")).replace("h1 ", "h2 ", 1)
        cluster.known_hosts.write_text("".join([*without, stranger]))
        launch = cluster.launch("--hosts=h1,h2", "--accept_new_host_keys", cluster.script(TELL))
        assert launch.wait(60) == 1
        assert "it is another machine, or somebody is in between" in launch.output
        cluster.known_hosts.write_text("".join(without))
        launch = cluster.launch("--hosts=h1,h2", "--accept_new_host_keys", cluster.script(TELL))
        assert launch.wait(60) == 0, launch.output
        assert any(line.startswith("h2 ssh-ed25519 ") for line in cluster.known_hosts.read_text().splitlines())
    finally:
        cluster.known_hosts.write_text(known)


def test_a_process_that_fails_ends_the_job_with_its_status_and_the_end_of_its_log(cluster):
    script = cluster.script(
        """
        if index == "1":
            print("no such column: price")
            sys.exit(3)
        time.sleep(60)
        """
    )
    launch = cluster.launch("--hosts=h1,h2,h3", script)
    assert launch.wait(60) == 3, launch.output
    assert re.search(r"^h2: flota launch: worker 1 \(pid \d+, h2:\d+\) ended with exit status 3", launch.output, re.M)
    assert "\nh2:     no such column: price\n" in launch.output
    assert "the job failed on h2; its logs are in log/h2\n" in launch.output
    assert not cluster.left()


def test_ctrl_c_ends_everything_everywhere(cluster):
    launch = cluster.launch("--hosts=h1,h2,h3", cluster.script("time.sleep(120)"))
    wait_until(lambda: len(cluster.processes()) == 6, 30)
    launch.signal(signal.SIGINT)
    assert launch.wait(30) == 130, launch.output
    assert "SIGINT: stopping the job on 3 hosts\n" in launch.output
    assert not cluster.left()


@pytest.mark.parametrize("delay", [0.0, 0.3, 0.6, 1.0])
def test_ctrl_c_as_the_job_begins_leaves_nothing(cluster, delay):
    """Whether hosts are being told what to run, or have begun, or have not been told."""
    launch = cluster.launch("--hosts=h1,h2,h3", cluster.script("time.sleep(120)"))
    wait_until(lambda: "TLS between the hosts" in launch.output, 30)
    time.sleep(delay)  # a moment of the start, not something that is waited for
    launch.signal(signal.SIGINT)
    assert launch.wait(30) == 130, launch.output
    assert not cluster.left(), launch.output


def test_the_job_s_processes_find_their_servers_by_tls(cluster):
    """What is told of protection is told to processes, and is on no command line and on no disk when it is over."""
    script = cluster.script(
        """
        certs = pathlib.Path(os.environ["FLOTA_CERTS"])
        print("certs", sorted(file.name for file in certs.iterdir()), oct(certs.stat().st_mode)[-3:])
        print("FOLDER", certs)
        """
    )
    launch = cluster.launch("--hosts=h1,h2", "--server_num=1", "--log_dir=tls", script)
    assert launch.wait(60) == 0, launch.output
    told = (cluster.folder / "tls/h2/workerlog.1").read_text()
    assert "certs ['authority.pem', 'client.key', 'client.pem'] 700\n" in told
    assert not os.path.exists(told.partition("FOLDER ")[2].strip())


def test_the_page_is_on_the_head(cluster):
    script = cluster.script("while not pathlib.Path('page_is_there').exists(): time.sleep(0.05)")
    launch = cluster.launch("--hosts=h1,h2", "--server_num=1", "--log_dir=paged", "--dashboard", script)
    wait_until(lambda: "the dashboard is at http://127.0.0.1:" in launch.output or launch.status is not None, 60)
    (cluster.folder / "page_is_there").touch()
    assert launch.wait(60) == 0, launch.output
    assert "the dashboard is at" in launch.output
    assert (cluster.folder / "paged/dashboardlog").read_text() == ""
    assert not cluster.left()


@pytest.mark.timeout(400)
def test_workers_come_and_go_by_the_head_and_every_sample_is_trained_once(cluster, tmp_path):
    write_data(tmp_path)
    (tmp_path / "train.py").write_text(COUNTING)
    words = ["--hosts=h1,h2,h3", "--server_num=3", "--worker_num=1", "train.py", json.dumps({"pace": 1.0, "epochs": 1})]
    launch = cluster.launch(*words, cwd=tmp_path)
    wait_until(lambda: scale(cluster.head, tmp_path, 1) == ["1 worker (1 before)"] or launch.status is not None, 120)
    assert scale(cluster.head, tmp_path, 3) == ["worker 1 has joined", "worker 2 has joined", "3 workers (1 before)"]
    assert "h2: worker 1 is started: log/h2/workerlog.1" in launch.output
    assert "h3: worker 2 is started: log/h3/workerlog.2" in launch.output
    assert scale(cluster.head, tmp_path, 2)[1:] == ["worker 2 has left", "2 workers (3 before)"]
    assert "give the command there" in scale(cluster.hosts[1], tmp_path, 3)[0]
    (tmp_path / "hurry").touch()
    assert launch.wait(120) == 0, launch.output
    assert np.unique(np.load(tmp_path / "counts.npy")).tolist() == [1.0]
    assert "was asked to leave" in (tmp_path / "log/h3/workerlog.2").read_text()
    assert not (tmp_path / "log/launch.json").exists()


@pytest.mark.timeout(400)
def test_the_example_learns_on_three_hosts_what_it_learns_on_one(cluster, tmp_path, auc_alone):
    """… although a cable is cut for ten seconds in its middle."""
    package = tmp_path / "example"
    package.mkdir()
    (package / EXAMPLE.name).write_bytes(EXAMPLE.read_bytes())
    launch = cluster.launch(
        f"--hosts={cluster.file(tmp_path, where='example')}", "--server_num=2", f"--worker_num={WORKERS}",
        f"--job_dispatch_package={package}", "--log_dir=example", "--lost_after=30",
        EXAMPLE.name, "--mode=sync", *OF_EACH_WORKER,
    )  # fmt: skip
    wait_until(lambda: "epoch 0, step 100" in launch.output or launch.status is not None, 150)
    cluster.hosts.cut(cluster.hosts[1])
    wait_until(lambda: "h2: the connection broke" in launch.output, 10)
    with pytest.raises(AssertionError):
        launch.wait(10)  # it neither ends nor fails meanwhile
    cluster.hosts.mend(cluster.hosts[1])
    assert launch.wait(150) == 0, launch.output
    assert "h2: connected again\n" in launch.output
    assert "TLS between the hosts" in launch.output
    assert "restart" not in launch.output
    assert abs(example_auc((cluster.folder / "example/h1/workerlog.0").read_text()) - auc_alone) <= 0.005
