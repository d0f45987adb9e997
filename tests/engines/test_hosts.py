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


ECHO = """
import socket
peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
peer.bind(("", 7000))
print("listening", flush=True)
while True:
    peer.sendto(*peer.recvfrom(64))
"""
# How long each of so many datagrams took to come back, in milliseconds, in the order in which they came.
ASK = """
import socket, struct, sys, time
peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
peer.connect((sys.argv[1], 7000))
peer.settimeout(0.5)
for _ in range(int(sys.argv[2])):
    peer.send(struct.pack("d", time.monotonic()))
    time.sleep(0.0005)
try:
    while True:
        begun = struct.unpack("d", peer.recv(64))[0]
        print(1e3 * (time.monotonic() - begun))
except TimeoutError:
    pass
"""


def test_a_slow_cable_is_as_slow_and_as_bad_as_was_asked(hosts):
    first, second = hosts
    echo = second.start(["python3", "-c", ECHO])
    wait_until(lambda: "listening" in echo.output)

    def ask(count):
        return [float(line) for line in first.run(["python3", "-c", ASK, second.address, str(count)]).split()]

    hosts.slow(second, 60)
    ask(1)  # they learn each other's addresses, which takes a round trip of its own
    taken = ask(20)
    assert len(taken) == 20
    assert 60 <= min(taken) < 90
    hosts.slow(second, 0, loss=0.1)
    # Those that came back passed twice: 810 of 1,000, give or take 12 at one standard deviation.
    assert 740 < sum(len(ask(200)) for _ in range(5)) < 880  # what a socket holds of them at a time
