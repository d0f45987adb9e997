"""Jobs under a real mpirun, on three hosts that it reaches by a real sshd."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from example import EXAMPLE, OF_EACH_WORKER, WORKERS, example_auc, names_of_server
from mpirun import LACKS, mpi_environment, mpi_hosts, mpirun
from scaled import LIGHT_JOB, scale

from waiting import wait_until

pytestmark = pytest.mark.skipif(bool(LACKS), reason=LACKS or "all is there")

EXAMPLES = EXAMPLE.parent
FLOTA = [sys.executable, "-m", "flota.cli"]
SHARDS = "/srv/flota-shards"  # each host's own

# Says who it is, without torch, and stays.
WHO = """
import os, socket, sys, time
from flota.roles import default_role_maker
place = default_role_maker().placement()
protection = "TLS" if os.environ.get("FLOTA_CERTS") else "no TLS"
print(socket.gethostname(), place.role.name, place.index, "of", place.worker_num, *place.server_endpoints, protection)
sys.stdout.flush()
if len(sys.argv) > 1:
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with mpi_hosts(tmp_path_factory.mktemp("mpi"), WORKERS, private=[SHARDS]) as hosts:
        yield hosts


@pytest.fixture
def who(tmp_path):
    (tmp_path / "who.py").write_text(WHO)
    return [sys.executable, tmp_path / "who.py"]


def everything(hosts, text):
    return [process for host in hosts for process in host.processes(text)]


def has_printed(running, text, count=1):
    return lambda: running.output.count(text) >= count or running.status is not None


def test_a_script_trains_on_three_hosts_and_goes_on_after_ten_seconds_without_a_cable(hosts, tmp_path, auc_alone):
    job = mpirun(hosts, [sys.executable, EXAMPLE, "--mode=sync", *OF_EACH_WORKER], cwd=tmp_path, env={})
    wait_until(has_printed(job, "epoch 0, step 100:"), timeout=90)
    servers = re.search(r"servers (\S+),", job.output)[1].split(",")
    assert [server.partition(":")[0] for server in servers] == [host.address for host in hosts]
    assert [names_of_server(hosts[0], server) for server in servers] == [[host.address for host in hosts]] * WORKERS
    hosts.cut(hosts[1])
    cut = time.monotonic()
    wait_until(lambda: time.monotonic() - cut > 10, timeout=20)
    hosts.mend(hosts[1])
    assert job.wait(120) == 0
    assert example_auc(job.output) == pytest.approx(auc_alone, abs=0.005)
    assert not everything(hosts, EXAMPLE.name)


def test_a_launch_trains_on_three_hosts_and_starts_again_what_dies(hosts, tmp_path, auc_alone):
    (tmp_path / "machines").write_text("".join(f"{host.name}\n" for host in hosts))
    flags = ["--on=mpi", "--hostfile=machines", f"--server_num={len(hosts)}", f"--worker_num={WORKERS}"]
    words = [*FLOTA, "launch", *flags, EXAMPLE, "--mode=sync", *OF_EACH_WORKER]
    job = hosts[0].start(words, cwd=tmp_path, env=mpi_environment({}))
    log = tmp_path / "log" / "workerlog.0"
    wait_until(lambda: (log.exists() and "step 100:" in log.read_text()) or job.status is not None, timeout=90)
    told = environment_of(hosts[0].processes(EXAMPLE.name)[-1])
    assert (bool(told["FLOTA_CERTS"]), told.get("FLOTA_INSECURE", "")) == (True, "")
    for host in hosts:
        for process in host.processes(""):
            words = Path(f"/proc/{process}/cmdline").read_bytes().decode()
            assert told["FLOTA_SECRET"] not in words
    os.kill(max(hosts[1].processes(str(EXAMPLE))), signal.SIGKILL)  # the youngest there is a worker
    assert job.wait(120) == 0
    assert "h2 | INFO" in job.output
    assert re.search(r"worker 1 was killed by SIGKILL; starting it again", job.output), job.output
    assert example_auc(log.read_text()) == pytest.approx(auc_alone, abs=0.005)
    assert not everything(hosts, EXAMPLE.name)


