"""What bad input gets: a typed exception that says what to do, and nobody else notices.

A bystander trains beside each test: after it, the bystander's rows have every bit they had before, and its client
works on.
"""

import random
import re
import socket
import struct
import threading
import time

import numpy as np
import pytest
import torch

from faulty_proxy import HEADER, HELLO_DOWN, Fate, FaultyProxy
from flota import Client
from flota.errors import (
    AuthenticationFailed,
    DeadlineExceeded,
    FlotaError,
    InvalidArgument,
    NonFiniteValues,
    ProtocolError,
    ServerError,
    ServerUnavailable,
    StaleEpoch,
    SystemFailure,
    TableMismatch,
    UnknownTable,
    VersionMismatch,
    WrongServer,
)
from flota.initializer import Uniform
from flota.rules import SGD, Adagrad, Adam, Lamb
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
    VERSION_MISMATCH,
    Push,
    RawPeer,
    frame,
    header,
    table_id,
)

NAN, INFINITY = float("nan"), float("inf")


def contents(table):
    """Every bit of a table."""
    return [column.tobytes() for page in table.export() for column in vars(page).values()]


@pytest.fixture(scope="module")
def bystander(cluster):
    """A table in use by a client that does nothing wrong."""
    table = cluster.client().create_sparse_table("bystander", dim=4, rule=Adagrad(lr=0.1), init=Uniform(-1, 1))
    table.push(np.arange(50), np.ones((50, 4), dtype=np.float32))
    return table


@pytest.fixture(autouse=True)
def nobody_else_notices(request):
    if "cluster" not in request.fixturenames:
        yield
        return
    bystander = request.getfixturevalue("bystander")
    before = contents(bystander)
    yield
    assert contents(bystander) == before
    bystander.push([7], [[1.0, 2.0, 3.0, 4.0]], lr=0.5)
    assert len(bystander.pull([7, 8])) == 2


@pytest.fixture
def table(client, name):
    """Two rows of dim 2, with keys on both servers."""
    table = client.create_sparse_table(name, dim=2, rule=SGD(lr=1.0))
    table.push([1, 2, 3, 4], [[1.0, 2.0]] * 4, kind="assign")
    return table


@pytest.fixture
def peer(cluster):
    """A raw peer of server 0 that has proven the secret."""
    with RawPeer(cluster.endpoints[0]) as peer:
        assert peer.handshake(cluster.secret) == 0
        yield peer


def counted(client, name, server=0):
    return client.statistics()[server].values[name]


def wait_until(condition, timeout=10.0):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "this did not happen in time"
        time.sleep(0.005)


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
            connection.sendall(struct.pack("<4sHH", b"FOLH", 1, 1) + bytes(32))
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


@pytest.mark.parametrize(
    "said",
    [b"GET / HTTP/1.1\r\nHost: parameter-server\r\nUser-Agent: curl/8\r\nAccept: */*\r\n\r\n", random.Random(1).randbytes(4096)],
    ids=["http", "random"],
)  # fmt: skip
def test_who_speaks_another_protocol_gets_no_answer(cluster, client, said):
    before = counted(client, "refused_handshakes")
    with RawPeer(cluster.endpoints[0]) as peer:
        assert len(peer.receive(40)) == 40
        peer.send(said)
        assert peer.ended()
    assert counted(client, "refused_handshakes") == before + 1


def test_who_says_nothing_is_sent_away_in_the_end():
    """Seconds, not minutes: a silent peer holds a thread."""
    with LocalCluster() as cluster, RawPeer(cluster.endpoints[0]) as peer:
        client = cluster.client()
        peer.receive(40)
        began = time.monotonic()
        assert peer.ended()
        assert 1 < time.monotonic() - began < 10
        assert counted(client, "refused_handshakes") == 1


def test_silent_peers_do_not_keep_others_out(cluster):
    peers = [RawPeer(cluster.endpoints[0]) for _ in range(40)]
    try:
        with Client(cluster.endpoints, secret=cluster.secret, transport="tcp", timeout=5) as another:
            assert len(another.statistics()) == 2
    finally:
        for peer in peers:
            peer.socket.close()


@pytest.mark.parametrize("version", [0, 2, 65535])
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
    listener, endpoint = answering(struct.pack("<4sHH32x", b"FOLH", 2, 3))
    with listener, pytest.raises(VersionMismatch, match=r"versions 2 to 3, this client version 1; install the same"):
        Client([endpoint], secret=cluster.secret)


