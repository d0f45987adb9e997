"""The hosts that tests of engines run on are what they are said to be."""

import time
from pathlib import Path

import pytest
from hosts import Hosts, missing

from waiting import wait_until

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "all is there")


@pytest.fixture
def hosts(tmp_path):
    with Hosts(tmp_path, 2) as hosts:
        yield hosts


def test_hosts_have_names_and_addresses_of_their_own(hosts):
    first, second = hosts
    assert first.run(["hostname"]) == "h1\n"
    assert first.run(["getent", "hosts", "h2"]).split() == [second.address, "h2"]
    listener = second.start(
        [
            "python3",
            "-c",
            f"""
import socket
with socket.create_server(("{second.address}", 7000)) as listener:
    print(listener.accept()[1][0], flush=True)
""",
        ]
    )
    connect = "import socket; socket.create_connection(('h2', 7000), 1)"
    wait_until(lambda: not first.run(["python3", "-c", connect], check=False))
    assert listener.wait(10) == 0
    assert listener.output == f"{first.address}\n"


def test_a_cut_cable_is_silence_and_nothing_else(hosts):
    first, second = hosts
    second.start(
        [
            "python3",
            "-c",
            f"""
import socket
with socket.create_server(("{second.address}", 7000)) as listener:
    peer = listener.accept()[0]
    while True:
        peer.sendall(peer.recv(1))
""",
        ]
    )
    echo = """
import socket, sys
peer = socket.create_connection(('h2', 7000), 1)
peer.settimeout({timeout})
for line in sys.stdin:
    peer.sendall(b'x')
    print(peer.recv(1), flush=True)
"""
    import subprocess

    wait_until(
        lambda: (
            "7000" in second.run(["python3", "-c", "print(open('/proc/net/tcp').read().find(':1B58') > 0 and 7000)"])
        )
    )
    peer = subprocess.Popen(
        first.command(["python3", "-c", echo.format(timeout=20)]), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with peer:
        peer.stdin.write(b"\n")
        peer.stdin.flush()
        assert peer.stdout.readline() == b"b'x'\n"
        hosts.cut(second)
        begun = time.monotonic()
        peer.stdin.write(b"\n")
        peer.stdin.flush()
        time.sleep(1)
        hosts.mend(second)
        assert peer.stdout.readline() == b"b'x'\n"
        assert time.monotonic() - begun > 1
        peer.stdin.close()


def test_nothing_outlives_its_host(tmp_path):
    with Hosts(tmp_path, 1) as hosts:
        hosts[0].start(["sh", "-c", "setsid nohup sleep 54321 & echo $! > /dev/null; sleep 12345"])
        wait_until(lambda: len(hosts[0].processes("sleep 54321")) >= 1)
        left = hosts[0].processes("sleep")
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))