def environment_of(process):
    entries = Path(f"/proc/{process}/environ").read_bytes().decode().split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def test_the_example_of_shards_that_lie_on_the_hosts(hosts, tmp_path):
    prepare = [sys.executable, EXAMPLES / "word2vec" / "prepare.py", f"--shards={WORKERS}", "--tokens=30000"]
    subprocess.run([*prepare, "--out=all"], cwd=tmp_path, check=True, timeout=60, capture_output=True)
    for rank, host in enumerate(hosts):
        names = [f"train.txt-{rank:05d}", f"test.txt-{rank:05d}", "word_dict.json"]
        host.run(["cp", *(tmp_path / "all" / name for name in names), SHARDS])
    script = EXAMPLES / "mpi" / "start_mpi_train.sh"
    job = mpirun(hosts, [script, SHARDS], "-x", "PYTHON", cwd=tmp_path, env={"PYTHON": sys.executable})
    assert job.wait(90) == 0, job.output
    assert re.search(r"test loss \d\.\d{4}\n", (tmp_path / "logs" / "rank-0.log").read_text())
    without = mpirun(hosts, [script, "/srv"], "-x", "PYTHON", cwd=tmp_path, env={"PYTHON": sys.executable})
    assert without.wait(60) == 2
    assert "rank 0 on h1 has no /srv/train.txt-00000" in without.output


