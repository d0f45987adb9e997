"""How calls run: in the foreground and the background, in order, by many threads and clients at once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from flota import Client
from flota.errors import ClientClosed, DeadlineExceeded, InvalidArgument, NonFiniteValues
from flota.rules import SGD


@pytest.fixture
def table(client, name):
    return client.create_sparse_table(name, dim=1, rule=SGD(lr=1.0))


@pytest.fixture
def paused(cluster):
    """Pauses server 1; the test resumes it, or its end does."""
    cluster.pause(1)
    yield
    cluster.resume(1)


KEYS = torch.arange(32)  # on both servers


def test_a_pull_in_the_background_gives_what_a_pull_gives(table):
    table.push(KEYS, torch.ones(32, 1))
    ahead = [table.pull_async(KEYS[i:]) for i in range(8)]
    for i, future in enumerate(ahead):
        assert torch.equal(future.result(), table.pull(KEYS[i:]))
        assert future.done()
        assert future.result() is future.result()


def test_arrays_of_a_call_in_the_background_live_as_long_as_it_does(cluster, table, rng):
    values = rng.standard_normal((5000, 1), dtype=np.float32)
    cluster.pause(1)
    try:
        push = table.push_async(np.arange(5000), values.copy(), kind="assign")
        pull = table.pull_async(np.arange(10, dtype=np.int64))
        # Whatever was freed by now is overwritten.
        for _ in range(50):
            np.full((5000, 1), -1.0, dtype=np.float32)
    finally:
        cluster.resume(1)
    push.result()
    assert pull.result().shape == (10, 1)
    assert np.array_equal(table.pull(np.arange(5000)), values)


def test_a_future_that_is_not_waited_for_is_done_all_the_same(table):
    table.push_async(KEYS, torch.ones(32, 1))
    table.push(KEYS, torch.ones(32, 1))
    assert torch.all(table.pull(KEYS) == -2)


def test_pushes_are_applied_in_the_order_they_were_made(table):
    for turn in range(20):
        table.push_async(KEYS, torch.full((32, 1), float(turn)), kind="assign")
        table.push_async(KEYS, torch.ones(32, 1), kind="delta")
        table.push(KEYS, torch.ones(32, 1), kind="delta")
        assert torch.all(table.pull(KEYS) == turn + 2)


def test_dense_and_sparse_pushes_keep_one_order(client, name, table):
    parameter = client.create_dense_table(f"{name}-dense", shape=40, rule=SGD(lr=1.0), min_block_size=16)
    for turn in range(20):
        parameter.push_async(torch.full((40,), float(turn)), kind="assign")
        table.push_async(KEYS, torch.full((32, 1), float(turn)), kind="assign")
        parameter.push_async(torch.ones(40))
        table.push(KEYS, torch.ones(32, 1))
        assert torch.all(parameter.pull_async().result() == turn - 1)
        assert torch.all(table.pull(KEYS) == turn - 1)


def test_a_failure_in_the_background_is_told_by_its_own_future(table):
    bad = table.push_async([1], [[float("nan")]])
    good = table.push_async([1], [[1.0]])
    good.result()
    for _ in range(2):
        with pytest.raises(NonFiniteValues, match="key 1"):
            bad.result()
    assert table.pull([1]).tolist() == [[-1.0]]


def test_waiting_for_a_future_has_a_deadline_of_its_own(cluster, table, paused):
    future = table.pull_async(KEYS, timeout=20)
    assert not future.done()
    with pytest.raises(DeadlineExceeded, match="still going on"):
        future.result(timeout=0.05)
    cluster.resume(1)
    assert future.result(timeout=20).shape == (32, 1)
    with pytest.raises(InvalidArgument, match="above 0"):
        future.result(timeout=0)


def test_python_runs_while_a_call_waits(cluster, client, table, paused):
    """Server 1 is resumed by another thread, which gets to run only if the call has let go of the interpreter."""
    calls = (
        lambda: table.pull(KEYS, timeout=20),
        lambda: table.push(KEYS, torch.ones(32, 1), timeout=20),
        lambda: table.pull_async(KEYS, timeout=20).result(),
        lambda: client.statistics(timeout=20),
        lambda: client.table(table.name, timeout=20),
        lambda: list(table.export(shards=[1], timeout=20)),
        lambda: Client(cluster.endpoints, secret=cluster.secret, timeout=20).close(),
    )
    for call in calls:
        cluster.pause(1)
        timer = threading.Timer(0.02, cluster.resume, [1])
        timer.start()
        call()
        timer.join()


def test_threads_share_a_client(client, table):
    def work(_):
        for _ in range(50):
            table.push(KEYS, torch.ones(32, 1))
            assert torch.all(table.pull(KEYS) < 0)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert torch.all(table.pull(KEYS) == -400)


def test_many_clients_work_side_by_side(cluster, table):
    def work(number):
        transport = ("auto", "tcp", "unix", "shared_memory")[number % 4]
        with Client(cluster.endpoints, secret=cluster.secret, transport=transport) as mine:
            mine_table = mine.table(table.name)
            for _ in range(25):
                mine_table.push(KEYS, torch.ones(32, 1))
                mine_table.pull(KEYS)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    assert torch.all(table.pull(KEYS) == -400)


def test_a_row_is_never_seen_half_updated(cluster, name):
    """A row's weights change together: readers see one push or the next, and nothing between."""
    with Client(cluster.endpoints, secret=cluster.secret) as client:
        table = client.create_sparse_table(name, dim=257, rule=SGD(lr=1.0))
        done = threading.Event()

        def read(_):
            with Client(cluster.endpoints, secret=cluster.secret) as reader:
                mine = reader.table(name)
                while not done.is_set():
                    rows = mine.pull([1, 2, 3]).numpy()
                    assert np.all(rows == rows[:, :1])

        with ThreadPoolExecutor(2) as pool:
            readers = [pool.submit(read, i) for i in range(2)]
            for turn in range(300):
                table.push([1, 2, 3], np.full((3, 257), turn, dtype=np.float32), kind="assign")
            done.set()
            for reader in readers:
                reader.result()


