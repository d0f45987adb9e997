"""Workers that come to a running job and leave it: ``flota scale``."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from launched import Launch, clean_environment

from waiting import wait_until

JOB = Path(__file__).parent / "scaled_job.py"
FILES, LINES = 16, 250

# A worker that is one of an async job's, and trains nothing: it ends when it is asked to, or when the file "end" is
# there, as does a server.
LIGHT = """
from flota import _core, config, report, tls

PARTS, MODES = _core.TeamPart, _core.TeamMode

def join(mode=MODES.asynchronous, part=PARTS.join):
    Path(f"gone.{me}").unlink(missing_ok=True)
    options = _core.ClientOptions()
    options.endpoints, options.secret, options.worker = servers, config.job_secret(), index + 1
    tls.protect_client(options)
    client = _core.Client.connect(options, 10_000)
    found = client.team(part, 10_000, index, int(os.environ["PADDLE_TRAINERS_NUM"]), mode)
    client.rejoin(index, found.workers, 10_000)
    report.joined()
    print("told", found.workers, flush=True)
    return client

def work(client):
    ready()
    while not Path("end").exists():
        if index >= client.team(PARTS.ask, 10_000).wanted:
            client.team(PARTS.leave, 10_000, index)
            report.left()
            print("goodbye", flush=True)
            break
        time.sleep(0.02)
    else:
        report.finished()
    Path(f"gone.{me}").touch()

def needed():
    for file in Path("pids").glob("worker.?"):
        if Path("/proc", file.read_text()).exists() and not Path(f"gone.{file.name}").exists():
            return True
    return False

def serve():
    options = _core.ServerOptions()
    options.endpoint, options.secret = endpoint, config.job_secret()
    options.index, options.count = index, len(servers)
    tls.protect_server(options)
    from flota.durable import keep_server
    keep_server(options)
    server = _core.Server.start(options)
    ready()
    while not Path("end").exists() or needed():
        time.sleep(0.02)
    server.stop()
"""
LIGHT_JOB = f"""{LIGHT}
if is_server:
    serve()
else:
    work(join())
"""


def scale(launch, workers, *flags, timeout=150):
    return subprocess.run(
        [sys.executable, "-m", "flota.cli", "scale", "--workers", str(workers), *flags],
        cwd=launch.folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def scaled(launch, workers):
    done = scale(launch, workers)
    assert done.returncode == 0, done.stderr + launch.output
    return done.stdout.splitlines()


def job_of(launch):
    return json.loads((launch.folder / "log" / "durable" / "job.json").read_text())


def pid_of(launch, name):
    return launch.pids(name)[0]


def has_joined(launch, name):
    return (launch.folder / "log" / name).exists() and "joined" in launch.log(name)


@pytest.fixture
def job(tmp_path):
    """Starts the job that counts how often each sample was trained."""
    (tmp_path / "data").mkdir()
    for number in range(FILES):
        lines = [f"1 {key} 1 0.5\n" for key in range(number * LINES, (number + 1) * LINES)]
        (tmp_path / "data" / f"part-{number:02}").write_text("".join(lines))
    started = []

    def start(workers, **arguments):
        command = [sys.executable, "-m", "flota.launch", "--server_num=2", f"--worker_num={workers}", "--view=none"]
        command += [str(JOB), json.dumps(arguments)]
        launch = Launch(tmp_path, command, clean_environment(FLOTA_TIMEOUT="60"))
        started.append(launch)
        wait_until(lambda: scale(launch, workers).returncode == 0, timeout=120)  # the first has joined
        return launch

    yield start
    for launch in started:
        launch.clean_up()


def told(launch, worker):
    return json.loads((launch.folder / f"told.{worker}").read_text())


def processes_of(launch, name):
    """The numbers of the processes whose log has this name."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            log, parent = (
                os.readlink(process / "fd" / "1"),
                (process / "stat").read_text().rpartition(")")[2].split()[1],
            )
        except OSError:
            continue
        if log == str(launch.folder / "log" / name) and int(parent) == launch.process.pid:
            found.append(int(process.name))
    return found


