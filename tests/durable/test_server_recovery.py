"""A server that is killed and started again is what it was: rows, versions, eras, and which pushes it has applied.

Deltas are whole numbers, so that float32 sums are exact in any order: one push lost or applied twice shows in the end.
"""

import itertools
import resource
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from flota import Client, _core
from flota._core import RowsOf
from flota.admission import ShowClick
from flota.durable import Durable, from_environment, keep_server
from flota.eras import Shrinking
from flota.errors import DiskFull, FlotaError, InvalidArgument
from flota.initializer import Constant
from flota.rules import SGD, Adagrad
from flota.testing import LocalCluster
from waiting import wait_until

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


def everything(client, tables):
    """All that the servers hold of these tables, as bytes, and all that they count of them but reads."""
    reads = {"pulls", "rows_pulled", "elements_pulled", "bytes"}
    held = [
        column.tobytes()
        for table in tables
        for part in (RowsOf.table, RowsOf.waiting, RowsOf.removed)
        for page in table.export_shards(part=part)
        for column in vars(page.page).values()
    ]
    counted = [
        (table, name, value)
        for server in client.statistics()
        for table, values in sorted(server.tables.items())
        for name, value in values.items()
        if name not in reads
    ]
    return held, [table.stand() for table in tables], counted


@pytest.mark.parametrize("snapshots", [False, True], ids=["log", "snapshots"])
def test_a_recovered_server_has_the_same_bits_eras_and_versions(durable, snapshots, rng):
    with durable(*(["--snapshot_seconds", "0.05"] if snapshots else []), servers=2) as cluster:
        client = cluster.client()
        rows = client.create_sparse_table("rows", dim=4, rule=Adagrad(lr=0.1))
        shown = client.create_sparse_table("shown", dim=2, rule=SGD(lr=0.1), admission=ShowClick(threshold=0.3))
        dense = client.create_dense_table("dense", shape=(30, 3), rule=Adagrad(lr=0.1), min_block_size=16)
        for turn in range(1, 5):
            keys = rng.integers(0, 300, size=64)
            rows.pull(rng.integers(200, 600, size=16))  # makes rows
            rows.push(keys, rng.normal(size=(64, 4)).astype(np.float32), step=10 * turn)
            shown.push(keys, rng.normal(size=(64, 2)).astype(np.float32), step=10 * turn)
            dense.push(rng.normal(size=(30, 3)).astype(np.float32), step=10 * turn)
            rows.stand(begin=10 * turn + 1, mark=turn, keep_since=1)
            assert rows.shrink(Shrinking(max_age=2), 10 * turn + 2) > 0 or turn < 3
            shown.shrink(Shrinking(decay=0.9), 10 * turn + 2)
            before = everything(client, [rows, shown]), np.asarray(dense.pull()).tobytes()
            if snapshots:
                wait_until(lambda: min(server.values["snapshots"] for server in client.statistics()) > 0)
            for index in range(2):
                crash_and_restart(cluster, index)
            assert (everything(client, [rows, shown]), np.asarray(dense.pull()).tobytes()) == before


def test_what_a_checkpoint_brought_outlives_the_server_too(durable, tmp_path, rng):
    """The tables that a server begins with are in no log: they are in a snapshot before it listens."""
    options = _core.ServerOptions()
    options.secret = "x" * 32
    options.durable.folder = str(tmp_path / "restored")
    server = _core.Server.make(options)
    assert not server.recovered
    spec = _core.TableSpec()
    spec.name, spec.dim = "t", 2
    server.restore_table(spec)
    keys, counters = np.arange(100, dtype=np.uint64), np.arange(100, dtype=np.uint64)
    weights = rng.normal(size=(100, 2)).astype(np.float32)
    none = np.zeros(0, np.float32)
    addresses = [column.ctypes.data for column in (keys, counters, counters, weights, none)]
    assert server.restore_rows("t", 100, 2, 0, *addresses) == 100
    server.restored(77, 5)
    server.listen()
    server.stop()
    del server
    again = _core.Server.make(options)
    assert again.recovered
    with pytest.raises(FlotaError, match="has recovered its tables"):
        again.restore_table(spec)
    again.listen()
    with Client([again.endpoint], secret=options.secret) as client:
        np.testing.assert_array_equal(np.asarray(client.table("t").pull(keys)), weights)
        assert client.statistics()[0].values["checkpoint"] == 77
    again.stop()


def test_a_second_server_on_the_same_folder_is_refused_and_told_who_has_it(durable):
    with durable() as cluster, pytest.raises(FlotaError, match=f"server process {cluster.servers[0].pid} uses"):
        durable().start()


def push_until_it_fails(table, values):
    for _ in range(100):
        table.push([1], values, kind="delta", timeout=0.5)


