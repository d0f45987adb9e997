"""The health port: what it tells, and what strangers at it cost."""

import contextlib
import http.client
import os
import random
import selectors
import socket
import subprocess
import sys
import threading
import time

import pytest

from flota import Client, config
from flota.errors import InvalidArgument, SystemFailure
from flota.fleet import process as fleet_process
from flota.fleet.process import Fleet
from flota.health import MOST_BYTES, MOST_PEERS, SECONDS, Answer, HealthPort
from flota.roles import Role, UserDefinedRoleMaker
from waiting import wait_until

ANSWERED_WITHIN = 5.0  # seconds, on a busy machine


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def ask(port, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWERED_WITHIN)
    with contextlib.closing(connection):
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def answers(port, path):
    with contextlib.suppress(OSError, http.client.HTTPException):
        return ask(port, path)[0]
    return None


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=ANSWERED_WITHIN)


@pytest.fixture
def health():
    port = HealthPort("127.0.0.1", 0)
    yield port
    port.close()


def test_a_server_command_is_alive_and_ready(tmp_path):
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "flota.server", "--health_port", str(port)],
        env={**os.environ, config.SECRET: "s" * 32}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert "listening" in server.stdout.readline()
        wait_until(lambda: answers(port, "/readyz") == 200)
        assert ask(port, "/healthz") == (200, "ok\n")
        assert ask(port, "/readyz", "HEAD") == (200, "")
    finally:
        server.kill()
        server.communicate()


def test_a_server_that_loads_is_alive_and_not_ready(monkeypatch):
    monkeypatch.setenv(config.SECRET, "s" * 32)
    health, endpoint = free_port(), f"127.0.0.1:{free_port()}"
    monkeypatch.setenv(config.HEALTH_PORT, str(health))
    loaded = threading.Event()
    monkeypatch.setattr(fleet_process, "restore_server", lambda *_: loaded.wait(30))
    server = Fleet()
    server.init(UserDefinedRoleMaker(0, Role.SERVER, 1, [endpoint]))
    loading = threading.Thread(target=server.init_server, args=("checkpoint",))
    loading.start()
    try:
        wait_until(lambda: answers(health, "/healthz") == 200)
        assert ask(health, "/readyz") == (503, "starting\n")
        loaded.set()
        loading.join(30)
        assert ask(health, "/readyz") == (200, "ok\n")
        with Client([endpoint], secret="s" * 32) as client:
            client.shutdown()
        server.run_server()
        assert answers(health, "/healthz") is None
    finally:
        loaded.set()
        loading.join(30)


def test_a_server_listens_at_its_own_address_where_its_name_has_another(monkeypatch):
    """As in a pod whose name still resolves to the address of the pod before it."""
    monkeypatch.setenv(config.SECRET, "s" * 32)
    monkeypatch.setenv(config.LISTEN, "127.0.0.1")
    port = free_port()
    server = Fleet()
    server.init(UserDefinedRoleMaker(0, Role.SERVER, 1, [f"ads-server-0.ads-server:{port}"]))
    server.init_server()
    with Client([f"127.0.0.1:{port}"], secret="s" * 32) as client:
        client.shutdown()
    server.run_server()


@pytest.mark.parametrize("text", ["0", "65536", "http", "-1"])
def test_a_health_port_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv(config.HEALTH_PORT, text)
    with pytest.raises(InvalidArgument, match=f"FLOTA_HEALTH_PORT={text}: a port is a number between 1 and 65535"):
        config.health_port()


def test_a_port_that_is_taken_is_named(health):
    with pytest.raises(SystemFailure, match=f"the health port {health.port} cannot be opened on 127.0.0.1"):
        HealthPort("127.0.0.1", health.port)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
        (b"GET /healthz?x=1 HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        (b"GET /secret HTTP/1.1\r\n\r\n", 404),
        (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"POST /healthz HTTP/1.1\r\nContent-Length: 3\r\n\r\n", 405),
        (b"GET /healthz\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET /" + b"a" * MOST_BYTES, 431),
    ],
)
def test_nothing_but_the_two_pages_is_told(health, request_, status):
    with connect(health.port) as peer:
        peer.sendall(request_)
        assert peer.makefile("rb").readline().split()[1] == str(status).encode()


def test_random_bytes_disturb_nobody(health):
    numbers = random.Random(7)
    for _ in range(200):
        with contextlib.suppress(OSError), connect(health.port) as peer:
            peer.sendall(numbers.randbytes(numbers.randrange(1, 2 * MOST_BYTES)))
    assert ask(health.port, "/healthz") == (200, "ok\n")


def test_silent_peers_keep_nobody_out(health):
    with contextlib.ExitStack() as held:
        silent = [held.enter_context(connect(health.port)) for _ in range(4 * MOST_PEERS)]
        began = time.monotonic()
        assert ask(health.port, "/healthz") == (200, "ok\n")
        assert time.monotonic() - began < ANSWERED_WITHIN
        # The first have made room for the last, and the time of the last runs out.
        assert silent[0].recv(1) == b""
        assert silent[-1].recv(1) == b""
        assert time.monotonic() - began < SECONDS + ANSWERED_WITHIN


def test_a_peer_that_sends_a_byte_now_and_then_is_sent_away(health):
    with connect(health.port) as slow:
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < SECONDS + ANSWERED_WITHIN:
                slow.sendall(b"G")
                slow.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    if slow.recv(1) == b"":
                        break
        assert time.monotonic() - began < SECONDS + ANSWERED_WITHIN
    assert ask(health.port, "/healthz") == (200, "ok\n")


def test_other_pages_have_room_beside_it():
    def broken():
        raise ValueError("the secret is 42")

    health = HealthPort("127.0.0.1", 0, pages={"/metrics": lambda: Answer(200, "x" * 1_000_000), "/broken": broken})
    with contextlib.closing(health):
        assert ask(health.port, "/metrics") == (200, "x" * 1_000_000)
        assert ask(health.port, "/broken") == (500, "failed\n")
        assert ask(health.port, "/healthz") == (200, "ok\n")


def test_closed_it_leaves_neither_port_nor_thread(health):
    port = health.port
    health.close()
    health.close()
    assert answers(port, "/healthz") is None
    assert not [thread for thread in threading.enumerate() if thread.name == "flota-health"]


def test_a_process_without_threads_serves_by_turns():
    before = threading.active_count()
    port = HealthPort("127.0.0.1", 0, pages={"/metrics": lambda: Answer(200, "x" * 1_000_000)}, threaded=False)
    number = port.port
    with contextlib.closing(port), socket.create_connection(("127.0.0.1", number), timeout=10) as peer:
        assert threading.active_count() == before
        peer.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        peer.setblocking(False)
        found, deadline = b"", time.monotonic() + 10
        with selectors.DefaultSelector() as selector:
            selector.register(port, selectors.EVENT_READ)
            selector.register(peer, selectors.EVENT_READ)
            while not found.endswith(b"x" * 1_000_000) and time.monotonic() < deadline:
                assert selector.select(5), "nothing woke the process"
                port.turn()
                with contextlib.suppress(BlockingIOError):
                    found += peer.recv(1 << 20)
        assert found.startswith(b"HTTP/1.1 200 OK")
        assert len(found) > 1_000_000
    assert answers(number, "/healthz") is None
