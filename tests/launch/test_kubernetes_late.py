"""Pods of workers that a job goes on without: those that could not join it, were to leave, or come when it is over."""

import contextlib

import pytest
from test_kubernetes_pods import attended, ended

from flota import _core, config
from flota.health import HealthPort
from flota.launch.kubernetes.settings import HEALTH_PORT

PART, MODE = _core.TeamPart, _core.TeamMode
SECRET = "0123456789abcdef" * 4
# What a script does first that has a part in the job.
JOINS = """
import os, sys, time
from flota import _core, config, report
options = _core.ClientOptions()
options.endpoints, options.secret = [os.environ["PADDLE_PSERVERS_IP_PORT_LIST"]], config.job_secret()
client = _core.Client.connect(options, 10_000)
index, world = (int(os.environ[name]) for name in ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM"))
if client.team(_core.TeamPart.join, 10_000, index, world, _core.TeamMode.asynchronous).late:
    report.coming()
"""


class Job:
    """Server 0 of a job that began with two workers."""

    def __init__(self):
        options = _core.ServerOptions()
        options.endpoint, options.secret, options.index, options.count = "127.0.0.1:0", SECRET, 0, 1
        self.server = _core.Server.start(options)
        self.endpoint = f"127.0.0.1:{self.server.port}"
        options = _core.ClientOptions()
        options.endpoints, options.secret = [self.endpoint], SECRET
        self.client = _core.Client.connect(options, 10_000)
        self.tell(PART.join, 0, 2, MODE.asynchronous)

    def tell(self, part, *numbers, **named):
        told = self.client.team(part, 10_000, *numbers, **named)
        return told.workers, told.wanted

    @property
    def team(self):
        return self.tell(PART.ask)

    def place(self, index, **more):
        return {
            "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(index), "PADDLE_TRAINERS_NUM": "2",
            "PADDLE_PSERVERS_IP_PORT_LIST": self.endpoint, "FLOTA_SECRET": SECRET, **more,
        }  # fmt: skip


@pytest.fixture
def job():
    job = Job()
    yield job
    job.server.stop()


def test_a_worker_that_its_template_does_not_know_of_is_told_a_number_above_it(tmp_path):
    script = "import os; print('told', os.environ['PADDLE_TRAINERS_NUM'])"
    place = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINERS_NUM": "2"}
    assert "told 5\n" in ended(tmp_path, "worker", script, PADDLE_TRAINER_ID="4", **place)[1]
    assert "told 2\n" in ended(tmp_path, "worker", script, PADDLE_TRAINER_ID="1", **place)[1]


def test_a_worker_that_fails_before_it_joins_ends_well_and_says_why(job, tmp_path):
    job.tell(PART.scale, workers=3)
    status, output = ended(tmp_path, "worker", "raise ValueError('no such device')", **job.place(2))
    assert status == 0
    assert "ValueError: no such device" in output
    assert "this worker could not join: it ended with exit status 1; the job goes on without it" in output


def test_a_worker_that_fails_on_its_way_to_the_others_is_waited_for_by_nobody(job, tmp_path):
    job.tell(PART.scale, workers=3)
    script = f"{JOINS}\nassert client.team(_core.TeamPart.ask, 10_000).workers == 3\nsys.exit(1)"
    assert ended(tmp_path, "worker", script, **job.place(2))[0] == 0
    assert job.team == (2, 3)


def test_a_worker_that_has_joined_and_then_fails_is_as_any_other(job, tmp_path):
    job.tell(PART.scale, workers=3)
    status, output = ended(tmp_path, "worker", f"{JOINS}\nreport.joined()\nsys.exit(1)", **job.place(2))
    assert (status, job.team) == (70, (3, 3)), output
    status, output = ended(tmp_path, "worker", "raise ValueError", **job.place(1))
    assert (status, job.team) == (70, (3, 3)), output


def test_a_worker_on_its_way_may_be_started_again_as_often_as_others(job, tmp_path):
    job.tell(PART.scale, workers=3)
    killed = "import os; os.kill(os.getpid(), 9)"
    for restarts, status in (("0", 137), ("1", 137), ("2", 0)):
        place = job.place(2, **{config.RESTARTS: restarts})
        assert ended(tmp_path, "worker", killed, "--restarts=2", **place)[0] == status


def test_a_worker_that_was_not_asked_for_ends_well(job, tmp_path):
    status, output = ended(tmp_path, "worker", JOINS, **job.place(2))
    assert status == 0
    assert "worker 2 is none of this job's 2 workers" in output
    assert "this worker is none of the job's 2 workers; the job goes on without it" in output


def test_a_worker_that_dies_while_it_is_to_leave_is_not_started_again(job, tmp_path):
    job.tell(PART.scale, workers=1)
    status, output = ended(tmp_path, "worker", "import os; os.kill(os.getpid(), 9)", **job.place(1))
    assert status == 0
    assert "this worker ended before it had left; the job goes on without it" in output
    assert job.team == (1, 1)


def test_before_the_job_has_begun_no_worker_is_excused(job, tmp_path):
    options = _core.ServerOptions()
    options.endpoint, options.secret, options.index, options.count = "127.0.0.1:0", SECRET, 0, 1
    empty = _core.Server.start(options)
    place = {**job.place(1), "PADDLE_PSERVERS_IP_PORT_LIST": f"127.0.0.1:{empty.port}"}
    assert ended(tmp_path, "worker", "raise ValueError", **place)[0] == 70
    empty.stop()


@contextlib.contextmanager
def servers_health(text):
    port = HealthPort("127.0.77.1", HEALTH_PORT, not_ready=text)
    try:
        yield {"PADDLE_PSERVERS_IP_PORT_LIST": "127.0.77.1:6170"}
    finally:
        port.close()


def test_a_worker_that_comes_when_the_job_is_over_ends_well(job, tmp_path):
    with servers_health("finished") as place:
        with attended(tmp_path, "worker", "import time; time.sleep(600)", **{**job.place(2), **place}) as process:
            output = process.communicate(timeout=60)[0]
        assert process.returncode == 0
        assert "this worker came when the job was over; the job goes on without it" in output
