"""Workers that come to a job on several hosts and leave it, where each host has a launch of its own."""

import json
import os
import signal
import subprocess
import sys

import pytest
from launched import PRELUDE, Launch, alive, clean_environment
from test_scaling import LIGHT, LIGHT_JOB, pid_of, scale

from flota.launch.hosts import free_ports
from waiting import wait_until

SETTINGS = {"FLOTA_SECRET": "0123456789abcdef0123456789abcdef", "FLOTA_INSECURE": "1"}
HOSTS = ("127.0.0.1", "127.0.0.2")


class HostLaunch(Launch):
    """Beside those of other hosts in one folder."""

    @property
    def output(self):
        return (self.folder / f"output-{self.address}").read_text()


@pytest.fixture
def start(tmp_path):
    """Starts a job with a server on the first host and a worker on each, POD_IP telling the hosts apart."""
    started = []
    ports = free_ports(HOSTS[0], 3)

    def start(script, *flags, hosts=HOSTS, workers=HOSTS, **settings):
        if script is not None:
            (tmp_path / "train.py").write_text(PRELUDE + script)
        lists = [f"--servers={HOSTS[0]}:{ports[0]}"]
        lists += ["--workers=" + ",".join(f"{host}:{port}" for host, port in zip(workers, ports[1:], strict=False))]
        command = [sys.executable, "-m", "flota.launch", *lists, *flags, *(["train.py"] if script is not None else [])]
        launches = []
        for host in hosts:
            environment = clean_environment(**SETTINGS, **settings, POD_IP=host)
            launches.append(HostLaunch(tmp_path, command, environment))
            (tmp_path / "output").rename(tmp_path / f"output-{host}")
            launches[-1].address = host
        started.extend(launches)
        return launches

    yield start
    for launch in started:
        launch.clean_up()


def scaled(launch, workers):
    done = scale(launch, workers)
    assert done.returncode == 0, done.stderr + launch.output
    return done.stdout.splitlines()


def ended(*launches, timeout=60):
    (launches[0].folder / "end").touch()
    statuses = [launch.wait(timeout) for launch in launches]
    assert statuses == [0] * len(launches), "".join(launch.output for launch in launches)
    launches[0].nothing_is_left()


def job_of(launch, host):
    return json.loads((launch.folder / "log" / f"durable-{host}" / "job.json").read_text())


def test_workers_come_to_the_hosts_in_turn_and_a_host_that_all_have_left_takes_others(start):
    first, second = start(LIGHT_JOB, FLOTA_TIMEOUT="3")
    first.pids("worker.0", "worker.1")
    assert scaled(first, 4) == ["worker 2 has joined", "worker 3 has joined", "4 workers (2 before)"]
    assert "worker 2 is started: log/workerlog.2" in first.output
    assert "worker 3 is started: log/workerlog.3" in second.output
    assert "the job has 4 workers from now on (2 before)" in first.output
    assert "from now on" not in second.output, "once for the whole job"
    lines = scaled(first, 1)
    assert lines[0] == "workers 1, 2, 3 will leave after the batch at hand"
    assert lines[-1] == "1 worker (4 before)"
    wait_until(lambda: not any(alive(pid_of(second, f"worker.{i}")) for i in (1, 3)), timeout=30)
    assert scaled(first, 3)[-1] == "3 workers (1 before)"
    assert first.log("workerlog.1").count("told 2") == 2
    assert second.process.poll() is None
    # Its last one leaves before the job ends: the host hears that from nobody but the servers' silence.
    scaled(first, 1)
    ended(first, second)


def test_either_host_may_be_asked_and_the_later_of_two_holds(start):
    first, second = start(LIGHT_JOB, FLOTA_TIMEOUT="3")
    first.pids("worker.0", "worker.1")
    place = first.folder / "log" / f"launch-{HOSTS[0]}.json"
    place.rename(first.folder / "kept.json")
    assert scaled(first, 3)[-1] == "3 workers (2 before)"
    elsewhere = {**json.loads((first.folder / "log" / f"launch-{HOSTS[1]}.json").read_text()), "host": "h9"}
    (first.folder / "log" / f"launch-{HOSTS[1]}.json").write_text(json.dumps(elsewhere))
    refused = scale(first, 2)
    assert refused.returncode == 2
    assert "runs on h9: give the command there" in refused.stderr
    (first.folder / "kept.json").rename(place)
    command = [sys.executable, "-m", "flota.cli", "scale", "--workers"]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    both = [subprocess.Popen([*command, number], cwd=first.folder, **pipe) for number in ("2", "5")]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert any(process.returncode == 0 for process in both), outputs
    for process, output, other in zip(both, outputs, (5, 2), strict=True):
        if process.returncode != 0:
            assert f"the job is to have {other} workers now: another command asks for that" in output
    ended(first, second)


