"""The first process of a pod: signals, orphans, exit statuses, and a server that has done its work."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys

import pytest
from launched import alive, clean_environment

from flota import config
from waiting import wait_until


@contextlib.contextmanager
def attended(folder, role, script, *flags, **settings):
    (folder / "script.py").write_text(script)
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "flota.launch.kubernetes.attend", role, *flags, "--", "script.py"],
        cwd=folder, env=clean_environment(**settings), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        # As a pod's end does: the script goes with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ended(folder, role, script, *flags, **settings):
    """Its exit status and output."""
    with attended(folder, role, script, *flags, **settings) as process:
        output = process.communicate(timeout=60)[0]
        return process.returncode, output


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("print('done')", 0),
        ("raise SystemExit(2)", 2),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139),
    ],
)
def test_it_ends_as_its_script(tmp_path, script, status):
    assert ended(tmp_path, "worker", script)[0] == status


def test_an_error_that_would_come_again_says_so_to_kubernetes(tmp_path):
    status, output = ended(tmp_path, "worker", "raise ValueError('misspelt')")
    assert status == 70
    assert "ValueError: misspelt" in output
    assert "an error in the first 60 s is taken for the script's own, and would come again" in output


def test_an_error_that_a_server_is_to_blame_for_does_not(tmp_path):
    script = """
from flota import report
from flota.errors import ServerUnavailable
report.watch_failures()
raise ServerUnavailable("server 0 is away")
"""
    place = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "3"}
    assert ended(tmp_path, "worker", script, **place)[0] == 1


def test_a_script_that_is_not_there_is_not_started_again(tmp_path):
    (tmp_path / "script.py").touch()
    done = subprocess.run(
        [sys.executable, "-m", "flota.launch.kubernetes.attend", "worker", "--", "nowhere.py"],
        cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2  # as Python ends then
    assert "nowhere.py" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_the_script(tmp_path, number):
    script = f"""
import signal, sys, time
signal.signal({int(number)}, lambda *_: sys.exit(7))
print("ready", flush=True)
time.sleep(60)
"""
    with attended(tmp_path, "worker", script) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        # Told to end it is not asked whether it would end so again.
        assert process.wait(30) == (70 if number == signal.SIGUSR1 else 7)


def test_orphans_are_waited_for(tmp_path):
    script = """
import subprocess, sys, time
orphan = subprocess.run(["sh", "-c", "sleep 0.1 & echo $!"], capture_output=True, text=True).stdout.strip()
print(orphan, flush=True)
time.sleep(60)
"""
    with attended(tmp_path, "worker", script) as process:
        orphan = int(process.stdout.readline())
        wait_until(lambda: not os.path.exists(f"/proc/{orphan}"))  # no zombie either
        assert alive(process.pid)


def get(port, path):
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
    return None


def test_a_server_that_has_done_its_work_stays_alive_and_is_not_ready(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {config.HEALTH_PORT: str(port), config.LISTEN: "127.0.0.1"}
    with attended(tmp_path, "server", "print('served')", "--stay", **settings) as process:
        wait_until(lambda: get(port, "/healthz") == (200, b"ok\n"), timeout=30)
        assert get(port, "/readyz") == (503, b"finished\n")
        process.terminate()
        assert process.wait(30) == 0
        assert "this server has done its work" in process.stdout.read()


def test_a_server_that_is_told_to_end_does_not_stay(tmp_path):
    script = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", flush=True)
time.sleep(60)
"""
    with attended(tmp_path, "server", script, "--stay") as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(30) == 0
