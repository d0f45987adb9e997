"""Peers that are not who they should be, and bytes that are not what they should be."""

import random
import re
import socket
import struct
import threading
import time
from pathlib import Path

import pytest
import torch

from flota import Client, _core
from flota.errors import AuthenticationFailed, InvalidArgument, ProtocolError, ServerError, VersionMismatch
from flota.testing import LocalCluster
from raw_peer import (
    ASSIGN,
    GRADIENT,
    INVALID_ARGUMENT,
    MALFORMED,
    NON_FINITE,
    PULL,
    PUSH,
    REPLY,
    SHUTDOWN,
    STALE_EPOCH,
    STATISTICS,
    UNAUTHENTICATED,
    UNKNOWN_TABLE,
    VERSION,
    VERSION_MISMATCH,
    Push,
    RawPeer,
    frame,
    header,
    table_id,
)
from table_contents import contents
from waiting import wait_until

NAN, INFINITY = float("nan"), float("inf")

# At least as long as a client's hello: until that much came, the server waits for the rest.
HTTP = b"GET /metrics HTTP/1.1\r\nHost: parameter-server-0.example\r\nUser-Agent: curl/8\r\nAccept: */*\r\n\r\n"


def counted(client, name, server=0):
    return client.statistics()[server].values[name]


# --- who may speak at all ---


@pytest.mark.parametrize("transport", ["tcp", "unix", "shared_memory"])
def test_a_wrong_secret_is_refused_and_counted(cluster, client, transport):
    before = counted(client, "refused_handshakes")
    with pytest.raises(AuthenticationFailed, match=r"server 0 .*refused this client's secret.*FLOTA_SECRET"):
        Client(cluster.endpoints, secret="not the job's secret", transport=transport)
    wait_until(lambda: counted(client, "refused_handshakes") == before + 1)


def test_a_server_that_does_not_know_the_secret_is_not_trusted(cluster):
    """Whoever took over a server's address hears the client's proof, which does not help to answer it."""

    def impostor(listener):
        connection, _ = listener.accept()
        with connection:
            connection.sendall(struct.pack("<4sHH", b"FOLH", VERSION, VERSION) + bytes(32))
            connection.recv(72, socket.MSG_WAITALL)
            connection.sendall(struct.pack("<IIIIQ", 0, 0, 0, 1, 1) + bytes(32))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=impostor, args=(listener,), daemon=True).start()
        endpoint = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(AuthenticationFailed, match="does not know the job's secret"):
            Client([endpoint], secret=cluster.secret, transport="tcp")


def test_a_short_secret_is_refused_before_anything_is_sent():
    with pytest.raises(InvalidArgument, match=r"at least 16 bytes; make one with .*token_hex"):
        Client(["127.0.0.1:1"], secret="short")


@pytest.mark.parametrize("said", [HTTP, random.Random(1).randbytes(4096)], ids=["http", "random"])
def test_who_speaks_another_protocol_gets_no_answer(cluster, client, said):
    before = counted(client, "refused_handshakes")
    with RawPeer(cluster.endpoints[0]) as peer:
        assert len(peer.receive(40)) == 40
        peer.send(said)
        assert peer.ended()
    assert counted(client, "refused_handshakes") == before + 1


def test_who_says_nothing_is_sent_away_in_the_end():
    """In this process, where the time for a handshake can be shortened."""
    options = _core.ServerOptions()
    options.secret = "x" * 32
    options.handshake_ms = 300
    server = _core.Server.start(options)
    with RawPeer(server.endpoint) as silent, RawPeer(server.endpoint) as slow:
        began = time.monotonic()
        for peer in (silent, slow):
            peer.receive(40)
        slow.send(b"FOLH")
        assert silent.ended()
        assert slow.ended()
        assert 0.2 < time.monotonic() - began < 5
        with Client([server.endpoint], secret=options.secret) as client:
            assert counted(client, "refused_handshakes") == 2
    server.stop()


def test_silent_peers_do_not_keep_others_out(cluster):
    peers = [RawPeer(cluster.endpoints[0]) for _ in range(40)]
    try:
        with Client(cluster.endpoints, secret=cluster.secret, transport="tcp", timeout=5) as another:
            assert len(another.statistics()) == 2
    finally:
        for peer in peers:
            peer.socket.close()


