"""A process that fails is named, its last words are shown, and everything else ends with it."""

import os
import signal
import time

import pytest


def failing(text):
    """A script whose worker 1 does this once all are there, and whose other processes go on."""
    return f"""
    ready()
    if me == "worker.1":
        wait_for("server.0", "worker.0")
        {text}
    time.sleep(600)
    """


def test_a_worker_that_fails_is_named_with_its_status_and_last_lines(start):
    script = failing("print(*range(100), 'no such data', sep='\\n'); sys.exit(3)")
    launch = start(script, "--worker_num=2")
    assert launch.wait() == 3
    assert "flota launch: worker 1 (pid " in launch.output
    assert "ended with exit status 3" in launch.output
    assert "log/workerlog.1 ends:\n    81\n    82\n" in launch.output
    assert "\n    99\n    no such data\n" in launch.output
    assert "    80\n" not in launch.output
    launch.nothing_is_left()


def test_an_exception_s_traceback_is_shown(start):
    launch = start(failing("raise ValueError('batch 7 has no label')"), "--worker_num=2")
    assert launch.wait() == 1
    assert "    ValueError: batch 7 has no label\n" in launch.output
    launch.nothing_is_left()


@pytest.mark.parametrize("name", ["worker.1", "server.0"])
def test_a_process_that_is_killed_is_named_at_once(start, name):
    launch = start("ready(); time.sleep(600)", "--worker_num=2", "--max_restarts=0")
    pids = dict(zip(names := ["server.0", "worker.0", "worker.1"], launch.pids(*names), strict=True))
    began = time.monotonic()
    os.kill(pids[name], signal.SIGKILL)
    assert launch.wait() == 128 + signal.SIGKILL
    assert time.monotonic() - began < 2
    assert f"{name.replace('.', ' ')} (pid {pids[name]}, 127.0.0.1:" in launch.output
    assert "was killed by SIGKILL" in launch.output
    launch.nothing_is_left()


def test_a_server_that_ends_while_workers_train_has_failed_whatever_its_status(start):
    launch = start("ready(); time.sleep(600 if not is_server else 0.1)", "--worker_num=2")
    assert launch.wait() == 1
    assert "server 0 (pid " in launch.output
    assert "ended with exit status 0 while worker 0, worker 1 needed it" in launch.output
    launch.nothing_is_left()


def test_a_server_may_end_once_every_worker_has_said_that_it_is_done(start):
    script = """
    from flota import report
    ready()
    if is_server:
        wait_for("worker.0.done", "worker.1.done")
        sys.exit(0)
    report.finished()
    ready(name=me + ".done")
    wait_for_the_end_of("server.0")
    time.sleep(0.3)
    """
    # The server is gone well before the workers are; a launcher that does not listen would call that a failure.
    launch = start(script, "--worker_num=2")
    assert launch.wait() == 0, launch.output


def test_a_worker_that_ignores_the_request_to_end_is_killed(start):
    script = """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready()
    if me == "worker.1":
        wait_for("server.0", "worker.0")
        sys.exit(5)
    serve()
    """
    launch = start(script, "--worker_num=2", "--timeout=0.3")
    assert launch.wait() == 5
    launch.nothing_is_left()


def test_a_server_that_crashes_is_named_and_not_the_worker_that_lost_it(start):
    """A worker that loses its server fails as well; who looks at the message needs the server."""
    script = """
    ready()
    if is_server:
        wait_for("worker.0")
        os.kill(os.getpid(), signal.SIGSEGV)
    wait_for_the_end_of("server.0")
    sys.exit("lost the server")
    """
    launch = start(script, "--worker_num=1", "--max_restarts=0")
    assert launch.wait() == 128 + signal.SIGSEGV
    assert "server 0 (pid " in launch.output
    assert "was killed by SIGSEGV" in launch.output


def test_the_log_of_a_process_that_said_nothing_is_called_empty(start):
    launch = start("serve() if is_server else sys.exit(9)")
    assert launch.wait() == 9
    assert "log/workerlog.0 is empty" in launch.output
