"""A push is applied exactly once, whatever the network does; pushes keep their order.

Deltas and gradients are whole numbers, so that float32 sums are exact in any order: one push lost or applied twice
shows in the end.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from faulty_proxy import FATES, HELLO_DOWN, Fate, FaultyProxy
from flota import Client
from flota.rules import SGD
from table_contents import rows_of

KEYS = 40
DIM = 3
CLIENTS = 3
THREADS = 2  # of each client
PUSHES = 40  # of each thread


@pytest.fixture
def proxies(cluster, request):
    """One faulty network for each server, by the test's seed and fates."""
    seed, fates = getattr(request, "param", (0, FATES))
    made = [FaultyProxy(endpoint, seed=seed * 10 + i, fates=fates) for i, endpoint in enumerate(cluster.endpoints)]
    yield made
    for proxy in made:
        proxy.close()


def client_through(proxies, cluster, **options):
    return Client([proxy.endpoint for proxy in proxies], secret=cluster.secret, transport="tcp", **options)


def counted(client, name):
    return sum(server.values[name] for server in client.statistics())


@pytest.mark.parametrize("proxies", [(seed, FATES) for seed in range(4)], indirect=True, ids=lambda p: f"seed{p[0]}")
def test_sums_are_exact_when_connections_break_at_random(cluster, client, proxies, name):
    rows = client.create_sparse_table(f"{name}-rows", dim=DIM, rule=SGD(lr=1.0))
    added = client.create_sparse_table(f"{name}-added", dim=DIM, rule=SGD())
    parameter = client.create_dense_table(f"{name}-dense", shape=64, rule=SGD(lr=1.0), min_block_size=32)
    assert parameter.blocks == 2
    duplicates_before = counted(client, "duplicate_pushes")
    expected = {"rows": np.zeros((KEYS, DIM)), "added": np.zeros((KEYS, DIM)), "dense": np.zeros(64)}
    updates = np.zeros(KEYS, dtype=int)
    lock = threading.Lock()

    def work(job):
        through, number = job
        rng = np.random.default_rng(number)
        my_rows, my_added, my_parameter = (through.table(table.name) for table in (rows, added, parameter))
        for turn in range(PUSHES):
            keys = rng.integers(0, KEYS, size=8)
            values = rng.integers(-9, 10, size=(8, DIM)).astype(np.float32)
            dense = rng.integers(-9, 10, size=64).astype(np.float32)
            if turn % 4 == 0:
                my_parameter.push(dense, kind="delta")
            elif turn % 4 == 1:
                my_added.push(keys, values, kind="delta")
            else:
                my_rows.push(keys, -values)
            with lock:
                if turn % 4 == 0:
                    expected["dense"] += dense
                elif turn % 4 == 1:
                    np.add.at(expected["added"], keys, values)
                else:
                    np.add.at(expected["rows"], keys, values)
                    updates[np.unique(keys)] += 1

    clients = [client_through(proxies, cluster) for _ in range(CLIENTS)]
    jobs = [(each, 100 * i + thread) for i, each in enumerate(clients) for thread in range(THREADS)]
    with ThreadPoolExecutor(len(jobs)) as pool:
        list(pool.map(work, jobs))
    for each in clients:
        each.close()

    assert np.array_equal(rows.pull(np.arange(KEYS)), expected["rows"])
    assert np.array_equal(added.pull(np.arange(KEYS)), expected["added"])
    assert np.array_equal(parameter.pull(), expected["dense"])
    assert np.array_equal(rows_of(rows)[1], updates)
    met = sum((proxy.met for proxy in proxies), start=proxies[0].met - proxies[0].met)
    assert set(met) == set(FATES), "this seed did not show all that can happen"
    assert counted(client, "duplicate_pushes") > duplicates_before


@pytest.mark.parametrize(
    "proxies", [(5, FATES), (6, ("lose reply", "delay", "delay"))], indirect=True, ids=["all", "lost"]
)
def test_pushes_in_the_background_keep_their_order(cluster, client, proxies, name):
    table = client.create_sparse_table(name, dim=1, rule=SGD())
    keys = np.arange(10)
    expected = np.zeros((10, 1), dtype=np.float32)
    rng = np.random.default_rng(1)
    with client_through(proxies, cluster) as through:
        mine = through.table(name)
        pending = []
        for turn in range(99):
            values = rng.integers(0, 100, size=(10, 1)).astype(np.float32)
            # An assignment among sums: any other order gives other numbers.
            kind = "assign" if turn % 3 == 0 else "delta"
            pending.append(mine.push_async(keys, values, kind=kind))
            expected = values if kind == "assign" else expected + values
        mine.push(keys, np.ones((10, 1), dtype=np.float32), kind="delta")
        assert all(future.done() for future in pending)
        for future in pending:
            future.result()
    assert np.array_equal(table.pull(keys), expected + 1)


@pytest.mark.parametrize("proxies", [(7, FATES)], indirect=True, ids=["all"])
def test_a_pull_is_whole_however_often_its_answer_was_cut(cluster, client, proxies, name, rng):
    table = client.create_sparse_table(name, dim=DIM, rule=SGD())
    keys = np.arange(200)
    table.push(keys, rng.standard_normal((200, DIM), dtype=np.float32), kind="assign")
    expected = table.pull(keys)
    with client_through(proxies, cluster) as through:
        mine = through.table(name)
        for _ in range(60):
            some = rng.choice(keys, size=30)
            assert np.array_equal(mine.pull(some), expected[some])
    assert sum(proxy.met.total() for proxy in proxies) > 20


@pytest.mark.parametrize("proxies", [(0, ())], indirect=True, ids=["forced"])
def test_a_push_whose_answer_was_lost_is_applied_once(cluster, client, proxies, name):
    table = client.create_sparse_table(name, dim=1, rule=SGD(lr=1.0))
    before = counted(client, "duplicate_pushes")
    with client_through(proxies, cluster) as through:
        mine = through.table(name)
        for proxy in proxies:
            proxy.cut_all()
            # The client comes back with its push on a new connection, and the answer never arrives.
            proxy.force(Fate("lose reply", down=HELLO_DOWN))
        mine.push([1, 2, 3, 4], [[1.0]] * 4)
    assert table.pull([1, 2, 3, 4]).tolist() == [[-1.0]] * 4
    assert counted(client, "duplicate_pushes") == before + len(proxies), "each server saw the push twice"