@pytest.mark.parametrize("version", [0, 1, 3, 65535])
def test_another_protocol_version_is_refused_by_the_server(cluster, client, version):
    before = counted(client, "refused_handshakes")
    with RawPeer(cluster.endpoints[0]) as peer:
        assert peer.handshake(cluster.secret, version=version) == VERSION_MISMATCH
        assert peer.ended()
    assert counted(client, "refused_handshakes") == before + 1


def test_a_wrong_proof_is_refused_by_the_server(cluster):
    with RawPeer(cluster.endpoints[0]) as peer:
        assert peer.handshake("x" * 64) == UNAUTHENTICATED
        assert peer.ended()


def answering(*greetings):
    """A listener that says one greeting to each connection, and ends it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        for greeting in greetings:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(greeting)

    threading.Thread(target=serve, daemon=True).start()
    return listener, f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_server_of_another_protocol_version_is_named(cluster):
    listener, endpoint = answering(struct.pack("<4sHH32x", b"FOLH", 3, 4))
    with listener, pytest.raises(VersionMismatch, match=r"versions 3 to 4, this client version 2; install the same"):
        Client([endpoint], secret=cluster.secret)


def test_something_else_on_the_port_is_told_apart(cluster):
    listener, endpoint = answering(*[b"HTTP/1.1 400 Bad Request\r\n" + b" " * 64] * 1000)
    with listener, pytest.raises(ProtocolError, match=rf"{endpoint}.*no flota server"):
        Client([endpoint], secret=cluster.secret, timeout=0.3)


def test_too_many_connections_are_refused_with_a_reason():
    with LocalCluster(arguments=["--max-connections", "1"]) as cluster:
        client = cluster.client()
        with pytest.raises(ServerError, match="no room for another connection"):
            cluster.client(timeout=0.3)
        assert len(client.statistics()) == 1


# --- frames ---


def test_a_raw_peer_that_knows_the_wire_is_served(peer):
    kind, payload = peer.ask(STATISTICS)
    assert kind == REPLY
    assert b"connections_open" in payload


BROKEN_FRAMES = {
    "not a frame": b"\0" * 64,
    "another magic number": b"ABCD" + frame(STATISTICS)[4:],
    "another version": frame(STATISTICS, version=3),
    "unknown kind": frame(99),
    "reserved flags": frame(STATISTICS, flags=3),
    "no payload checksum": header(STATISTICS, 0, flags=0),
    "damaged header": frame(STATISTICS)[:8] + b"\xff" + frame(STATISTICS)[9:],
    "damaged payload": frame(PULL, bytes(24))[:40] + b"\1" + frame(PULL, bytes(24))[41:],
    "damaged checksum": frame(PULL, bytes(24))[:-8] + bytes(8),
    "odd length": header(PULL, 13) + bytes(24),
    "length beyond the limit": header(PUSH, (256 << 20) + 8),
    "the largest length there is": header(PUSH, 2**64 - 8),
    "request in place of a reply": frame(REPLY, bytes(8)),
}


@pytest.mark.parametrize("said", BROKEN_FRAMES.values(), ids=BROKEN_FRAMES)
def test_a_broken_frame_ends_its_own_connection_only(request, client, peer, said):
    before = counted(client, "malformed_frames")
    peer.send(said)
    if "in place of a reply" in request.node.name:
        assert peer.answer()[0] != REPLY
        return
    assert peer.ended()
    wait_until(lambda: counted(client, "malformed_frames") == before + 1)


@pytest.mark.parametrize("length", [1, 31, 32, 33, 95, 120])
def test_a_truncated_frame_applies_nothing(client, table, peer, length):
    before = contents(table)
    whole = frame(PUSH, Push(table.name, keys=[1, 2], values=[5.0] * 4, dim=2).payload())
    assert length < len(whole)
    peer.send(whole[:length])
    peer.socket.shutdown(socket.SHUT_WR)
    assert peer.ended()
    assert contents(table) == before


def test_a_length_that_never_comes_costs_no_memory(cluster, peer):
    def resident():
        pid = cluster.servers[0].pid
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])

    before = resident()
    peer.send(header(PUSH, 200 << 20) + bytes(1 << 20))
    assert resident() - before < 50 << 10  # KiB


BROKEN_PUSHES = {
    "more keys than bytes": (Push("T", [1], [1.0, 1.0], dim=2, count=1000), MALFORMED, "shorter than its fields say"),
    "fewer keys than bytes": (Push("T", [1, 2], [1.0] * 4, dim=2, count=1), MALFORMED, "longer than its fields say"),
    "a count that overflows": (Push("T", [1], [1.0, 1.0], dim=2**32 - 1, count=2**32 - 1), MALFORMED, "shorter"),
    "unknown kind": (Push("T", [1], [1.0, 1.0], dim=2, kind=7), MALFORMED, "unknown push kind 7"),
    "answered before sent": (Push("T", [1], [1.0, 1.0], dim=2, oldest=2), MALFORMED, "answered before it was sent"),
    "wrong dim": (Push("T", [1], [1.0] * 3, dim=3), INVALID_ARGUMENT, "has rows of 2 floats, the request says 3"),
    "negative lr": (Push("T", [1], [1.0, 1.0], dim=2, lr=-1.0), INVALID_ARGUMENT, "learning rate"),
    "infinite scale": (Push("T", [1], [1.0, 1.0], dim=2, scale=INFINITY), INVALID_ARGUMENT, "scale"),
    "an assignment of a group": (Push("T", [1], [1.0, 1.0], dim=2, kind=ASSIGN, group=5), INVALID_ARGUMENT, "no group"),
    "NaN": (Push("T", [1, -5], [1.0, 1.0, 1.0, NAN], dim=2, kind=GRADIENT), NON_FINITE, "key -5"),
    "assigned infinity": (Push("T", [9], [INFINITY, 1.0], dim=2, kind=ASSIGN), NON_FINITE, "key 9"),
}


@pytest.mark.parametrize(("push", "code", "says"), BROKEN_PUSHES.values(), ids=BROKEN_PUSHES)
def test_a_push_that_makes_no_sense_is_refused_by_the_server(client, table, peer, push, code, says):
    before = contents(table)
    told = Push(**{**vars(push), "table": table.name})
    refused, message = peer.refusal(PUSH, told.payload())
    assert refused == code
    assert says in message
    assert contents(table) == before
    assert peer.ask(STATISTICS)[0] == REPLY, "the connection is as good as before"


def test_a_push_that_comes_twice_is_applied_once_even_on_two_connections(cluster, table, peer):
    keys = [key for key in range(1, 100) if _core.shard_of(key) % 2 == 0][:2]  # of server 0
    push = Push(table.name, keys, [1.0, 2.0, 3.0, 4.0], dim=2, worker=5, sequence=3, oldest=3)
    first = table.pull(keys)
    assert peer.ask(PUSH, push.payload()) == (REPLY, struct.pack("<Q", 1))
    assert peer.ask(PUSH, push.payload()) == (REPLY, struct.pack("<Q", 0))
    with RawPeer(cluster.endpoints[0]) as another:
        another.handshake(cluster.secret)
        assert another.ask(PUSH, push.payload()) == (REPLY, struct.pack("<Q", 0))
    assert torch.equal(table.pull(keys), first + torch.tensor([[1.0, 2.0], [3.0, 4.0]]))


def test_a_push_of_an_older_epoch_is_refused(client, table, peer):
    assert peer.ask(PUSH, Push(table.name, [], [], dim=2, worker=6, epoch=2).payload())[0] == REPLY
    before = contents(table)
    code, message = peer.refusal(PUSH, Push(table.name, [1], [1.0, 1.0], dim=2, worker=6, epoch=1).payload())
    assert code == STALE_EPOCH
    assert "epoch 2" in message
    assert contents(table) == before


def test_an_unknown_table_is_refused_on_the_wire(peer):
    code, message = peer.refusal(PULL, struct.pack("<QIIB7x", table_id("nobody made this"), 0, 2, 1))
    assert code == UNKNOWN_TABLE
    assert "create it first" in message


def test_a_shutdown_needs_the_secret(cluster, client):
    with RawPeer(cluster.endpoints[0]) as peer:
        peer.receive(40)
        peer.send(frame(SHUTDOWN) + bytes(72))
        assert peer.ended()
    assert len(client.statistics()) == 2
