"""`flota scale` for jobs on several hosts that an engine has started: SSH, mpirun, Slurm."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from hosts import Hosts, missing
from mpirun import mpi_environment, mpi_hosts
from sshd import Cluster

from waiting import wait_until

pytestmark = pytest.mark.skipif(bool(missing("sshd")), reason=missing("sshd") or "all is there")

JOB = Path(__file__).parents[1] / "launch" / "scaled_job.py"
FLOTA = [sys.executable, "-m", "flota.cli"]
FILES, LINES = 16, 250


def write_data(folder):
    (folder / "data").mkdir()
    for number in range(FILES):
        lines = [f"1 {key} 1 0.5\n" for key in range(number * LINES, (number + 1) * LINES)]
        (folder / "data" / f"part-{number:02}").write_text("".join(lines))


def scale(host, folder, workers, *flags):
    """What `flota scale` prints on a host, in this folder."""
    words = [*FLOTA, "scale", "--workers", str(workers), *flags]
    return host.run(words, cwd=folder, timeout=110, check=False)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ssh")
    with Hosts(folder, 3) as hosts:
        yield Cluster(hosts, folder / "work")


def test_workers_come_to_hosts_by_ssh_and_leave_them_and_every_sample_is_trained_once(cluster):
    folder = cluster.folder
    write_data(folder)
    (folder / "train.py").write_text(JOB.read_text())
    arguments = json.dumps({"pace": 1.0, "epochs": 1})
    launch = cluster.launch("--hosts=h1,h2,h3", "--server_num=1", "--worker_num=3", "train.py", arguments)
    wait_until(lambda: "3 workers (3 before)" in scale(cluster.head, folder, 3) or launch.status is not None, 90)
    print(scale(cluster.head, folder, 5))
    print(scale(cluster.head, folder, 2))
    (folder / "hurry").touch()
    status = launch.wait(60)
    print(launch.output)
    assert status == 0, launch.output
    assert np.unique(np.load(folder / "counts.npy")).tolist() == [1.0]
    assert False
