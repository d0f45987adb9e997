"""``flota launch --dashboard``: the page beside a job, which it never endangers."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from launched import alive, clean_environment
from paged import ask, cookie_of

from waiting import wait_until


def refused(folder, *flags):
    (folder / "train.py").write_text("")
    return subprocess.run(
        [sys.executable, "-m", "flota.launch", *flags, "train.py"],
        cwd=folder, env=clean_environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_a_page_that_dies_leaves_the_job_alone_and_its_launch_says_so_once(start_job):
    job = start_job("--server_num=1", "--worker_num=1")
    job.link()
    os.kill(job.page_pid(), signal.SIGKILL)
    wait_until(lambda: "the dashboard was killed by signal 9" in job.output, timeout=30)
    assert job.finish() == 0, job.output
    assert job.output.count("the dashboard was killed") == 1
    assert "flota dashboard --log_dir=log" in job.output


def test_the_page_ends_with_the_launch_and_needs_its_token(start_job):
    job = start_job("--server_num=1", "--worker_num=1")
    link = job.link()
    origin, pid = link.partition("/login")[0], job.page_pid()
    words = Path(f"/proc/{pid}/cmdline").read_text()
    assert "token" not in words
    assert link.partition("token=")[2] not in words
    assert ask(origin, "/data/history").status == 401
    assert ask(origin, "/data/history", cookie=cookie_of(link)).status == 200
    cookie = cookie_of(link)
    # Those of the script are its own.
    own = "arguments ['--dashboard']"
    wait_until(lambda: own in ask(origin, "/data/log?name=worker%200", cookie=cookie).text, timeout=60)
    assert job.finish() == 0, job.output
    assert not alive(pid)
    assert (job.folder / "log" / "dashboardlog").read_text() == ""


def test_a_killed_launcher_leaves_no_page(start_job):
    job = start_job("--server_num=1", "--worker_num=1")
    job.link()
    pid = job.page_pid()
    job.process.kill()
    wait_until(lambda: not alive(pid), timeout=20)


def test_the_token_is_told_in_the_folder_of_the_launch(start_job):
    job = start_job("--server_num=1", "--worker_num=1")
    link = job.link()
    command = [sys.executable, "-m", "flota.cli", "dashboard", "--link"]
    done = subprocess.run(command, cwd=job.folder, env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert link.endswith(f"?token={done.stdout.strip()}")
    assert job.finish() == 0, job.output


def test_a_port_that_is_taken_is_refused_before_anything_starts(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = refused(tmp_path, f"--dashboard={taken.getsockname()[1]}")
    assert done.returncode == 2
    assert "is taken" in done.stderr
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--dashboard=0.0.0.0:6180"], "flota certs"),
        (["--dashboard=here:"], "HOST:PORT"),
        (["--dashboard", "--on=kubernetes", "--image=i"], "flota dashboard --servers="),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, flags, says):
    done = refused(tmp_path, *flags)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_off_loopback_the_page_speaks_tls_with_the_jobs_certificates(start_job, tmp_path):
    subprocess.run(
        [sys.executable, "-m", "flota.cli", "certs", "set", "--host", "127.0.0.1", "--host", socket.gethostname()],
        cwd=tmp_path, env=clean_environment(), check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    job = start_job("--server_num=1", "--worker_num=1", "--certs=set", "--dashboard=0.0.0.0")
    link = job.link()
    assert link.startswith(f"https://{socket.gethostname()}:")
    script = (
        "import ssl, sys, urllib.request; context = ssl.create_default_context(cafile='set/authority.pem'); "
        "answer = urllib.request.urlopen(sys.argv[1], context=context, timeout=20); "
        "print(answer.status, answer.headers['set-cookie'])"
    )
    seen = subprocess.run(
        [sys.executable, "-c", script, link], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert seen.returncode == 0, seen.stderr
    assert seen.stdout.startswith("200 ")
    assert "Secure" in seen.stdout
    assert job.finish() == 0, job.output