def test_something_else_on_the_port_is_told_apart(cluster):
    listener, endpoint = answering(*[b"HTTP/1.1 400 Bad Request\r\n" + b" " * 64] * 1000)
    with listener, pytest.raises(ProtocolError, match=rf"{endpoint}.*no flota server"):
        Client([endpoint], secret=cluster.secret, timeout=0.3)


# --- frames ---


def test_a_raw_peer_that_knows_the_wire_is_served(peer):
    kind, payload = peer.ask(STATISTICS)
    assert kind == REPLY
    assert b"connections_open" in payload


BROKEN_FRAMES = {
    "not a frame": b"\0" * 64,
    "another magic number": b"ABCD" + frame(STATISTICS)[4:],
    "another version": frame(STATISTICS, version=2),
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
        return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{pid}/status").read())[1])

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
    keys = [key for key in range(1, 100) if key_lives_on(table, key, server=0)][:2]
    push = Push(table.name, keys, [1.0, 2.0, 3.0, 4.0], dim=2, worker=5, sequence=3, oldest=3)
    first = table.pull(keys)
    assert peer.ask(PUSH, push.payload()) == (REPLY, struct.pack("<Q", 1))
    assert peer.ask(PUSH, push.payload()) == (REPLY, struct.pack("<Q", 0))
    with RawPeer(cluster.endpoints[0]) as another:
        another.handshake(cluster.secret)
        assert another.ask(PUSH, push.payload()) == (REPLY, struct.pack("<Q", 0))
    assert torch.equal(table.pull(keys), first + torch.tensor([[1.0, 2.0], [3.0, 4.0]]))


def key_lives_on(table, key, server):
    from flota import _core

    return _core.shard_of(key) % table._client.servers == server


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


# --- tables ---


def test_an_unknown_table_names_those_there_are(client, table):
    with pytest.raises(UnknownTable, match=rf"there is no table 'nothing'; there are: .*{re.escape(table.name)}"):
        client.table("nothing")


DIFFERENCES = {
    "dim": ({"dim": 3}, "dim is 2 there and 3 here"),
    "rule": ({"rule": Adam()}, "rule is SGD there and Adam here"),
    "lr": ({"rule": SGD(lr=0.5)}, "lr is 1 there and 0.5 here"),
    "weight_decay": ({"rule": SGD(lr=1.0, weight_decay=0.1)}, "weight_decay is 0 there and 0.1 here"),
    "seed": ({"seed": 1}, "seed is 0 there and 1 here"),
    "init": ({"init": Uniform(-1, 1)}, "initialiser is constant .* there and uniform -1 1 .* here"),
    "storage": ({"storage": "float16"}, "storage is float32 there and float16 here"),
    "allow_nonfinite": ({"allow_nonfinite": True}, "allow_nonfinite is false there and true here"),
}


@pytest.mark.parametrize(("change", "says"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_a_table_that_exists_with_other_settings_says_which(cluster, table, change, says):
    before = contents(table)
    settings = {"dim": 2, "rule": SGD(lr=1.0), **change}
    with (
        Client(cluster.endpoints, secret=cluster.secret) as another,
        pytest.raises(TableMismatch, match=f"table '{re.escape(table.name)}' exists with other settings: {says}"),
    ):
        another.create_sparse_table(table.name, **settings)
    assert contents(table) == before
    again = table._client.create_sparse_table(table.name, dim=2, rule=SGD(lr=1.0))
    assert torch.equal(again.pull([1, 2]), table.pull([1, 2]))


def test_a_dense_table_of_that_name_is_another_table(client, table):
    with pytest.raises(TableMismatch, match="kind is sparse there and dense here"):
        client.create_dense_table(table.name, shape=2, rule=SGD(lr=1.0))


def test_a_mismatch_leaves_no_half_made_table(name):
    """A server that was restarted has lost the table: it must not get one of other settings than the rest has."""
    with LocalCluster(servers=3) as cluster:
        client = cluster.client()
        client.create_sparse_table(name, dim=2, rule=SGD())
        for server in (0, 2):
            cluster.crash(server)
            cluster.restart(server)
        with pytest.raises(TableMismatch, match="dim is 2 there and 5 here"):
            client.create_sparse_table(name, dim=5, rule=SGD())
        assert client.create_sparse_table(name, dim=2, rule=SGD()).pull([1, 2, 3, 4, 5]).shape == (5, 2)


REFUSED_TABLES = {
    "dim 0": ({"dim": 0}, "dim must be a whole number from 1 to 65536, not 0"),
    "dim beyond the limit": ({"dim": 65537}, "dim must be a whole number from 1 to 65536"),
    "dim of another type": ({"dim": 2.0}, "dim must be a whole number"),
    "empty name": ({"name": ""}, "a table needs a name"),
    "long name": ({"name": "x" * 256}, "at most 255"),
    "name that leaves its folder": ({"name": "../secrets"}, "empty, . or .."),
    "name with a space": ({"name": "a b"}, "letters, digits and"),
    "rule by name": ({"rule": "adam"}, r"flota\.rules, such as Adagrad"),
    "dense rule": ({"rule": Lamb()}, "Lamb is for dense tables only"),
    "negative lr": ({"rule": SGD(lr=-1.0)}, "lr is -1: it must not be negative"),
    "NaN": ({"rule": SGD(lr=NAN)}, "lr is nan: it must be a finite float32"),
    "betas": ({"rule": Adam(betas=(0.9, 1.0))}, "beta2 is 1: it must be at least 0 and below 1"),
    "unknown steps": ({"rule": Adam(steps="epoch")}, "steps must be one of row, push, not 'epoch'"),
    "init of another type": ({"init": 0.5}, r"init must be one of flota\.initializer, such as Uniform"),
    "empty range": ({"init": Uniform(1.0, 1.0)}, "must be below"),
    "unknown storage": ({"storage": "float8"}, "storage must be one of float32, float16, bfloat16, not 'float8'"),
    "seed out of range": ({"seed": 2**64}, "seed"),
    "seed of another type": ({"seed": 1.5}, "seed"),
    "timeout 0": ({"timeout": 0}, "a timeout must be a number of seconds above 0, not 0"),
    "NaN timeout": ({"timeout": NAN}, "a timeout must be a number of seconds above 0, not nan"),
}


@pytest.mark.parametrize(("change", "says"), REFUSED_TABLES.values(), ids=REFUSED_TABLES)
def test_settings_that_make_no_table_are_refused(client, name, change, says):
    settings = {"name": name, "dim": 2, "rule": SGD(), **change}
    with pytest.raises(InvalidArgument, match=says):
        client.create_sparse_table(**settings)
    with pytest.raises(UnknownTable):
        client.table(name)


REFUSED_PARAMETERS = {
    "no elements": ({"shape": (3, 0)}, "between 1 and 2\\^40 elements"),
    "negative shape": ({"shape": (-3, -2)}, "shape"),
    "shape of another type": ({"shape": (2.0, 3)}, "shape"),
    "blocks of nothing": ({"min_block_size": 0}, "min_block_size must be at least 1, not 0"),
    "unknown split": ({"split_method": "Random"}, "split_method must be one of RoundRobin, HashName, not 'Random'"),
}


@pytest.mark.parametrize(("change", "says"), REFUSED_PARAMETERS.values(), ids=REFUSED_PARAMETERS)
def test_settings_that_make_no_parameter_are_refused(client, name, change, says):
    with pytest.raises(InvalidArgument, match=says):
        client.create_dense_table(**{"name": name, "shape": (2, 3), "rule": SGD(), **change})
    with pytest.raises(UnknownTable):
        client.table(name)


# --- keys and values ---


REFUSED_KEYS = {
    "int32": (np.array([1, 2], dtype=np.int32), r"int64 or uint64, not int32; convert them with \.astype"),
    "torch int32": (torch.tensor([1, 2], dtype=torch.int32), r"torch\.int64, not torch\.int32; convert .*\.long"),
    "floats": (torch.tensor([1.0, 2.0]), r"torch\.int64, not torch\.float32"),
    "bools": (np.array([True]), "not bool"),
    "two dimensions": (torch.tensor([[1, 2]]), r"one dimension, not shape \[1, 2\]; flatten"),
    "no dimension": (np.array(3), r"one dimension, not shape \[\]"),
    "a list of lists": ([[1, 2]], "is not a whole number"),
    "a list of floats": ([1, 2.5], "2.5 is not a whole number"),
    "a list of strings": (["one"], "'one' is not a whole number"),
    "too large": ([2**64], "64 bits"),
    "a number": (5, "whole numbers"),
    "nothing": (None, "whole numbers"),
}


@pytest.mark.parametrize(("keys", "says"), REFUSED_KEYS.values(), ids=REFUSED_KEYS)
def test_keys_of_a_wrong_type_or_shape_are_refused(table, keys, says):
    before = contents(table)
    for call in (table.pull, table.pull_async):
        with pytest.raises(InvalidArgument, match=says):
            call(keys)
    for call in (table.push, table.push_async):
        with pytest.raises(InvalidArgument, match=says):
            call(keys, torch.ones(2, 2))
    assert contents(table) == before


REFUSED_VALUES = {
    "too few rows": (torch.ones(1, 2), r"values must have shape \[2, 2\], not \[1, 2\]"),
    "too wide": (torch.ones(2, 3), r"values must have shape \[2, 2\], not \[2, 3\]"),
    "flat": (np.ones(4, dtype=np.float32), r"values must have shape \[2, 2\], not \[4\]"),
    "float64": (np.ones((2, 2)), r"float32, not float64; convert them with \.astype"),
    "torch float64": (torch.ones(2, 2, dtype=torch.float64), r"torch\.float64; convert them with \.float"),
    "half": (torch.ones(2, 2, dtype=torch.float16), r"torch\.float16"),
    "ragged lists": ([[1.0], [1.0, 2.0]], "values must be numbers of shape"),
    "words": (["a", "b"], "values must be numbers of shape"),
}


@pytest.mark.parametrize(("values", "says"), REFUSED_VALUES.values(), ids=REFUSED_VALUES)
def test_values_of_a_wrong_type_or_shape_are_refused(client, name, table, values, says):
    before = contents(table)
    dense = client.create_dense_table(f"{name}-dense", shape=(2, 2), rule=SGD())
    for call in (table.push, table.push_async):
        with pytest.raises(InvalidArgument, match=says):
            call([1, 2], values)
    with pytest.raises(InvalidArgument, match=says):
        dense.push(values)
    assert contents(table) == before
    assert not dense.pull().any()


@pytest.mark.parametrize("keys", [[], (), np.array([], dtype=np.int64), torch.tensor([], dtype=torch.int64)], ids=type)
def test_no_keys_are_legal(table, keys):
    before = contents(table)
    assert tuple(table.pull(keys).shape) == (0, 2)
    assert tuple(table.pull_async(keys).result().shape) == (0, 2)
    table.push(keys, torch.ones(0, 2))
    table.push(keys, [])
    table.push_async(keys, np.ones((0, 2), dtype=np.float32)).result()
    assert contents(table) == before


@pytest.mark.parametrize("key", [-1, 0, 2**63 - 1, -(2**63)])
def test_any_int64_is_a_key(table, key):
    table.push([key], [[3.0, 4.0]], kind="assign")
    assert table.pull(np.array([key])).tolist() == [[3.0, 4.0]]
    unsigned = np.array([key % 2**64], dtype=np.uint64)
    assert table.pull(unsigned).tolist() == [[3.0, 4.0]]
    assert key in np.concatenate([page.keys for page in table.export()])


@pytest.mark.parametrize("kind", ["gradient", "delta", "assign"])
@pytest.mark.parametrize("bad", [NAN, INFINITY, -INFINITY])
def test_a_push_with_nan_or_infinity_is_refused_whole(table, kind, bad):
    before = contents(table)
    keys = list(range(100, 140))  # on both servers
    values = torch.ones(40, 2)
    values[23, 1] = bad
    for push in (table.push, lambda *args, **kwargs: table.push_async(*args, **kwargs).result()):
        with pytest.raises(NonFiniteValues, match=rf"table '{re.escape(table.name)}'.*key 123.*allow_nonfinite=True"):
            push(keys, values, kind=kind)
    assert contents(table) == before, "no server applied its part"


def test_the_first_key_with_nan_is_named(table):
    values = torch.ones(60, 2)
    values[41:, 0] = NAN
    with pytest.raises(NonFiniteValues, match="key 41 "):
        table.push(torch.arange(60), values)
    doubled = torch.arange(60).repeat(2)
    with pytest.raises(NonFiniteValues, match="key 41 "):
        table.push(doubled, values.repeat(2, 1))


def test_gradients_whose_sum_overflows_are_refused(table):
    before = contents(table)
    with pytest.raises(NonFiniteValues, match="key 5"):
        table.push([5, 5], [[3e38, 0.0], [3e38, 0.0]])
    assert contents(table) == before


def test_a_dense_push_with_nan_is_refused_whole(client, name):
    dense = client.create_dense_table(name, shape=(8, 8), rule=SGD(lr=1.0), min_block_size=16)
    assert dense.blocks == 2
    values = torch.ones(8, 8)
    values[7, 7] = NAN
    with pytest.raises(NonFiniteValues, match=rf"table '{re.escape(name)}'.*element 63"):
        dense.push(values)
    assert not dense.pull().any()


def test_a_table_can_allow_nan_and_infinity(client, name):
    table = client.create_sparse_table(name, dim=1, rule=SGD(lr=1.0), allow_nonfinite=True)
    table.push([1, 2, 3], [[NAN], [INFINITY], [1.0]])
    assert str(table.pull([1, 2, 3]).tolist()) == "[[nan], [-inf], [-1.0]]"
    dense = client.create_dense_table(f"{name}-dense", shape=2, rule=SGD(lr=1.0), allow_nonfinite=True)
    dense.push([NAN, 1.0])
    assert str(dense.pull().tolist()) == "[nan, -1.0]"


REFUSED_PUSHES = {
    "unknown kind": ({"kind": "sum"}, "kind must be one of gradient, delta, assign, not 'sum'"),
    "negative lr": ({"lr": -0.1}, "learning rate must be a finite number from 0 on"),
    "NaN lr": ({"lr": NAN}, "learning rate must be a finite number from 0 on"),
    "infinite scale": ({"scale": INFINITY}, "scale"),
    "scale beyond float32": ({"scale": 1e300}, "scale"),
    "negative step": ({"step": -1}, "step must be"),
    "step beyond 64 bits": ({"step": 2**64}, "step must be"),
    "timeout 0": ({"timeout": 0}, "a timeout must be a number of seconds above 0"),
}


@pytest.mark.parametrize(("change", "says"), REFUSED_PUSHES.values(), ids=REFUSED_PUSHES)
def test_settings_of_a_push_that_make_no_sense_are_refused(table, change, says):
    before = contents(table)
    with pytest.raises(InvalidArgument, match=says):
        table.push([1, 2, 3, 4], torch.ones(4, 2), **change)
    with pytest.raises(InvalidArgument, match=says):
        table.push_async([1, 2, 3, 4], torch.ones(4, 2), **change).result()
    assert contents(table) == before


REFUSED_OUTPUTS = {
    "float64": (torch.empty(2, 2, dtype=torch.float64), "float32"),
    "another shape": (torch.empty(3, 2), r"out must have shape \[2, 2\], not \[3, 2\]"),
    "not contiguous": (torch.empty(2, 2).t(), "contiguous"),
    "strided array": (np.empty((2, 4), dtype=np.float32)[:, ::2], "contiguous"),
    "requires a gradient": (torch.empty(2, 2, requires_grad=True), "no gradient"),
}


@pytest.mark.parametrize(("out", "says"), REFUSED_OUTPUTS.values(), ids=REFUSED_OUTPUTS)
def test_an_output_that_cannot_hold_the_rows_is_refused(client, name, table, out, says):
    with pytest.raises(InvalidArgument, match=says):
        table.pull([1, 2], out=out)
    dense = client.create_dense_table(f"{name}-dense", shape=(2, 2), rule=SGD())
    with pytest.raises(InvalidArgument, match=says):
        dense.pull(out=out)


def test_a_read_only_output_is_refused(table):
    out = np.zeros((2, 2), dtype=np.float32)
    out.flags.writeable = False
    with pytest.raises(InvalidArgument, match="writable"):
        table.pull([1, 2], out=out)


def test_rows_of_another_shape_are_not_imported(client, table, name):
    before = contents(table)
    wide = client.create_sparse_table(f"{name}-wide", dim=3, rule=SGD())
    wide.pull([1])
    stateful = client.create_sparse_table(f"{name}-stateful", dim=2, rule=Adam())
    stateful.pull([1])
    for other in (wide, stateful):
        (page,) = other.export()
        with pytest.raises(InvalidArgument, match=f"table '{re.escape(table.name)}'.*not this table's shape"):
            table.import_rows(page)
    assert contents(table) == before


# --- servers that are not there, or go away ---


@pytest.mark.parametrize("transport", ["auto", "tcp", "unix", "shared_memory"])
def test_a_server_that_is_not_there_is_named_when_the_deadline_passes(transport):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = f"127.0.0.1:{listener.getsockname()[1]}"
    began = time.monotonic()
    with pytest.raises(ServerUnavailable, match=rf"server 0 \({endpoint}\).*deadline 0\.3 s") as caught:
        Client([endpoint], secret="x" * 32, timeout=0.3, transport=transport)
    assert 0.25 < time.monotonic() - began < 2
    assert re.search(r"is it running", str(caught.value)), "what to do"


def test_a_host_that_does_not_exist_is_named():
    with pytest.raises(ServerUnavailable, match=r"cannot find host 'nowhere\.invalid'"):
        Client(["nowhere.invalid:7164"], secret="x" * 32, timeout=0.2)


@pytest.mark.parametrize("endpoint", ["127.0.0.1", ":7164", "127.0.0.1:port", "127.0.0.1:70000", "::1:7164", ""])
def test_an_endpoint_that_is_none_is_refused(endpoint):
    with pytest.raises(InvalidArgument, match=r"is not host:port, such as 127\.0\.0\.1:7164"):
        Client([endpoint], secret="x" * 32)


def test_endpoints_in_another_order_are_refused(cluster):
    with pytest.raises(
        WrongServer, match=r"server 1 of 2, not server 0 of 2; .*same list of endpoints in the same ord"
    ):
        Client(cluster.endpoints[::-1], secret=cluster.secret)
    with pytest.raises(WrongServer, match=r"server 0 of 2, not server 0 of 1"):
        Client(cluster.endpoints[:1], secret=cluster.secret)


def test_a_port_in_use_is_named(cluster):
    port = cluster.endpoints[0].rpartition(":")[2]
    with pytest.raises(SystemFailure, match=rf"port {port} on 127\.0\.0\.1 is in use.*choose another port"):
        LocalCluster(arguments=["--port", port]).start()


@pytest.mark.parametrize("transport", ["tcp", "unix", "shared_memory"])
def test_a_server_that_falls_silent_costs_no_more_than_the_deadline(cluster, name, transport):
    with Client(cluster.endpoints, secret=cluster.secret, transport=transport) as client:
        table = client.create_sparse_table(name, dim=2, rule=SGD())
        before = table.pull([1, 2, 3, 4])
        cluster.pause(1)
        try:
            began = time.monotonic()
            for call in (
                lambda: table.pull([1, 2, 3, 4], timeout=0.2),
                lambda: table.pull_async([1, 2, 3, 4], timeout=0.2).result(),
                lambda: client.statistics(timeout=0.2),
            ):
                with pytest.raises(DeadlineExceeded, match=rf"server 1 \({cluster.endpoints[1]}\).*deadline 0\.2 s"):
                    call()
            assert time.monotonic() - began < 3
        finally:
            cluster.resume(1)
        assert torch.equal(table.pull([1, 2, 3, 4]), before)


def test_a_new_client_of_a_silent_server_keeps_its_deadline(cluster):
    cluster.pause(1)
    try:
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded, match="server 1"):
            Client(cluster.endpoints, secret=cluster.secret, timeout=0.3)
        assert time.monotonic() - began < 2
    finally:
        cluster.resume(1)


@pytest.mark.parametrize("down", [1, 40, HELLO_DOWN, HELLO_DOWN + 20, HELLO_DOWN + HEADER, HELLO_DOWN + HEADER + 9])
def test_a_reply_that_breaks_off_is_asked_for_again(cluster, client, table, down):
    expected = table.pull([1, 2, 3, 4])
    with FaultyProxy(cluster.endpoints[0], fates=()) as proxy:
        endpoints = [proxy.endpoint, cluster.endpoints[1]]
        with Client(endpoints, secret=cluster.secret, transport="tcp") as through:
            mine = through.table(table.name)
            proxy.cut_all()
            proxy.force(Fate("cut reply", down=down))
            assert torch.equal(mine.pull([1, 2, 3, 4]), expected)


def test_a_server_that_dies_in_the_middle_of_a_reply_is_named(name):
    with LocalCluster(servers=2) as cluster, FaultyProxy(cluster.endpoints[1], fates=()) as proxy:
        endpoints = [cluster.endpoints[0], proxy.endpoint]
        with Client(endpoints, secret=cluster.secret, transport="tcp") as client:
            table = client.create_sparse_table(name, dim=2, rule=SGD())
            other = client.create_sparse_table(f"{name}-other", dim=2, rule=SGD())
            keys = torch.arange(2000)
            table.pull(keys)
            proxy.cut_all()
            # The reply breaks off after some rows, and when the client comes again the server is gone.
            proxy.force(Fate("cut reply", down=HELLO_DOWN + 500))
            proxy.before_cut = lambda: cluster.crash(1)
            with pytest.raises(
                ServerUnavailable, match=rf"table '{name}': server 1 \({proxy.endpoint}\).*deadline 0\.5 s"
            ):
                table.pull(keys, timeout=0.5)
            proxy.before_cut = None
            # Server 0 is as it was.
            here = [key for key in range(50) if key_lives_on(table, key, server=0)]
            assert table.pull(here).shape == (len(here), 2)
            cluster.restart(1)
            with pytest.raises(UnknownTable, match=rf"table '{name}': server 1 .*restarted without a snapshot"):
                table.pull(keys)
            table = client.create_sparse_table(name, dim=2, rule=SGD())
            assert table.pull(keys).shape == (2000, 2)
            with pytest.raises(UnknownTable, match="create it first"):
                other.push(keys, torch.ones(2000, 2))


def test_a_restarted_server_has_no_tables_and_says_so(name):
    with LocalCluster() as cluster:
        client = cluster.client()
        table = client.create_sparse_table(name, dim=1, rule=SGD())
        dense = client.create_dense_table(f"{name}-dense", shape=3, rule=SGD())
        table.push([1], [[1.0]])
        cluster.crash(0)
        cluster.restart(0)
        for call in (
            lambda: table.pull([1]),
            lambda: table.push([1], [[1.0]]),
            lambda: dense.pull(),
            lambda: dense.push([1.0, 1.0, 1.0]),
            lambda: list(table.export()),
        ):
            with pytest.raises(UnknownTable, match=rf"table '{name}.*create it first \(a server that was restarted"):
                call()
        with pytest.raises(UnknownTable, match="restarted"):
            client.table(name)
        assert client.create_sparse_table(name, dim=1, rule=SGD()).pull([1]).tolist() == [[0.0]]


def test_a_worker_that_was_replaced_must_stop(cluster, table):
    old = Client(cluster.endpoints, secret=cluster.secret, worker=99, epoch=3)
    new = Client(cluster.endpoints, secret=cluster.secret, worker=99, epoch=4)
    with old, new:
        old.table(table.name).push([1, 2, 3, 4], torch.ones(4, 2), kind="delta")
        new.table(table.name).push([1, 2, 3, 4], torch.ones(4, 2), kind="delta")
        with pytest.raises(StaleEpoch, match=r"newer incarnation \(epoch 4\).*this one \(epoch 3\) must stop"):
            old.table(table.name).push([1, 2, 3, 4], torch.ones(4, 2), kind="delta")
    assert table.pull([1]).tolist() == [[3.0, 4.0]]


def test_a_message_beyond_the_servers_limit_is_refused_with_a_reason(name):
    with LocalCluster(arguments=["--max-payload-mb", "1"]) as cluster:
        client = cluster.client(timeout=2)
        table = client.create_sparse_table(name, dim=256, rule=SGD(lr=1.0))
        keys = torch.arange(5000)  # 5 MB: cut into messages that fit
        table.push(keys, torch.ones(5000, 256))
        assert torch.all(table.pull(keys) == -1)
        with pytest.raises(FlotaError, match="max-payload"):
            client.create_dense_table(f"{name}-dense", shape=1_000_000, rule=SGD(), slice_var_up=False).push(
                torch.ones(1_000_000)
            )


def test_too_many_connections_are_refused_with_a_reason():
    with LocalCluster(arguments=["--max-connections", "1"]) as cluster:
        client = cluster.client()
        with pytest.raises(ServerError, match="no room for another connection"):
            cluster.client(timeout=0.3)
        assert len(client.statistics()) == 1


@pytest.mark.parametrize("index", [2, -1, -2])
def test_only_a_server_that_exists_is_shut_down(cluster, client, index):
    with pytest.raises(InvalidArgument, match=f"there is no server {index}"):
        client.shutdown(index)
    assert len(client.statistics()) == 2