def test_a_job_grows_and_shrinks_and_trains_every_sample_once(job):
    launch = job(1, pace=1.0)
    assert scaled(launch, 3)[-1] == "3 workers (1 before)"
    # Server 0 dies right after, and comes back with the number.
    os.kill(processes_of(launch, "serverlog.0")[0], signal.SIGKILL)
    wait_until(lambda: (launch.folder / "numbers.0.3").exists(), timeout=60)
    assert scaled(launch, 2)[-2:] == ["worker 2 has left", "2 workers (3 before)"]
    (launch.folder / "hurry").touch()
    assert launch.wait(120) == 0, launch.output
    counts = np.load(launch.folder / "counts.npy")
    assert np.unique(counts).tolist() == [2.0], "each sample once in each of two epochs"
    first = told(launch, 0)
    assert first["numbers"][0] == 1
    assert first["numbers"][-1] == 2
    assert 3 in first["numbers"]
    # What was gathered is the same for all who were told it, whenever they came.
    assert told(launch, 1)["totals"] == first["totals"]
    assert not (launch.folder / "told.2").exists()
    assert "was asked to leave" in launch.log("workerlog.2")
    assert job_of(launch)["worker_num"] == 2


def test_workers_that_die_while_others_come_and_go_lose_nothing(job):
    launch = job(2, pace=5.0, max_staleness=4, epochs=1)
    assert scaled(launch, 3)[-1] == "3 workers (2 before)"
    os.kill(processes_of(launch, "workerlog.2")[0], signal.SIGKILL)  # has just joined
    wait_until(lambda: "worker 2 was killed by SIGKILL; starting it again" in launch.output, timeout=60)
    assert scaled(launch, 4)[-1] == "4 workers (3 before)"
    os.kill(processes_of(launch, "workerlog.3")[0], signal.SIGKILL)
    wait_until(lambda: "worker 3 was killed by SIGKILL; starting it again" in launch.output, timeout=60)
    # It is not started again, and its goodbye is said for it; or it was back already, and left by itself.
    assert {"worker 3 has ended before it had left", "worker 3 has left"} & set(scaled(launch, 3))
    (launch.folder / "hurry").touch()
    assert launch.wait(120) == 0, launch.output
    counts = np.load(launch.folder / "counts.npy")
    assert counts.min() >= 1
    # What two deaths may cost, at most: what was read and not told by then.
    assert counts.sum() - len(counts) <= 2 * 2 * LINES
    assert not processes_of(launch, "workerlog.3")


def test_new_workers_are_told_the_number_and_get_their_logs(start):
    launch = start(LIGHT_JOB, "--worker_num=1", "--server_num=1")
    pid_of(launch, "worker.0")
    lines = scaled(launch, 3)
    assert lines[:2] == ["worker 1 is started: log/workerlog.1", "worker 2 is started: log/workerlog.2"]
    assert sorted(lines[2:4]) == ["worker 1 has joined", "worker 2 has joined"]
    assert lines[4:] == ["3 workers (1 before)"]
    wait_until(lambda: launch.log("workerlog.2").startswith("told "))  # after its report
    assert scaled(launch, 3) == ["3 workers (3 before)"]
    assert set(scaled(launch, 1)) >= {"workers 1, 2 will leave after the batch at hand", "worker 1 has left"}
    # Those that come once more go on in their logs.
    assert scaled(launch, 2)[-1] == "2 workers (1 before)"
    wait_until(lambda: launch.log("workerlog.1").count("told 2") == 2)
    assert job_of(launch)["restarts"]["worker 1"] == 1
    (launch.folder / "end").touch()
    assert launch.wait(60) == 0, launch.output


def test_of_two_scales_at_once_the_later_holds(start):
    launch = start(LIGHT_JOB, "--worker_num=1", "--server_num=1")
    pid_of(launch, "worker.0")
    command = [sys.executable, "-m", "flota.cli", "scale", "--workers"]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    both = [subprocess.Popen([*command, number], cwd=launch.folder, **pipe) for number in ("2", "3")]
    ends = [(process.communicate(timeout=120)[0], process.returncode) for process in both]
    assert any(status == 0 for _, status in ends), ends
    last = job_of(launch)["worker_num"]
    for (output, status), number in zip(ends, (2, 3), strict=True):
        if status != 0:
            assert number != last
            assert f"another command asks for {last} workers: that holds" in output
    assert scaled(launch, last)[-1] == f"{last} workers ({last} before)"
    (launch.folder / "end").touch()
    assert launch.wait(60) == 0, launch.output