def test_without_pmix_ranks_tell_each_other_over_mpi4py(hosts, tmp_path, who):
    (tmp_path / "sitecustomize.py").write_text("import flota.roles.pmix\nflota.roles.pmix.load = lambda: None\n")
    job = mpirun(hosts, who, "-x", "PYTHONPATH", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert job.wait(60) == 0, job.output
    assert sorted(line.split()[:5] + line.split()[-1:] for line in lines_of(job)) == sorted(
        [host.name, role, str(i), "of", "3", "TLS"] for role in ("WORKER", "SERVER") for i, host in enumerate(hosts)
    )


def lines_of(job):
    """What the ranks printed, each of which is written whole."""
    return re.findall(r"^h\d (?:WORKER|SERVER) .*$", job.output, re.MULTILINE)


def test_a_rank_that_never_comes_is_named(hosts, tmp_path, who):
    late = ["sh", "-c", '[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec sleep 600; exec "$@"', "sh", *map(str, who)]
    job = mpirun(hosts, late, "-x", "FLOTA_TIMEOUT=2", cwd=tmp_path, env={})
    assert job.wait(60) != 0
    assert re.search(r"rank [02] waited 2 s for rank 1 \(h2\): every rank must call init\(\)", job.output), job.output
    assert not everything(hosts, "sleep 600")


def test_what_only_some_ranks_were_told_is_refused(hosts, tmp_path, who):
    some = [
        "sh",
        "-c",
        'if [ "$OMPI_COMM_WORLD_RANK" = 2 ]; then export FLOTA_INSECURE=1; fi; exec "$@"',
        "sh",
        *map(str, who),
    ]
    job = mpirun(hosts, some, cwd=tmp_path, env={})
    assert job.wait(60) != 0
    says = "rank 2 (h3) was told how traffic is protected by FLOTA_INSECURE, and rank 0 (h1) was not: mpirun -x"
    assert says in job.output


@pytest.mark.parametrize("victim", ["a rank", "a server", "mpirun"])
def test_nothing_is_left_when_one_process_is_killed(hosts, tmp_path, who, victim):
    # A shell in between: the kernel's word to a child that its parent is gone would not reach the rank.
    job = mpirun(hosts, ["sh", "-c", '"$@"; exit $?', "sh", *map(str, who), "stay"], cwd=tmp_path, env={})
    wait_until(has_printed(job, " of 3 ", count=2 * WORKERS), timeout=60)
    on_second = sorted(hosts[1].processes(f"{who[0]} {who[1]} stay"))
    script = [process for process in on_second if "sh" not in Path(f"/proc/{process}/comm").read_text().split()]
    server, rank = sorted(script, key=lambda process: "FLOTA_RANK_PROCESS" not in environment_of(process))
    if victim == "mpirun":
        os.kill(max(hosts[0].processes("mpirun -")), signal.SIGKILL)
    else:
        os.kill(rank if victim == "a rank" else server, signal.SIGKILL)
    if victim == "a server":
        wait_until(lambda: server not in hosts[1].processes("who.py"))
        assert job.status is None  # its worker notices when it next speaks to it
        job.signal(signal.SIGTERM)
    assert job.wait(60) != 0
    wait_until(lambda: not everything(hosts, "who.py"), timeout=30)


def test_ctrl_c_ends_a_launch_on_all_hosts(hosts, tmp_path, who):
    flags = ["--on=mpi", f"--hosts={','.join(host.name for host in hosts)}", "--nproc_per_node=1"]
    job = hosts[0].start([*FLOTA, "launch", *flags, who[1], "stay"], cwd=tmp_path, env=mpi_environment({}))
    log = tmp_path / "log"
    wait_until(
        lambda: len(list(log.glob("*log.?"))) == 6 and all(map(len, map(Path.read_text, log.glob("*log.?")))), 60
    )
    job.signal(signal.SIGINT)
    assert job.wait(30) == 130
    assert "SIGINT: stopping the job" in job.output
    wait_until(lambda: not everything(hosts, "who.py"), timeout=10)


def test_workers_come_to_the_hosts_of_a_launch_and_leave_them(hosts, tmp_path):
    (tmp_path / "train.py").write_text(LIGHT_JOB)
    flags = ["--on=mpi", "--hosts=h1,h2,h3", "--server_num=1", "--worker_num=3"]
    env = mpi_environment({"FLOTA_TIMEOUT": "4"})
    job = hosts[0].start([*FLOTA, "launch", *flags, "train.py"], cwd=tmp_path, env=env)
    wait_until(lambda: len(list(tmp_path.glob("pids/worker.?"))) == 3 or job.status is not None, 60)
    assert scale(hosts[0], tmp_path, 5)[-1] == "5 workers (3 before)", job.output
    assert "h2 | INFO" in next(line for line in job.output.splitlines() if "worker 4 is started" in line)
    for victim in hosts[0].processes("train.py"):
        if environment_of(victim).get("PADDLE_TRAINER_ID") == "3":
            os.kill(victim, signal.SIGKILL)
    wait_until(lambda: (tmp_path / "log/workerlog.3").read_text().count("told ") == 2, 30)
    assert "worker 3 was killed by SIGKILL; starting it again" in job.output
    assert scale(hosts[0], tmp_path, 2)[-1] == "2 workers (5 before)"
    assert "runs on h1: give the command there" in scale(hosts[1], tmp_path, 3)[0]
    (tmp_path / "end").touch()
    assert job.wait(60) == 0, job.output
    assert not everything(hosts, "train.py")


def test_a_scripts_exit_status_is_that_of_the_launch(hosts, tmp_path):
    (tmp_path / "train.py").write_text(
        WHO.replace("time.sleep(600)", "sys.exit(17) if place.index == 1 and place.role == 1 else time.sleep(600)")
    )
    words = [
        *FLOTA,
        "launch",
        "--on=mpi",
        "--hosts=h1,h2",
        "--mpirun_flags=--mca oob_tcp_if_include eth0",
        "train.py",
        "stay",
    ]
    job = hosts[0].start(words, cwd=tmp_path, env=mpi_environment({}))
    assert job.wait(60) == 17, job.output
    assert re.search(r"h2 \| flota launch: worker 1 .* ended with exit status 17", job.output), job.output
