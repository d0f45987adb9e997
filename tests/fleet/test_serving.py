"""A server ends when nobody is left whom it could serve, and not before it has served."""

import os
import socket
import subprocess
import sys

import pytest

from flota import Client
from flota.errors import DeadlineExceeded
from flota.report import NOBODY_LEFT

SECRET = "known to this test and its server"
SCRIPT = """
import os, flota
flota.init(flota.UserDefinedRoleMaker(current_id=0, role=flota.Role.SERVER, worker_num=1,
                                      server_endpoints=["127.0.0.1:" + os.environ["PORT"]]))
flota.init_server()
print("listening", flush=True)
flota.run_server()
"""


@pytest.fixture
def server(tmp_path):
    """A server that waits four seconds for workers to come back, and its endpoint."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {**os.environ, "FLOTA_SECRET": SECRET, "FLOTA_TIMEOUT": "0.4", "PORT": str(port)}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=tmp_path,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "listening\n"
        yield process, f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


def test_a_server_whose_workers_have_gone_without_a_goodbye_ends_and_says_so(server):
    process, endpoint = server
    with Client([endpoint], secret=SECRET) as client, pytest.raises(DeadlineExceeded):
        client.barrier("together", rank=0, world=2, timeout=1)
    _, said = process.communicate(timeout=60)
    assert process.returncode == NOBODY_LEFT
    assert "server 0 ends: all workers have gone without a goodbye, and for 4 s (10 times FLOTA_TIMEOUT)" in said


def test_a_server_waits_for_its_first_worker_and_while_one_is_there(server):
    process, endpoint = server
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(6)
    with Client([endpoint], secret=SECRET) as client:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(6)
        client.shutdown()
    assert process.wait(60) == 0
