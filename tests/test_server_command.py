"""`python -m flota.server`: what an operator sees."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flota import Client
from flota.errors import ServerUnavailable
from flota.rules import SGD

SECRET = "0123456789abcdef0123456789abcdef"


def environment(**settings):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLOTA_")}
    return {**kept, "FLOTA_SECRET": SECRET, **settings}


def run(*arguments, **settings):
    """Runs a server that is expected to end by itself."""
    command = [sys.executable, "-m", "flota.server", *arguments]
    return subprocess.run(command, env=environment(**settings), capture_output=True, text=True, timeout=30)


@contextlib.contextmanager
def serving(*arguments, **settings):
    """A server that listens, and the endpoint it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "flota.server", *arguments],
        env=environment(**settings), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        line = process.stdout.readline()
        assert "listening on" in line, process.stderr.read()
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.communicate()


def test_it_says_where_it_listens():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with serving("--port", str(port), "--index", "1", "--servers", "3") as (_, endpoint):
        assert endpoint == f"127.0.0.1:{port}"


def test_the_line_names_its_place_among_all():
    process = subprocess.Popen(
        [sys.executable, "-m", "flota.server", "--index", "1", "--servers", "3"],
        env=environment(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert re.fullmatch(r"flota server 1 of 3 listening on 127\.0\.0\.1:\d+\n", process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(number):
    with serving() as (process, endpoint), Client([endpoint], secret=SECRET) as client:
        client.create_sparse_table("rows", dim=1, rule=SGD()).pull([1])
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(10) == 0
        assert time.monotonic() - began < 2
        with pytest.raises(ServerUnavailable, match=endpoint):
            client.statistics(timeout=0.1)


def test_a_signal_ends_it_although_workers_wait_at_a_barrier():
    with serving() as (process, endpoint), Client([endpoint], secret=SECRET) as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.barrier, "start", rank=0, world=2, timeout=1)
        while client.statistics()[0].values["connections_open"] < 2:
            pass
        process.terminate()
        assert process.wait(10) == 0
        with pytest.raises(ServerUnavailable):
            waiting.result()


def test_a_client_can_ask_it_to_end():
    with serving() as (process, endpoint), Client([endpoint], secret=SECRET) as client:
        client.shutdown()
        assert process.wait(10) == 0


REFUSED = {
    "unknown flag": (["--fast"], 2, "unrecognized arguments: --fast"),
    "port that is no number": (["--port", "http"], 2, "invalid int value: 'http'"),
    "port out of range": (["--port", "70000"], 1, "is not host:port"),
    "negative port": (["--port", "-1"], 1, "is not host:port"),
    "index beyond the servers": (["--index", "2", "--servers", "2"], 1, "server index 2 is not below the number"),
    "negative index": (["--index", "-1"], 2, "argument --index"),
    "no servers": (["--servers", "0"], 2, "argument --servers"),
    "negative connections": (["--max-connections", "-1"], 2, "argument --max-connections"),
    "no connections": (["--max-connections", "0"], 2, "argument --max-connections"),
    "no payload": (["--max-payload-mb", "0"], 2, "argument --max-payload-mb"),
    "a host that is not here": (["--host", "203.0.113.7", "--insecure"], 1, "203.0.113.7"),
    "key without certificate": (["--tls-key", "server.key"], 1, "TLS needs a certificate and its key together"),
    "authority without certificate": (["--tls-authority", "ca.pem"], 1, "certificate"),
    "missing certificate": (["--tls-certificate", "no.pem", "--tls-key", "no.key"], 1, "cannot read the certificate"),
}


@pytest.mark.parametrize(("arguments", "code", "says"), REFUSED.values(), ids=REFUSED)
def test_a_flag_that_makes_no_sense_is_refused(arguments, code, says):
    ended = run(*arguments)
    assert ended.returncode == code, ended.stderr
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


def test_a_port_in_use_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("--port", str(port))
    assert ended.returncode == 1
    assert f"port {port} on 127.0.0.1 is in use by another process; choose another port, or 0" in ended.stderr


@pytest.mark.parametrize("secret", ["", "short"])
def test_without_a_good_secret_it_does_not_start(secret):
    ended = run(FLOTA_SECRET=secret)
    assert ended.returncode == 1
    assert ("no secret" if secret == "" else "at least 16 bytes") in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_secret_may_lie_in_a_file(tmp_path):
    (tmp_path / "secret").write_text(SECRET + "\n")
    with (
        serving(FLOTA_SECRET="", FLOTA_SECRET_FILE=str(tmp_path / "secret")) as (_, endpoint),
        Client([endpoint], secret=SECRET) as client,
    ):
        assert client.servers == 1


def test_the_secret_is_nowhere_to_be_seen():
    with serving() as (process, _):
        assert SECRET not in Path(f"/proc/{process.pid}/cmdline").read_text()
    assert "secret" not in run("--help").stdout.lower()


def test_help_names_every_flag():
    ended = run("--help")
    assert ended.returncode == 0
    for flag in (
        "--host", "--port", "--index", "--servers", "--tls-certificate", "--tls-key", "--tls-authority",
        "--certs", "--insecure", "--no-local-sockets", "--max-connections", "--max-payload-mb",
    ):  # fmt: skip
        assert flag in ended.stdout


def test_ipv6_works():
    with serving("--host", "::1") as (_, endpoint), Client([endpoint], secret=SECRET, transport="tcp") as client:
        assert endpoint.startswith("[::1]:")
        assert client.servers == 1


@pytest.mark.parametrize("module", ["flota", "flota.server", "flota.rules", "flota.initializer", "flota.errors"])
def test_what_a_server_imports_does_not_bring_torch(module):
    script = f"import sys, {module}; print([name for name in ('torch', 'numpy') if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


def test_what_it_refuses_is_logged_but_not_as_a_flood():
    with serving() as (process, endpoint):
        host, _, port = endpoint.rpartition(":")
        for _ in range(300):
            with socket.create_connection((host, int(port))) as peer:
                peer.recv(40)
                peer.sendall(b"GET / HTTP/1.1\r\nHost: flota.example\r\nUser-Agent: " + b"a scanner of ports " * 4)
                peer.recv(1)
        with Client([endpoint], secret=SECRET) as client:
            assert client.statistics()[0].values["refused_handshakes"] == 300
        process.terminate()
        _, log = process.communicate(timeout=10)
    assert "flota server 0: refused a peer at 127.0.0.1: the peer does not speak this protocol" in log
    assert len(log.splitlines()) < 20


# --- metrics and lines ---


def metrics_of(port, host="127.0.0.1"):
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=10) as answer:
        return answer.read().decode()


def free_port(host="127.0.0.1"):
    with socket.create_server((host, 0)) as free:
        return free.getsockname()[1]


def test_it_tells_prometheus_what_it_counts():
    port = free_port()
    with serving("--metrics_port", str(port), "--index", "1", "--servers", "2"):
        assert 'flota_open_connections{index="1",role="server"} 0.0' in metrics_of(port)


def test_metrics_flags_win_over_the_environment():
    port, other = free_port("127.0.77.3"), free_port()
    flags = ["--metrics_port", str(port), "--metrics_host", "127.0.77.3"]
    with serving(*flags, FLOTA_METRICS_PORT=str(other), FLOTA_METRICS_HOST="127.0.77.4"):
        assert "flota_open_connections" in metrics_of(port, "127.0.77.3")
        for host in ("127.0.0.1", "127.0.77.4"):
            with pytest.raises(OSError, match="refused"):
                socket.create_connection((host, other), timeout=5)


def test_an_address_for_metrics_that_nobody_asked_for_is_refused():
    done = run("--metrics_host", "0.0.0.0")
    assert done.returncode == 1
    assert done.stderr.startswith("flota server: --metrics_host is the address of a port that nobody asked for")


def test_its_lines_are_json_where_that_is_asked_for():
    with serving(FLOTA_LOG_FORMAT="json", FLOTA_LOG_LEVEL="warning") as (process, endpoint):
        host, port = endpoint.split(":")
        with socket.create_connection((host, int(port)), timeout=10) as peer:
            peer.sendall(b"GET / HTTP/1.0\r\n\r\n" * 20)
            while peer.recv(4096):
                pass
        said = json.loads(process.stderr.readline())
    assert (said["role"], said["index"], said["level"]) == ("server", 0, "warning")
    assert said["message"].startswith("refused a peer")


@pytest.mark.parametrize("name", ["FLOTA_LOG_LEVEL", "FLOTA_LOG_FORMAT"])
def test_settings_of_lines_that_are_none_are_refused(name):
    done = run(**{name: "loud"})
    assert done.returncode == 1
    assert f"{name}=loud: it is one of" in done.stderr
    assert "Traceback" not in done.stderr
