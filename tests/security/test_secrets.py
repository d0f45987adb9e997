"""Where a secret could be seen, and is not: command lines, logs, messages, tracebacks, other users' reach."""

import json
import os
import re
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flota import Client, config
from flota.errors import FlotaError, InvalidArgument
from flota.roles import places, ranks
from flota.roles.secret import use_own_secret
from flota.testing import LocalCluster
from raw_peer import RawPeer

SECRET = "5ec2e7-that-nobody-may-see-5ec2e7"


def test_no_process_has_it_on_its_command_line():
    with LocalCluster(servers=2, secret=SECRET) as cluster:
        for server in cluster.servers:
            assert SECRET.encode() not in Path(f"/proc/{server.pid}/cmdline").read_bytes()


def test_no_log_has_it():
    with LocalCluster(secret=SECRET) as cluster:
        cluster.client().statistics()
        with pytest.raises(FlotaError) as refused:
            cluster.client(secret=SECRET[::-1], transport="tcp", timeout=5)
        with RawPeer(cluster.endpoints[0]) as peer:
            peer.send(b"x" * 200)
            peer.receive(100)
        assert SECRET not in cluster.servers[0].log.read_text()
        assert SECRET[::-1] not in str(refused.value)
        assert SECRET[::-1] not in cluster.servers[0].log.read_text()


@pytest.mark.parametrize(
    "script",
    [
        "Client(['127.0.0.1:1'], timeout=0.2)",  # nobody is there
        "Client(['192.0.2.9:1'], timeout=0.2)",  # no TLS
        "Client(['nonsense'])",
        "Client(['127.0.0.1:1'], epoch=-1)",
        "import flota; flota.init(); flota.init_server()",
    ],
)
def test_no_traceback_has_it(script):
    environment = {**os.environ, config.SECRET: SECRET}
    command = [sys.executable, "-c", f"from flota import Client\n{script}"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0
    assert "Traceback" in ended.stderr
    assert SECRET not in ended.stdout + ended.stderr


def test_a_short_secret_is_refused_without_repeating_it(monkeypatch):
    with pytest.raises(InvalidArgument) as refused:
        Client(["127.0.0.1:1"], secret="hunter2")
    assert "hunter2" not in str(refused.value)


def test_a_secret_that_is_no_text_does_not_come_with_the_error(monkeypatch, tmp_path):
    file = tmp_path / "secret"
    file.write_bytes(b"\xff\xfe" + SECRET.encode())
    monkeypatch.setenv(config.SECRET_FILE, str(file))
    with pytest.raises(InvalidArgument, match="is not text") as refused:
        config.job_secret()
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_commands_of_the_user_s_do_not_inherit_it(monkeypatch, tmp_path):
    for name in (config.SECRET, config.SECRET_FILE, config.CERTS, *config.TLS_FILES):
        monkeypatch.setenv(name, SECRET)
    environment = config.command_environment()
    assert SECRET not in environment.values()
    said = subprocess.run(["env"], env=environment, capture_output=True, text=True, check=True).stdout
    assert SECRET not in said


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_the_user_s_own_secret_was_never_readable_by_others(monkeypatch, tmp_path, mask):
    made = []
    really_open = os.open

    def watched(path, *arguments, **options):
        descriptor = really_open(path, *arguments, **options)
        made.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(os, "open", watched)
    before = os.umask(mask)
    try:
        use_own_secret()
    finally:
        os.umask(before)
    assert made == [0o600]
    file = Path(os.environ.pop(config.SECRET_FILE))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert re.fullmatch(r"[0-9a-f]{64}\n", file.read_text())


def test_ranks_tell_each_other_in_text():
    class Request:
        def Test(self):  # noqa: N802
            return True

    class World:
        """mpi4py's communicator of two ranks, as far as buffers go."""

        def Iallgather(self, said, told):  # noqa: N802
            told[:] = bytes(said) * 2
            return Request()

    mine = json.dumps({"server": "10.0.0.1:7164", "secret": SECRET})
    told = ranks.OverMpi4py(0, 2, World())
    assert told.gather("place", mine) == [mine, mine]
    with pytest.raises(InvalidArgument, match="more to say than") as refused:
        told.gather("place", SECRET * 1000)
    assert SECRET not in str(refused.value)


# --- the exchange of places, which pservers of 0.10 have before they serve ---


@pytest.fixture
def waiting_pserver(monkeypatch):
    """A pserver that waits for its place: its endpoint, and what it was told."""
    monkeypatch.setenv(config.SECRET, SECRET)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    told, stop = [], threading.Event()
    thread = threading.Thread(target=lambda: told.append(places.await_place("127.0.0.1", port, 1, stop.is_set)))
    thread.start()
    yield f"127.0.0.1:{port}", told, thread
    stop.set()
    thread.join(10)
    assert not thread.is_alive()


def test_a_place_is_told_although_others_say_nothing(waiting_pserver, monkeypatch):
    endpoint, told, thread = waiting_pserver
    silent = []
    while len(silent) < 100:
        try:
            silent.append(RawPeer(endpoint))
        except ConnectionRefusedError:
            assert not silent  # it does not listen yet
    for peer in silent[50:]:
        peer.send(b"xyz")
    monkeypatch.setenv(config.TIMEOUT, "5")
    places.tell_places([endpoint])
    thread.join(5)
    assert told == [0]
    for peer in silent:
        peer.socket.close()


def test_a_place_told_without_the_secret_is_not_taken(waiting_pserver, monkeypatch):
    endpoint, told, _ = waiting_pserver
    monkeypatch.setenv(config.TIMEOUT, "5")
    monkeypatch.setenv(config.SECRET, "x" * 32)
    with pytest.raises(InvalidArgument, match="refused this trainer's secret"):
        places.tell_places([endpoint])
    assert told == []
