"""Jobs of a real Slurm: a controller and three nodes."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from example import EXAMPLE, OF_EACH_WORKER, WORKERS, example_auc, names_of_server
from scaled import LIGHT_JOB, scale
from slurm import LACKS, environment, slurm_hosts

from waiting import wait_until

pytestmark = pytest.mark.skipif(bool(LACKS), reason=LACKS or "all is there")

FLOTA = [sys.executable, "-m", "flota.cli"]
SECRET = "0123456789abcdef0123456789abcdef"

# Says who it is, without torch, and stays where it is told to.
WHO = """
import os, socket, sys, time
from flota.roles import default_role_maker
place = default_role_maker().placement()
print(socket.gethostname(), place.role.name, place.index, "of", place.worker_num, *place.server_endpoints, flush=True)
if len(sys.argv) > 1:
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slurm")
    with slurm_hosts(folder, WORKERS) as hosts:
        yield hosts, environment(folder, FLOTA_SECRET=SECRET, FLOTA_INSECURE="1")


@pytest.fixture
def who(tmp_path):
    (tmp_path / "who.py").write_text(WHO)
    return [sys.executable, str(tmp_path / "who.py")]


def places(output):
    """(host, role, index) of every task that said who it is, and the list of servers, on which all agree."""
    found = re.findall(r"^(h\d) (WORKER|SERVER) (\d+) of (\d+) ?(.*)$", output, re.MULTILINE)
    assert len({(count, servers) for *_, count, servers in found}) == 1, output
    return sorted((host, role, int(index)) for host, role, index, *_ in found), found[0][4].split()


def test_a_batch_job_trains_on_three_nodes_and_goes_on_when_it_is_requeued(cluster, tmp_path, auc_alone):
    hosts, env = cluster
    script = tmp_path / "flota"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m flota.cli "$@"\n')
    script.chmod(0o755)
    told = {name: value for name, value in env.items() if not name.startswith("FLOTA_")}  # TLS, and a secret of its own
    told |= {"FLOTA": str(script), "EXAMPLES": str(EXAMPLE.parent), "WORKERS_PER_NODE": "1"}
    words = [
        "sbatch",
        "--parsable",
        "--nodes=3",
        EXAMPLE.parent / "slurm" / "train.sbatch",
        "--mode=sync",
        *OF_EACH_WORKER,
    ]
    job = hosts[0].run(words, cwd=tmp_path, env=told).strip()
    log = tmp_path / f"flota-{job}" / "workerlog.0"
    output = tmp_path / f"flota-{job}.out"

    def printed(file, text):
        return lambda: (file.exists() and text in file.read_text()) or has_ended(hosts[0], env, job)

    wait_until(printed(log, "step 100:"), timeout=90)
    hosts[0].run(["scontrol", "requeue", job], env=env)
    wait_until(lambda: state(hosts[0], env, job) == "PENDING", timeout=60)
    assert not [process for host in hosts for process in host.processes(EXAMPLE.name)]
    hosts[0].run(["scontrol", "update", f"JobId={job}", "StartTime=now"], env=env)
    wait_until(printed(output, "going on with the job in"), timeout=60)
    wait_until(lambda: has_ended(hosts[0], env, job), timeout=120)
    assert state(hosts[0], env, job) == "COMPLETED", output.read_text()
    assert "worker 0 was started again" in log.read_text(), "sync workers go on where they were"
    assert example_auc(log.read_text()) == pytest.approx(auc_alone, abs=0.005)


def state(host, env, job):
    said = host.run(["scontrol", "--oneliner", "show", "job", job], env=env)
    return re.search(r"JobState=(\S+)", said)[1]


def has_ended(host, env, job):
    return state(host, env, job) in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