def test_a_worker_that_fails_before_it_has_joined_ends_no_job(start):
    script = f"""{LIGHT}
if is_server:
    serve()
elif index == 2:
    sys.exit("no such device")
else:
    work(join())
"""
    launch = start(script, "--worker_num=1", "--server_num=1")
    pid_of(launch, "worker.0")
    failed = scale(launch, 3)
    assert failed.returncode == 1
    assert "worker 2 could not join: it ended with exit status 1 (log/workerlog.2)" in failed.stderr
    assert "the job goes on with 2 workers" in failed.stderr
    wait_until(lambda: job_of(launch)["worker_num"] == 2)
    assert scaled(launch, 2)[-1].startswith("2 workers")
    (launch.folder / "end").touch()
    assert launch.wait(60) == 0, launch.output


def test_a_job_ends_without_a_worker_that_was_still_to_join(start):
    script = f"""{LIGHT}
if is_server:
    serve()
elif index == 1:
    ready()
    time.sleep(600)
else:
    work(join())
"""
    launch = start(script, "--worker_num=1", "--server_num=1")
    pid_of(launch, "worker.0")
    late = scale(launch, 2, "--timeout=1")
    assert late.returncode == 1
    assert "no more was heard for 1 s; it goes on" in late.stderr
    (launch.folder / "end").touch()
    assert launch.wait(60) == 0, launch.output
    launch.nothing_is_left()


def test_a_resumed_job_has_the_number_that_it_was_left_with(start):
    launch = start(LIGHT_JOB, "--worker_num=1", "--server_num=1")
    pid_of(launch, "worker.0")
    scaled(launch, 3)
    launch.process.send_signal(signal.SIGKILL)
    launch.process.wait()
    launch.nothing_is_left()
    # As if it had been killed in the middle of another change: the servers have not heard of it.
    place = launch.folder / "log" / "durable" / "job.json"
    place.write_text(json.dumps({**job_of(launch), "worker_num": 2}))
    for file in launch.folder.glob("pids/*"):
        file.unlink()
    again = start(None, "--resume")
    again.pids("worker.0", "worker.1")
    # Worker 2 has left, though nobody said so, and comes as one that joins.
    assert scaled(again, 3)[-1] == "3 workers (2 before)"
    (launch.folder / "end").touch()
    assert again.wait(60) == 0, again.output


def test_jobs_whose_number_is_fixed_say_why(start):
    sync = LIGHT_JOB.replace("join())", "join(MODES.synchronous))")
    launch = start(sync, "--worker_num=1", "--server_num=1", "--no_durable")
    pid_of(launch, "worker.0")
    refused = scale(launch, 2)
    assert refused.returncode == 1
    assert "this job trains in sync mode, where the number of workers is fixed" in refused.stderr
    (launch.folder / "end").touch()
    assert launch.wait(60) == 0, launch.output


def test_commands_that_cannot_be_met_say_why(start, tmp_path):
    launch = start("serve() if is_server else time.sleep(600)", "--server_num=1", "--worker_num=1")
    wait_until(lambda: (tmp_path / "log" / "launch.json").exists())
    assert "--workers=0: a job has at least one worker" in scale(launch, 0).stderr
    assert "did you mean --workers?" in scale(launch, 2, "--worker=3").stderr
    nowhere = scale(launch, 2, "--log_dir=other")
    assert nowhere.returncode == 2
    assert "no launch runs a job here: other/launch.json is not there" in nowhere.stderr
    launch.process.send_signal(signal.SIGTERM)
    assert launch.wait(60) == 143
    assert "no launch runs a job here" in scale(launch, 2).stderr


def test_a_launch_goes_on_whatever_comes_to_its_socket(start, tmp_path):
    launch = start(LIGHT_JOB, "--worker_num=1", "--server_num=1")
    pid_of(launch, "worker.0")
    place = json.loads((tmp_path / "log" / "launch.json").read_text())["control"]
    assert os.stat(Path(place).parent).st_mode & 0o077 == 0
    for text in (b"", b"\n", b"{}\n", b'{"scale": "2"}\n', b'{"scale": 2, "also": 1}\n', b"[" * 3000, b"\x00" * 9000):
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(place)
            other.settimeout(5)
            other.sendall(text)
            other.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):  # it has heard enough
                assert b'"done": true' not in other.recv(4096)
    assert scaled(launch, 2)[-1] == "2 workers (1 before)"
    (launch.folder / "end").touch()
    assert launch.wait(60) == 0, launch.output
