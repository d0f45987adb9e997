"""Hosts that are called by a name, where nobody says what it means."""

import sys
import time

import pytest
from hosts import Hosts, missing

pytestmark = pytest.mark.skipif(bool(missing("ip")), reason=missing("ip") or "all is there")

# A name server that hears every question and answers none.
SILENT = """
import socket, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
print("listens", flush=True)
time.sleep(60)
"""

ASKS = """
import time
from flota import Client
from flota.errors import FlotaError
began = time.monotonic()
try:
    Client(["server-0.job:6170"], secret="s" * 64, timeout=2.0, insecure=True)
except FlotaError as error:
    print(f"{time.monotonic() - began:.1f} {error}")
"""


@pytest.fixture
def host(tmp_path):
    with Hosts(tmp_path, 1) as hosts:
        resolver = tmp_path / "resolv.conf"
        resolver.write_text("nameserver 127.0.0.1\n")
        hosts[0].run(["mount", "--bind", str(resolver), "/etc/resolv.conf"])
        yield hosts[0]


def test_a_name_server_that_does_not_answer_is_not_waited_for_beyond_the_deadline(host):
    silent = host.start([sys.executable, "-c", SILENT])
    deadline = time.monotonic() + 20
    while "listens" not in silent.output:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    seconds, _, error = host.run([sys.executable, "-c", ASKS]).partition(" ")
    assert 1.9 <= float(seconds) < 5.0  # by itself the C library would have waited for ten
    assert "server-0.job" in error
    assert "no name server has said where host 'server-0.job' is" in error
