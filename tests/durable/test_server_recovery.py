"""A server that is killed and started again is what it was: rows, versions, eras, and which pushes it has applied.

Deltas are whole numbers, so that float32 sums are exact in any order: one push lost or applied twice shows in the end.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from flota.errors import FlotaError
from flota.rules import SGD, Adagrad
from flota.testing import LocalCluster
from table_contents import rows_of

KEYS = 200
DIM = 3
CLIENTS = 3
PUSHES = 150  # of each client, at least
KILLS = 3


@pytest.fixture
def durable(tmp_path):
    """Makes clusters of one server that keep what they hold in one folder."""

    def make(*arguments: str, servers: int = 1) -> LocalCluster:
        return LocalCluster(servers, durable=tmp_path / "durable", arguments=list(arguments))

    return make


def crash_and_restart(cluster, index=0):
    cluster.crash(index)
    cluster.restart(index)


def push_ones(client, tables, stop, rng, least):
    """Adds ones to random keys until told to stop; returns how many to each key."""
    counts = np.zeros(KEYS)
    pushes = 0
    while pushes < least or not stop.is_set():
        keys = rng.integers(0, KEYS, size=16)
        for table in tables:
            table.push(keys, np.ones((16, DIM), np.float32), kind="delta")
        np.add.at(counts, keys, 1)
        pushes += 1
    return counts


@pytest.mark.parametrize("snapshots", [False, True], ids=["log", "snapshots"])
def test_sums_are_exact_when_a_server_is_killed_while_clients_push(durable, snapshots):
    arguments = ["--snapshot_seconds", "0.1"] if snapshots else []
    with durable(*arguments) as cluster:
        cluster.client().create_sparse_table("t", dim=DIM, rule=SGD())
        stop = threading.Event()
        with ThreadPoolExecutor(CLIENTS) as pool:
            clients = [cluster.client(timeout=60) for _ in range(CLIENTS)]
            jobs = [
                pool.submit(push_ones, client, [client.table("t")], stop, np.random.default_rng(i), PUSHES)
                for i, client in enumerate(clients)
            ]
            try:
                for _ in range(KILLS):
                    crash_and_restart(cluster)
            finally:
                stop.set()
            expected = sum(job.result(timeout=60) for job in jobs)
        table = cluster.client().table("t")
        pulled = np.asarray(table.pull(np.arange(KEYS)))
        np.testing.assert_array_equal(pulled, np.repeat(expected[:, None], DIM, axis=1))
        crash_and_restart(cluster)
        np.testing.assert_array_equal(np.asarray(table.pull(np.arange(KEYS))), pulled)
