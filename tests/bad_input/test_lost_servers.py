"""Servers that are not there, are somebody else, fall silent, or die."""

import re
import socket
import time

import pytest
import torch

from faulty_proxy import HEADER, HELLO_DOWN, Fate, FaultyProxy
from flota import Client, _core
from flota.errors import (
    DeadlineExceeded,
    InvalidArgument,
    ServerUnavailable,
    StaleEpoch,
    SystemFailure,
    TooLarge,
    UnknownTable,
    WrongServer,
)
from flota.rules import SGD
from flota.testing import LocalCluster


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
            here = [key for key in range(50) if _core.shard_of(key) % 2 == 0]
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


def test_two_clients_of_one_name_are_told(cluster, client, table):
    """Each would take the other's pushes for its own that were applied already: they must not get lost silently."""
    dense = client.create_dense_table(f"{table.name}-dense", shape=40, rule=SGD(lr=1.0), min_block_size=16)
    one = Client(cluster.endpoints, secret=cluster.secret, worker=98)
    another = Client(cluster.endpoints, secret=cluster.secret, worker=98)
    with one, another:
        for _ in range(3):
            one.table(table.name).push([1, 2, 3, 4], torch.ones(4, 2), kind="delta")
        with pytest.raises(StaleEpoch, match=r"not applied.*another client.*a higher epoch"):
            another.table(table.name).push([1, 2, 3, 4], torch.ones(4, 2), kind="delta")
        with pytest.raises(StaleEpoch, match="not applied"):
            another.table(dense.name).push(torch.ones(40))
    assert table.pull([1]).tolist() == [[4.0, 5.0]]
    assert not dense.pull().any()


def test_a_message_beyond_the_servers_limit_is_refused_with_a_reason(name):
    with LocalCluster(arguments=["--max-payload-mb", "1"]) as cluster:
        client = cluster.client(timeout=2)
        table = client.create_sparse_table(name, dim=256, rule=SGD(lr=1.0))
        keys = torch.arange(5000)  # 5 MB: cut into messages that fit
        table.push(keys, torch.ones(5000, 256))
        assert torch.all(table.pull(keys) == -1)
        with pytest.raises(TooLarge, match=r"a block of 1000000 elements .* larger --max-payload-mb"):
            client.create_dense_table(f"{name}-dense", shape=1_000_000, rule=SGD(), slice_var_up=False)


@pytest.mark.parametrize("index", [2, -1, -2])
def test_only_a_server_that_exists_is_shut_down(cluster, client, index):
    with pytest.raises(InvalidArgument, match=f"there is no server {index}"):
        client.shutdown(index)
    assert len(client.statistics()) == 2