def test_a_launch_trains_with_tls_and_goes_on_after_ten_seconds_without_a_cable(cluster, tmp_path, auc_alone):
    hosts, env = cluster
    told = {name: value for name, value in env.items() if not name.startswith("FLOTA_")}  # TLS, and a secret of its own
    words = [*FLOTA, "launch", "--on=slurm", "--slurm_flags=--nodes=3", EXAMPLE, "--mode=sync", *OF_EACH_WORKER]
    job = hosts[0].start(words, cwd=tmp_path, env=told)
    log = tmp_path / "log" / "workerlog.0"
    wait_until(lambda: (log.exists() and "step 100:" in log.read_text()) or job.status is not None, timeout=120)
    hosts.cut(hosts[1])
    cut = time.monotonic()
    servers = re.search(r"servers (\S+),", log.read_text())[1].split(",")
    assert [server.partition(":")[0] for server in servers] == ["h1", "h2", "h3"]
    assert names_of_server(hosts[0], servers[2]) == ["h1", "h2", "h3"]
    wait_until(lambda: time.monotonic() - cut > 10, timeout=20)
    assert job.status is None, job.output
    assert "test AUC" not in log.read_text()
    hosts.mend(hosts[1])
    assert job.wait(120) == 0, job.output
    assert "starting it again" not in job.output
    assert example_auc(log.read_text()) == pytest.approx(auc_alone, abs=0.005)


def test_tasks_of_one_allocation_are_servers_and_workers_by_the_stated_rule(cluster, tmp_path, who):
    hosts, env = cluster
    found, servers = places(hosts[0].run(["srun", "-N3", "--ntasks-per-node=2", *who], cwd=tmp_path, env=env))
    assert found == [(host.name, role, i) for i, host in enumerate(hosts) for role in ("SERVER", "WORKER")]
    assert [server.partition(":")[0] for server in servers] == ["h1", "h2", "h3"]
    one = hosts[0].run(["srun", "-N3", "-n5", *who], cwd=tmp_path, env={**env, "FLOTA_SERVER_NUM": "1"})
    found, others = places(one)
    assert found[0] == ("h1", "SERVER", 0)
    assert sorted(index for _, role, index in found if role == "WORKER") == [0, 1, 2, 3]
    assert servers[0] != others[0], "another step has other ports"


def test_component_0_of_a_heterogeneous_job_has_the_servers(cluster, tmp_path, who):
    hosts, env = cluster
    (tmp_path / "job.sh").write_text(
        "#!/bin/sh\n#SBATCH --nodes=1 --ntasks=2\n#SBATCH hetjob\n#SBATCH --nodes=2 --ntasks-per-node=2\n"
        f"exec srun --het-group=0,1 {' '.join(who)}\n"
    )
    hosts[0].run(["sbatch", "--wait", "--output=out", tmp_path / "job.sh"], cwd=tmp_path, env=env, timeout=90)
    found, servers = places((tmp_path / "out").read_text())
    first = servers[0].partition(":")[0]
    assert [place for place in found if place[1] == "SERVER"] == [(first, "SERVER", 0), (first, "SERVER", 1)]
    assert sorted(index for _, role, index in found if role == "WORKER") == [0, 1, 2, 3]
    assert first not in {host for host, role, _ in found if role == "WORKER"}


def test_one_task_and_a_batch_script_are_no_job(cluster, tmp_path, who):
    hosts, env = cluster
    assert "h1 WORKER 0 of 1\n" in hosts[0].run(["srun", "-n1", *who], cwd=tmp_path, env=env)
    (tmp_path / "job.sh").write_text(f"#!/bin/sh\n#SBATCH --nodes=2 --ntasks=4\nexec {' '.join(who)}\n")
    hosts[0].run(["sbatch", "--wait", "--output=out", tmp_path / "job.sh"], cwd=tmp_path, env=env)
    assert (tmp_path / "out").read_text() == "h1 WORKER 0 of 1\n"


