"""What is rendered for Kubernetes is enough for a job: its pods, run without Kubernetes on hosts of their own."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from example import EXAMPLE, OF_EACH_WORKER, WORKERS, example_auc
from hosts import Hosts, missing
from pods import PRIVATE, Pod, name_on_all

from waiting import wait_until

pytestmark = pytest.mark.skipif(bool(missing("setpriv")), reason=missing("setpriv") or "all is there")

SERVERS = 2
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
FAILURES = "metadata.annotations['batch.kubernetes.io/job-index-failure-count']"


@pytest.fixture
def hosts(tmp_path):
    with Hosts(tmp_path, SERVERS + WORKERS + 1, private=PRIVATE) as hosts:
        yield hosts
    for place in PRIVATE:
        with contextlib.suppress(OSError):
            Path(place).rmdir()


def rendered(folder, *flags):
    command = [
        sys.executable, "-m", "flota.cli", "launch", "--on=kubernetes", "--image=none", "--name=ads", "--dry-run",
        "--with_secret", "--send_script", f"--server_num={SERVERS}", f"--worker_num={WORKERS}", *flags, EXAMPLE,
        "--mode=sync", *OF_EACH_WORKER,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def template(objects, kind):
    return next(thing for thing in objects if thing["kind"] == kind)["spec"]["template"]


@pytest.mark.timeout(300)
def test_a_job_trains_over_tls_while_a_server_moves_and_a_worker_dies(tmp_path, hosts, auc_alone):
    objects = rendered(tmp_path)
    names = {f"ads-server-{i}.ads-server": hosts[i].address for i in range(SERVERS)}
    name_on_all(hosts, names)
    servers = [
        Pod(objects, template(objects, "StatefulSet"), hosts[i], {"metadata.name": f"ads-server-{i}"})
        for i in range(SERVERS)
    ]
    workers = [Pod(objects, template(objects, "Job"), hosts[SERVERS + i], {INDEX: str(i)}) for i in range(WORKERS)]
    spare = hosts[SERVERS + WORKERS]
    everybody = [*servers, *workers]
    wait_until(
        lambda: "step 100" in workers[0].running.output or any(pod.running.status is not None for pod in everybody),
        timeout=120,
    )
    assert [pod.running.output for pod in everybody if pod.running.status is not None] == []
    assert (servers[1].health("/healthz"), servers[1].health("/readyz")) == (200, 200)

    # The node of server 1 dies. Its pod is made anew on another: the same name and volume, another address.
    hosts[1].kill()
    servers[1] = servers[1].move(spare)
    name_on_all(hosts, {"ads-server-1.ads-server": spare.address})
    # Worker 2 is killed as by a lack of memory, and is another pod of the same index then.
    for process in hosts[SERVERS + 2].processes("-u /run/flota/script/script.py"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    assert workers[2].running.wait(60) == 137
    workers[2].start_again(**{FAILURES: "1"})

    for worker in workers:
        assert worker.running.wait(200) == 0, worker.running.output
    assert "worker 2 was started again (2 times in all)" in workers[2].running.output
    assert abs(example_auc(workers[0].running.output) - auc_alone) < 0.005
    # A StatefulSet would start servers again; they stay instead, and are not ready.
    for server in servers:
        wait_until(lambda server=server: server.health("/readyz") == 503, timeout=30)
        assert server.health("/healthz") == 200
        assert "this server has done its work" in server.running.output
