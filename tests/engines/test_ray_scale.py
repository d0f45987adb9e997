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
CPUS = 4  # of each of two nodes


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with nodes_on_one_host(tmp_path_factory.mktemp("nodes"), 2, CPUS) as nodes:
        yield nodes


class Job:
    """A job of one worker that counts how often each sample was trained, in a folder that all nodes see."""

    def __init__(self, nodes, folder, *flags, **arguments):
        self.folder = folder / "shared"
        (self.folder / "data").mkdir(parents=True)
        for number in range(FILES):
            lines = [f"1 {key} 1 0.5\n" for key in range(number * LINES, (number + 1) * LINES)]
            (self.folder / "data" / f"part-{number:02}").write_text("".join(lines))
        shutil.copy(JOB, self.folder / "train.py")
        self.launch = Launch(
            nodes.host, folder / "launch", f"--ray_address={nodes.head}", "--server_num=2", "--worker_num=1",
            "--view=none", f"--durable={folder / 'kept'}", f"--job_workspace={self.folder}", *flags,
            self.folder / "train.py", json.dumps(arguments),
        )  # fmt: skip
        self.kept = folder / "kept"

    def begin(self):
        """Until the first worker is there."""
        wait_until(self.has_begun, 110)
        return self

    def has_begun(self):
        assert self.launch.running.status is None, self.launch.output
        return self.launch.scale(1)[0] == 0

    def scaled(self, workers):
        status, output = self.launch.scale(workers)
        assert status == 0, output + self.launch.output
        return output.splitlines()

    def counts(self):
        (self.folder / "hurry").touch()
        assert self.launch.wait() == 0, self.launch.output
        return np.load(self.folder / "counts.npy")

    def record(self):
        return json.loads((self.kept / "job.json").read_text())

    def told(self, worker):
        return json.loads((self.folder / f"told.{worker}").read_text())


@pytest.fixture
def job(nodes, tmp_path):
    started = []

    def job(*flags, **arguments):
        started.append(Job(nodes, tmp_path, *flags, **arguments))
        return started[-1].begin()

    yield job
    for job in started:
        if job.launch.running.status is None:
            job.launch.running.signal(signal.SIGKILL)


def test_a_job_grows_over_the_nodes_and_shrinks_and_trains_every_sample_once(nodes, job):
    job = job(pace=1.0)
    lines = job.scaled(3)
    assert "worker 2 will be started: log/workerlog.2" in lines
    assert lines[-3:-1] in (
        ["worker 1 has joined", "worker 2 has joined"],
        ["worker 2 has joined", "worker 1 has joined"],
    )
    assert lines[-1] == "3 workers (1 before)"
    names = [f"server {i}" for i in range(2)] + [f"worker {i}" for i in range(3)]
    assert {job.launch.place_of(name) for name in names} == set(nodes.addresses)
    assert job.scaled(2)[-2:] == ["worker 2 has left", "2 workers (3 before)"]
    wait_until(lambda: len(nodes.host.processes("ray::Seat")) == 4, 20)  # its seat was given back
    assert np.unique(job.counts()).tolist() == [2.0], "each sample once in each of two epochs"
    first = job.told(0)
    assert first["numbers"][-1] == 2
    assert job.told(1)["totals"] == first["totals"]
    assert "was asked to leave" in job.launch.log("workerlog.2")
    assert job.record()["worker_num"] == 2


def test_a_worker_that_has_joined_outlives_its_node(nodes, job):
    job = job(pace=5.0, epochs=1)
    job.scaled(2)
    address = job.launch.place_of("worker 1")
    with nodes.without(address):
        job.launch.wait_for(rf"worker 1 was lost with its place on h1 \({address}\); starting it again")
        job.launch.wait_for(r"worker 1 is on h1 \(\S+\) now")
        counts = job.counts()
    assert counts.min() >= 1
    # What a death may cost, at most: what was read and not told by then, by those who shared the node.
    assert counts.sum() - len(counts) <= 2 * 2 * LINES


def test_a_worker_without_a_place_is_given_up_and_the_job_goes_on(nodes, job):
    job = job("--server_num=1", "--worker_cpus=3", "--ray_wait=8", pace=5.0, epochs=1)
    status, output = job.launch.scale(3)
    assert status == 1
    assert "worker 1 has joined" in output  # the lowest gets the one place that is there
    assert re.search(r"Ray looks for a place for worker 2: it asks for CPU 3; free is: .*; waiting up to 8 s", output)
    assert re.search(r"worker 2 could not join: it got no place: Ray has had no room for it for 8 s", output)
    assert "the job goes on with 2 workers" in output
    wait_until(lambda: job.record()["worker_num"] == 2, 20)
    # Its place is one for the next.
    assert job.scaled(1)[-1] == "1 worker (2 before)"
    assert job.scaled(2)[-1] == "2 workers (1 before)"
    assert np.unique(job.counts()).tolist() == [1.0]
