"""Peers that never prove the secret: they cost the server little, they are counted, and others do not notice them."""

import contextlib
import itertools
import random
import re
import resource
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flota import Client
from flota.client import Tls
from flota.testing import LocalCluster
from raw_peer import PUSH, RawPeer, header
from waiting import wait_until

# What a server lets peers without a proof have: so many of them, for so long.
HANDSHAKES, HANDSHAKE_SECONDS = 64, 5
MEMORY = 48 << 10  # KiB that a flood may add to a server; its few threads and their buffers
SERVED_WITHIN = 5.0  # seconds, on a machine that is busy with the flood itself


def status(server, name):
    return int(re.search(rf"{name}:\s+(\d+)", Path(f"/proc/{server.pid}/status").read_text())[1])


def counted(client, name):
    return client.statistics()[0].values[name]


@contextlib.contextmanager
def an_honest_client(cluster, **options):
    """One that comes now, while others misbehave."""
    began = time.monotonic()
    with Client(cluster.endpoints, secret=cluster.secret, transport="tcp", timeout=SERVED_WITHIN, **options) as client:
        assert client.statistics()
        assert time.monotonic() - began < SERVED_WITHIN
        yield client


@contextlib.contextmanager
def in_the_background(act):
    """Runs ``act(stopped)`` in a thread until the block is left."""
    stopped = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(act, stopped)
        try:
            yield
        finally:
            stopped.set()
        running.result(30)


@pytest.fixture
def cluster():
    with LocalCluster() as cluster:
        yield cluster


@pytest.fixture
def tls_cluster(certs):
    with LocalCluster(arguments=["--certs", str(certs)]) as cluster:
        yield cluster


@pytest.fixture
def tls(certs):
    return Tls(f"{certs}/authority.pem", f"{certs}/client.pem", f"{certs}/client.key")


@pytest.fixture
def peers():
    """Opens connections, and closes them in the end."""
    with contextlib.ExitStack() as held:
        yield lambda cluster, count: [held.enter_context(RawPeer(cluster.endpoints[0])) for _ in range(count)]


