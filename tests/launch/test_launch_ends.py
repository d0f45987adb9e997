"""However a launch is ended, no process stays behind: not the servers, not the workers, not what they have started."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from launched import alive

from waiting import wait_until

# Every process starts one of its own, as a reader of data does.
WITH_CHILDREN = """
import subprocess
child = subprocess.Popen(["sleep", "600"])
ready(child.pid, me + ".child")
serve()
"""

NAMES = ["server.0", "worker.0", "worker.1", "server.0.child", "worker.0.child", "worker.1.child"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_stops_everything(start, number, status):
    launch = start(WITH_CHILDREN, "--worker_num=2")
    launch.pids(*NAMES)
    launch.process.send_signal(number)
    assert launch.wait() == status
    assert f"{signal.Signals(number).name}: stopping 3 processes" in launch.output
    launch.nothing_is_left()


def test_nothing_outlives_a_launcher_that_is_killed(start):
    launch = start(WITH_CHILDREN, "--worker_num=2")
    launch.pids(*NAMES)
    folder = Path(re.search(r"/\S+/flota-launch-\w+", launch.output)[0])
    assert folder.exists()
    launch.process.kill()
    launch.wait()
    launch.nothing_is_left()
    wait_until(lambda: not folder.exists())


def test_the_guard_ends_with_the_launcher(start):
    launch = start(WITH_CHILDREN)
    launch.pids("server.0", "worker.0")

    def children():
        return subprocess.run(["ps", "-o", "pid=", "--ppid", str(launch.process.pid)], capture_output=True, text=True)

    pids = [int(pid) for pid in children().stdout.split()]
    assert len(pids) == 3  # a server, a worker and the guard
    launch.process.kill()
    launch.wait()
    wait_until(lambda: not any(alive(pid) for pid in pids), timeout=3)


def test_children_of_a_worker_end_with_it(start):
    script = """
    import subprocess
    if is_server:
        serve()
    child = subprocess.Popen(["sleep", "600"])
    ready(child.pid, me + ".child")
    """
    launch = start(script)
    assert launch.wait() == 0
    launch.nothing_is_left()


def test_a_second_signal_does_not_wait(start):
    launch = start("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nserve()", "--timeout=60")
    launch.pids("server.0", "worker.0")
    launch.process.send_signal(signal.SIGINT)
    wait_until(lambda: "stopping 2 processes" in launch.output)
    launch.process.send_signal(signal.SIGINT)
    assert launch.wait(timeout=3) == 130
    launch.nothing_is_left()


def test_a_paused_process_is_stopped_too(start):
    launch = start("serve()")
    _, worker = launch.pids("server.0", "worker.0")
    os.kill(worker, signal.SIGSTOP)
    began = time.monotonic()
    launch.process.send_signal(signal.SIGTERM)
    assert launch.wait() == 143
    assert time.monotonic() - began < 5
    launch.nothing_is_left()


def test_processes_may_use_their_last_seconds(start):
    script = """
    def end(*_):
        time.sleep(0.3)
        Path(f"saved.{me}").touch()
        sys.exit(0)
    signal.signal(signal.SIGTERM, end)
    if is_server:
        serve()
    wait_for("server.0")
    """
    launch = start(script)
    assert launch.wait() == 0
    assert (launch.folder / "saved.server.0").exists()