def test_a_port_that_somebody_has_is_named_with_what_to_do(cluster, tmp_path, who):
    hosts, env = cluster
    listen = "import socket, time; s = socket.create_server(('h2', 7007)); print('up', flush=True); time.sleep(600)"
    holder = hosts[1].start([sys.executable, "-c", listen])
    wait_until(lambda: "up" in holder.output, timeout=30)
    words = ["srun", "-N3", "--ntasks-per-node=2", "--kill-on-bad-exit=1", *who, "stay"]
    said = hosts[0].run(words, cwd=tmp_path, env={**env, "FLOTA_PORT": "7007"}, check=False)
    assert "port 7007 of h2 is in use: export FLOTA_PORT" in said
    holder.signal(signal.SIGTERM)


@pytest.mark.parametrize("how", ["Ctrl-C", "scancel"])
def test_nothing_is_left_of_a_launch_that_is_ended(cluster, tmp_path, who, how):
    hosts, env = cluster
    words = [*FLOTA, "launch", "--on=slurm", "--slurm_flags=--nodes=3 --job-name=ends", who[1], "stay"]
    job = hosts[0].start(words, cwd=tmp_path, env=env)
    logs = tmp_path / "log"
    wait_until(
        lambda: all((logs / f"workerlog.{i}").exists() and (logs / f"workerlog.{i}").read_text() for i in range(3)), 60
    )
    if how == "Ctrl-C":
        for process in hosts[0].processes(who[1]):
            # The terminal sends it to all that run in front: salloc, and the launch that it started.
            if b"--on=slurm" in Path(f"/proc/{process}/cmdline").read_bytes():
                os.kill(process, signal.SIGINT)
    else:
        hosts[0].run(["scancel", "--name=ends"], env=env)
    assert job.wait(60) in (130, 143), job.output
    wait_until(lambda: not [process for host in hosts for process in host.processes("who.py")], timeout=20)
    assert '"stopped"' in "".join(file.read_text() for file in logs.glob("durable-*/job.json"))


def test_workers_come_to_the_nodes_of_a_launch_and_leave_them(cluster, tmp_path):
    hosts, env = cluster
    (tmp_path / "train.py").write_text(LIGHT_JOB)
    words = [*FLOTA, "launch", "--on=slurm", "--slurm_flags=--nodes=3", "--server_num=3", "--worker_num=1", "train.py"]
    told = {name: value for name, value in env.items() if not name.startswith("FLOTA_")}  # TLS, and a secret of its own
    job = hosts[0].start(words, cwd=tmp_path, env=told)
    wait_until((tmp_path / "pids/worker.0").exists, 60)
    lines = scale(hosts[0], tmp_path, 3, env=told)
    assert lines == ["worker 1 has joined", "worker 2 has joined", "3 workers (1 before)"], job.output
    assert re.search(r"^h3 \| INFO .* worker 2 is started: log/workerlog.2", job.output, re.MULTILINE)
    assert scale(hosts[0], tmp_path, 1, env=told)[-1] == "1 worker (3 before)"
    (tmp_path / "end").touch()
    assert job.wait(60) == 0, job.output


def test_a_launch_on_slurm_says_what_is_wrong(cluster, tmp_path, who):
    hosts, env = cluster
    done = subprocess.run(
        [*FLOTA, "launch", "--on=slurm", "--hosts=h1", who[1]], cwd=tmp_path, env=env, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert (done.returncode, "--hosts=h1: it is for --on ssh or mpi" in done.stderr) == (2, True), done.stderr
    words = [*FLOTA, "launch", "--on=slurm", "--slurm_flags=--nodez=3", who[1]]
    assert "salloc: unrecognized option '--nodez=3'" in hosts[0].run(words, cwd=tmp_path, env=env, check=False)
    words = [*FLOTA, "launch", "--on=slurm", "--slurm_flags=--nodes=2", "--server_num=1", "--worker_num=1", who[1]]
    assert "2 hosts for 1 servers and 1 workers: h2 would run nothing" in hosts[0].run(
        words, cwd=tmp_path, env=env, check=False
    )