def test_closing_waits_for_what_goes_on_in_the_background(cluster, table, name):
    client = Client(cluster.endpoints, secret=cluster.secret)
    mine = client.table(name)
    futures = [mine.push_async(KEYS, torch.ones(32, 1)) for _ in range(20)]
    pull = mine.pull_async(KEYS)
    client.close()
    assert all(future.done() for future in [*futures, pull])
    assert pull.result().shape == (32, 1)
    assert torch.all(table.pull(KEYS) == -20)


def test_a_closed_client_refuses_everything(cluster, name):
    client = Client(cluster.endpoints, secret=cluster.secret)
    table = client.create_sparse_table(name, dim=1, rule=SGD())
    parameter = client.create_dense_table(f"{name}-dense", shape=2, rule=SGD())
    client.close()
    client.close()
    calls = (
        lambda: table.pull([1]),
        lambda: table.pull_async([1]).result(),
        lambda: table.push([1], [[1.0]]),
        lambda: table.push_async([1], [[1.0]]).result(),
        lambda: parameter.pull(),
        lambda: parameter.push_async([1.0, 2.0]).result(),
        lambda: list(table.export()),
        lambda: client.create_sparse_table("another", dim=1, rule=SGD()),
        lambda: client.table(name),
        lambda: client.statistics(),
        lambda: client.barrier("end", rank=0, world=1),
        lambda: client.shutdown(),
    )
    for call in calls:
        with pytest.raises(ClientClosed, match="the client is closed"):
            call()


def test_a_client_closes_with_its_block(cluster, client, name):
    with Client(cluster.endpoints, secret=cluster.secret) as mine:
        table = mine.create_sparse_table(name, dim=1, rule=SGD())
        table.pull([1])
    with pytest.raises(ClientClosed):
        table.pull([1])


def test_a_client_that_is_forgotten_closes_its_connections(cluster, client):
    def connections():
        return sum(server.values["connections_open"] for server in client.statistics())

    before = connections()
    mine = Client(cluster.endpoints, secret=cluster.secret)
    assert connections() == before + 2
    del mine
    for _ in range(1000):
        if connections() == before:
            break
    assert connections() == before