def test_a_full_disk_refuses_changes_until_there_is_room_and_loses_none(durable):
    with durable() as cluster:
        client = cluster.client(timeout=30)
        table = client.create_sparse_table("t", dim=DIM, rule=SGD())
        ones = np.ones((1, DIM), np.float32)
        pid = cluster.servers[0].pid
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        with pytest.raises(DiskFull, match="log-1"):
            push_until_it_fails(table, ones)
        applied = float(np.asarray(table.pull([1]))[0, 0])
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(table.push, [1], ones, kind="delta")
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            waiting.result(timeout=30)
        crash_and_restart(cluster)
        assert float(np.asarray(table.pull([1]))[0, 0]) == applied + 1


def test_on_a_full_disk_pulls_give_rows_and_make_no_more_than_memory_is_meant_for(durable):
    most, fresh = 1 << 20, itertools.count(10_000_000)
    with durable() as cluster:
        table = cluster.client(timeout=30).create_sparse_table("t", dim=1, rule=SGD(), init=Constant(3.0))
        pid = cluster.servers[0].pid
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
        for begin in range(0, most, most // 16):
            table.pull(np.arange(begin, begin + most // 16))

        def pull_makes_a_row():
            before = table.rows()
            np.testing.assert_array_equal(table.pull(np.array([next(fresh)])), [[3.0]])
            return table.rows() > before

        wait_until(lambda: not pull_makes_a_row())
        assert table.rows() >= most
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wait_until(pull_makes_a_row)
        rows = table.rows()
        crash_and_restart(cluster)
        assert table.rows() == rows


def test_a_server_killed_while_it_writes_a_snapshot_has_the_one_before_and_the_log(durable, tmp_path):
    with durable("--snapshot_seconds", "0.02") as cluster:
        client = cluster.client(timeout=30)
        table = client.create_sparse_table("t", dim=64, rule=Adagrad())
        folder = tmp_path / "durable" / "server-0"
        keys = np.arange(20_000)
        pushes = 0

        def in_the_middle():
            nonlocal pushes
            table.push(keys, np.ones((len(keys), 64), np.float32), kind="delta")
            pushes += 1
            return any(folder.glob("*.tmp"))

        for _ in range(3):
            wait_until(in_the_middle)
            crash_and_restart(cluster)
            assert not any(folder.glob("*.tmp"))
            assert len(list(folder.glob("snapshot-*"))) <= 2
            np.testing.assert_array_equal(np.asarray(table.pull(keys)), np.full((len(keys), 64), pushes, np.float32))


def test_a_durable_sync_server_answers_too(durable):
    with durable("--durable_sync") as cluster:
        table = cluster.client().create_sparse_table("t", dim=1, rule=SGD())
        for _ in range(3):
            table.push([1], [[1.0]], kind="delta")
        crash_and_restart(cluster)
        assert float(np.asarray(table.pull([1]))[0, 0]) == 3


def test_settings_without_a_folder_are_refused():
    with pytest.raises(FlotaError, match="name the folder by --durable"):
        LocalCluster(arguments=["--snapshot_mb", "1"]).start()


@pytest.mark.parametrize(
    ("name", "value"),
    [("DURABLE_SYNC", "1"), ("SNAPSHOT_SECONDS", "20"), ("SNAPSHOT_MB", "1"), ("RECOVER_BEFORE_DAMAGE", "1")],
)
def test_an_environment_that_says_how_and_not_where_is_refused(monkeypatch, name, value):
    monkeypatch.setenv(f"FLOTA_{name}", value)
    with pytest.raises(InvalidArgument, match=f"FLOTA_{name}: .* say where by FLOTA_DURABLE_DIR"):
        keep_server(_core.ServerOptions())
    assert from_environment(0, "/data/mine") is not None


def test_the_environment_says_where_and_how_the_servers_of_a_script_are_kept(monkeypatch):
    assert from_environment(0) is None
    monkeypatch.setenv("FLOTA_DURABLE_DIR", "/data/job")
    assert from_environment(3) == Durable("/data/job/server-3")
    monkeypatch.setenv("FLOTA_DURABLE_SYNC", "1")
    monkeypatch.setenv("FLOTA_SNAPSHOT_SECONDS", "20")
    monkeypatch.setenv("FLOTA_SNAPSHOT_MB", "0.5")
    monkeypatch.setenv("FLOTA_RECOVER_BEFORE_DAMAGE", "1")
    options = _core.ServerOptions()
    options.index = 1
    keep_server(options)
    kept = options.durable
    assert (kept.folder, kept.sync, kept.before_damage) == ("/data/job/server-1", True, True)
    assert (kept.snapshot_ms, kept.snapshot_bytes) == (20_000, 1 << 19)
    monkeypatch.setenv("FLOTA_SNAPSHOT_MB", "-1")
    with pytest.raises(InvalidArgument, match="FLOTA_SNAPSHOT_MB=-1"):
        keep_server(options)
