"""flota scale, of a job on a Ray cluster of several nodes, which are killed and too small."""

import json
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from hosts import missing
from rays import Launch, nodes_on_one_host

from waiting import wait_until

pytest.importorskip("ray", reason="Ray is not installed (make setup installs it)")
pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing() or "all is there"),
    pytest.mark.timeout(400),
]

JOB = Path(__file__).parents[1] / "launch" / "scaled_job.py"
FILES, LINES = 16, 250
CPUS = 6  # of each of two nodes


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with nodes_on_one_host(tmp_path_factory.mktemp("nodes"), 2, CPUS) as nodes:
        yield nodes


class Job:
    """A job of one worker that counts how often each sample was trained, in a folder that all nodes see."""

    def __init__(self, nodes, folder, *flags, **arguments):
        self.shared = folder / "shared"
        (self.shared / "data").mkdir(parents=True)
        for number in range(FILES):
            lines = [f"1 {key} 1 0.5\n" for key in range(number * LINES, (number + 1) * LINES)]
            (self.shared / "data" / f"part-{number:02}").write_text("".join(lines))
        script = self.shared / "train.py"
        shutil.copy(JOB, script)
        self.launch = Launch(
            nodes.host, folder / "launch", f"--ray_address={nodes.head}", "--view=none", "--server_num=2",
            "--worker_num=1", f"--durable={folder / 'kept'}", f"--job_workspace={self.shared}", *flags, script,
            json.dumps(arguments),
        )  # fmt: skip

    def has(self, workers):
        assert self.launch.running.status is None, self.launch.output
        return self.launch.scale(workers)[0] == 0

    def scaled(self, workers):
        status, output = self.launch.scale(workers)
        assert status == 0, output + self.launch.output
        return output.splitlines()

    def counts(self):
        (self.shared / "hurry").touch()
        assert self.launch.wait() == 0, self.launch.output
        return np.load(self.shared / "counts.npy")

    def told(self, worker):
        return json.loads((self.shared / f"told.{worker}").read_text())

    def kill(self):
        if self.launch.running.status is None:
            self.launch.running.signal(signal.SIGKILL)
            self.launch.wait()


@pytest.fixture
def job(nodes, tmp_path):
    started = []

    def job(*flags, **arguments):
        started.append(Job(nodes, tmp_path, *flags, **arguments))
        wait_until(lambda: started[-1].has(1), 110)
        return started[-1]

    yield job
    for job in started:
        job.kill()


def test_a_job_grows_over_the_nodes_as_there_is_room_and_shrinks_and_trains_every_sample_once(nodes, job):
    job = job("--server_cpus=2", "--worker_cpus=2", "--ray_wait=8", pace=2.0)
    lines = job.scaled(3)
    assert "worker 2 will be started: log/workerlog.2" in lines
    assert sorted(lines[-3:-1]) == ["worker 1 has joined", "worker 2 has joined"]
    assert lines[-1] == "3 workers (1 before)"
    names = [f"server {i}" for i in range(2)] + [f"worker {i}" for i in range(3)]
    assert {job.launch.place_of(name) for name in names} == set(nodes.addresses)
    # There is one place more on the cluster.
    status, output = job.launch.scale(5)
    assert status == 1
    assert "worker 3 is on h1" in output
    assert re.search(r"Ray looks for places for worker 4, CPU 2 for each; free is: .*; waiting up to 8 s", output)
    assert "worker 4 could not join: it got no place: Ray has had no room for it for 8 s" in output
    assert "the job goes on with 4 workers" in output
    assert job.scaled(4)[-1] == "4 workers (4 before)"
    shrunk = job.scaled(2)
    assert {"worker 2 has left", "worker 3 has left", "2 workers (4 before)"} <= set(shrunk)
    wait_until(lambda: len(nodes.host.processes("ray::Seat")) == 4, 20)  # their seats were given back
    assert np.unique(job.counts()).tolist() == [2.0], "each sample once in each of two epochs"
    assert job.told(0)["numbers"][-1] == 2
    assert job.told(1)["totals"] == job.told(0)["totals"]
    assert "was asked to leave" in job.launch.log("workerlog.2")


def test_a_worker_that_has_joined_outlives_its_node(nodes, job):
    job = job(pace=5.0, epochs=1)
    job.scaled(2)
    address = job.launch.place_of("worker 1")
    with nodes.without(address):
        job.launch.wait_for(rf"worker 1 was lost with its place on h1 \({address}\); starting it again")
        job.launch.wait_for(r"worker 1 is on h1 \(\S+\) now")
        # Each sample at least once; again may be what was read and not told by then.
        assert job.counts().min() >= 1