def test_a_worker_that_fails_before_it_has_joined_sets_the_number_back_on_all_hosts(start):
    script = f"""{LIGHT}
if is_server:
    serve()
elif index == 3 and not Path("mended").exists():
    sys.exit("no such device")
else:
    work(join())
"""
    first, second = start(script, FLOTA_TIMEOUT="3")
    first.pids("worker.0", "worker.1")
    failed = scale(first, 5)
    assert failed.returncode == 1
    assert "the job is to have 3 workers now" in failed.stderr
    assert "worker 3 could not join: its launch and its log say why" in failed.stderr
    assert (
        "worker 3 could not join: it ended with exit status 1 (log/workerlog.3); the job goes on with 3"
        in second.output
    )
    assert scaled(first, 3)[-1].startswith("3 workers")
    wait_until(lambda: [job_of(first, host)["worker_num"] for host in HOSTS] == [3, 3], timeout=30)
    (first.folder / "mended").touch()
    assert scaled(first, 5)[-1] == "5 workers (3 before)"
    ended(first, second)


def test_workers_that_are_killed_while_others_come_and_go_are_started_again_or_seen_off(start):
    first, second = start(LIGHT_JOB, FLOTA_TIMEOUT="3")
    first.pids("worker.0", "worker.1")
    scaled(first, 4)
    os.kill(pid_of(second, "worker.3"), signal.SIGKILL)
    wait_until(lambda: "worker 3 was killed by SIGKILL; starting it again" in second.output, timeout=30)
    os.kill(pid_of(first, "worker.2"), signal.SIGKILL)  # in its place nobody comes: it is to leave
    assert scaled(first, 2)[-1] == "2 workers (4 before)"
    os.kill(pid_of(second, "worker.1"), signal.SIGKILL)
    wait_until(lambda: second.log("workerlog.1").count("told 2") == 2, timeout=30)
    ended(first, second)


def test_a_worker_that_fails_ends_its_host_s_launch_with_its_status(start):
    first, second = start(f"{LIGHT}\nserve() if is_server else work(join()) if index == 0 else sys.exit(7)")
    assert second.wait(30) == 7, second.output
    assert "worker 1 is not started again: an error in the first 60 s is taken for the script's own" in second.output
    ended(first)


def test_hosts_that_go_on_start_as_many_as_there_were_to_be(start):
    launches = start(LIGHT_JOB, FLOTA_TIMEOUT="3")
    launches[0].pids("worker.0", "worker.1")
    scaled(launches[0], 4)
    scaled(launches[0], 3)
    for launch in launches:
        launch.process.send_signal(signal.SIGKILL)
        launch.process.wait()
    launches[0].nothing_is_left()
    # As if it had been killed before it heard of the last change.
    place = launches[0].folder / "log" / f"durable-{HOSTS[1]}" / "job.json"
    told = job_of(launches[0], HOSTS[1])
    assert (told["worker_num"], told["began_with"]) == (3, 2)
    place.write_text(json.dumps({**told, "worker_num": 4}))
    for file in launches[0].folder.glob("pids/*"):
        file.unlink()
    first, second = start(None, "--resume", FLOTA_TIMEOUT="3")
    first.pids("worker.0", "worker.1", "worker.2")
    assert scaled(first, 3) == ["3 workers (3 before)"]
    wait_until(lambda: job_of(first, HOSTS[1])["worker_num"] == 3, timeout=30)
    assert scaled(first, 4)[-1] == "4 workers (3 before)"
    ended(first, second)


def test_a_job_whose_number_is_fixed_says_why_and_nobody_watches_it(start):
    sync = LIGHT_JOB.replace("join())", "join(MODES.synchronous))")
    first, second = start(sync, "--no_durable", FLOTA_TIMEOUT="3")
    first.pids("worker.0", "worker.1")
    refused = scale(first, 3)
    assert refused.returncode == 1
    assert "this job trains in sync mode, where the number of workers is fixed" in refused.stderr
    wait_until(lambda: not watches(first) and not watches(second), timeout=30)
    ended(first, second)


def watches(launch):
    children = subprocess.run(["ps", "-o", "args=", "--ppid", str(launch.process.pid)], capture_output=True, text=True)
    return "flota.launch.envoy watch" in children.stdout


def test_a_change_goes_on_when_nobody_waits_for_it_and_when_who_comes_is_killed(start):
    script = f"{LIGHT}\nserve() if is_server else (index < 2 or (ready(), wait_for('let')), work(join()))"
    first, second = start(script, FLOTA_TIMEOUT="5")
    first.pids("worker.0", "worker.1")
    late = scale(first, 3, "--timeout=1")
    assert (late.returncode, late.stderr) == (1, "flota scale: no more was heard for 1 s; it goes on\n")
    command = [sys.executable, "-m", "flota.cli", "scale", "--workers", "3"]
    again = subprocess.Popen(command, cwd=first.folder, stdout=subprocess.PIPE, text=True)
    os.kill(pid_of(first, "worker.2"), signal.SIGKILL)
    wait_until(lambda: "worker 2 was killed by SIGKILL; starting it again" in first.output, timeout=30)
    (first.folder / "pids" / "let").touch()
    assert again.communicate(timeout=60)[0].splitlines() == ["worker 2 has joined", "3 workers (2 before)"]
    (first.folder / "pids" / "let").unlink()
    ended(first, second)