@contextlib.contextmanager
def many_descriptors(count):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < count:
        pytest.skip(f"this process may have {before[1]} descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(count, before[0]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def dripping(slow, data):
    """What sends each of the peers a byte now and then, until the server has ended them all."""

    def drip(stopped):
        left = list(slow)
        while left and not stopped.wait(0.1):
            for peer in list(left):
                try:
                    peer.socket.send(bytes([next(data)]))
                except OSError:
                    left.remove(peer)

    return drip


def test_peers_that_send_a_byte_now_and_then_are_ended_in_time(cluster, peers):
    slow = peers(cluster, HANDSHAKES // 2)
    began = time.monotonic()
    with in_the_background(dripping(slow, itertools.cycle(b"FOLH"))), an_honest_client(cluster) as client:
        wait_until(lambda: counted(client, "refused_handshakes") == len(slow), timeout=2 * HANDSHAKE_SECONDS)
    assert HANDSHAKE_SECONDS / 2 < time.monotonic() - began < 2 * HANDSHAKE_SECONDS


def test_thousands_that_say_nothing_keep_nobody_out_and_cost_little(cluster, peers):
    server, many = cluster.servers[0], 3000
    with an_honest_client(cluster) as before, many_descriptors(many + 200):
        memory = status(server, "VmRSS")
        peers(cluster, many)
        assert counted(before, "connections_open") < 10
        with an_honest_client(cluster) as client:
            wait_until(lambda: counted(client, "refused_connections") >= many - 2 * HANDSHAKES)
        assert status(server, "Threads") <= 3 * HANDSHAKES
        assert status(server, "VmRSS") - memory < MEMORY
        assert len(server.log.read_text().splitlines()) < 50
        assert "sent away a peer at 127.0.0.1" in server.log.read_text()


def test_a_flood_that_goes_on_keeps_nobody_out(cluster):
    host, _, port = cluster.endpoints[0].rpartition(":")

    def flood(stopped):
        held = []
        while not stopped.is_set():
            with contextlib.suppress(OSError):
                held.append(socket.create_connection((host, int(port)), 1))
            if len(held) > 200:
                held.pop(0).close()
        for connection in held:
            connection.close()

    with in_the_background(flood):
        for _ in range(10):
            with an_honest_client(cluster):
                pass


def test_a_flood_from_one_address_sends_away_its_own(cluster):
    """A peer at another address that is slow to answer, but does, is let finish."""
    host, _, port = cluster.endpoints[0].rpartition(":")
    with RawPeer(cluster.endpoints[0]) as slow, contextlib.ExitStack() as held:
        for _ in range(5 * HANDSHAKES):
            held.enter_context(socket.create_connection((host, int(port)), 5, source_address=("127.0.0.2", 0)))
        with an_honest_client(cluster) as client:
            wait_until(lambda: counted(client, "refused_connections") >= 3 * HANDSHAKES)
        assert slow.handshake(cluster.secret) == 0


@pytest.mark.parametrize("said", ["noise", "a frame of a terabyte", "a frame of the largest length"])
def test_what_makes_no_sense_before_the_proof_costs_no_memory(cluster, said):
    lengths = {"a frame of a terabyte": 1 << 40, "a frame of the largest length": 2**64 - 8}
    data = header(PUSH, lengths[said]) if said in lengths else b""
    data += random.Random(7).randbytes(1 << 20)
    with an_honest_client(cluster) as client:
        memory = status(cluster.servers[0], "VmRSS")
        for _ in range(100):
            with RawPeer(cluster.endpoints[0]) as peer, contextlib.suppress(OSError):
                peer.send(data)  # the server ends the connection after the first bytes
        wait_until(lambda: counted(client, "refused_handshakes") + counted(client, "refused_connections") == 100)
        assert status(cluster.servers[0], "VmRSS") - memory < MEMORY


# The beginning of a TLS record that holds a ClientHello of 16 KiB; the rest never comes.
CLIENT_HELLO = bytes.fromhex("16 0301 4000 01 003ffc 0303") + bytes(range(64))


def test_tls_handshakes_that_do_not_go_on_keep_nobody_out(tls_cluster, tls, peers):
    server = tls_cluster.servers[0]
    with an_honest_client(tls_cluster, tls=tls):
        memory = status(server, "VmRSS")
        for peer in peers(tls_cluster, 5 * HANDSHAKES):
            with contextlib.suppress(OSError):
                peer.send(CLIENT_HELLO)
        with an_honest_client(tls_cluster, tls=tls) as client:
            assert counted(client, "refused_connections") >= 3 * HANDSHAKES
        assert status(server, "VmRSS") - memory < MEMORY


def test_tls_handshakes_that_trickle_are_ended_in_time(tls_cluster, tls, peers):
    slow = peers(tls_cluster, HANDSHAKES // 2)
    for peer in slow:
        peer.send(CLIENT_HELLO)
    with in_the_background(dripping(slow, itertools.repeat(0))), an_honest_client(tls_cluster, tls=tls) as client:
        wait_until(lambda: counted(client, "refused_handshakes") == len(slow), timeout=2 * HANDSHAKE_SECONDS)


def test_many_honest_clients_at_once_all_get_in(tls_cluster, tls):
    """More than may be in a handshake at a time: who is sent away comes again."""
    options = {"secret": tls_cluster.secret, "transport": "tcp", "tls": tls, "timeout": 30}
    with contextlib.ExitStack() as held, ThreadPoolExecutor(3 * HANDSHAKES) as pool:
        waiting = [pool.submit(Client, tls_cluster.endpoints, **options) for _ in range(3 * HANDSHAKES)]
        clients = [held.enter_context(client.result(60)) for client in waiting]
        assert counted(clients[0], "connections_open") == 3 * HANDSHAKES


def test_a_peer_with_tls_but_without_the_secret_learns_nothing(tls_cluster, certs):
    context = ssl.create_default_context(cafile=f"{certs}/authority.pem")
    context.load_cert_chain(f"{certs}/client.pem", f"{certs}/client.key")
    with RawPeer(tls_cluster.endpoints[0]) as peer:
        peer.socket = context.wrap_socket(peer.socket, server_hostname="127.0.0.1")
        assert peer.socket.version() == "TLSv1.3"
        # A proof that would do without TLS does not here: it is not of this connection.
        assert peer.handshake(tls_cluster.secret) != 0
        assert peer.ended()
