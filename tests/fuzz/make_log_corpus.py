"""Writes corpus/log: what servers keep of small jobs that do everything a log can tell. After a change of the format:

python tests/fuzz/make_log_corpus.py
"""

import secrets
import shutil
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from flota import _core
from flota.admission import ShowClick
from flota.arrays import address
from flota.eras import Shrinking
from flota.errors import DeadlineExceeded
from flota.rules import SGD, Adagrad, Lamb
from flota.testing import LocalCluster

CORPUS = Path(__file__).parent / "corpus" / "log"
TIME = 10_000
SHORT = 50  # milliseconds: long enough to be heard, and nobody comes
GRADIENT = _core.PushKind.gradient
WORLD = 2


def together(clients, call):
    """Each worker's call, at the same time."""
    threads = [threading.Thread(target=call, args=(client, rank)) for rank, client in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def alone(call):
    try:
        call()
    except DeadlineExceeded:
        return
    raise AssertionError("somebody else came")


def push(table, options):
    keys, values = np.array([1, 2], np.uint64), np.ones((2, table.dim), np.float32)
    table._session.native.push(table._table, address(keys), 2, address(values), options, TIME)


def rows(clients):
    client = clients[0]
    plain = client.create_sparse_table("rows", dim=2, rule=Adagrad())
    shown = client.create_sparse_table("shown", dim=1, rule=SGD(), admission=ShowClick(threshold=0.15, waiting=1024))
    dense = client.create_dense_table("dense", shape=6, rule=SGD())
    plain.pull([5, 6])
    plain.push([1, 2], np.ones((2, 2), np.float32), step=1)
    shown.push([1], [[1.0]], step=1)
    shown.push([1, 2], [[1.0], [1.0]], step=1)
    dense.push(np.ones(6, np.float32), step=1)
    plain.stand(begin=2, mark=1, keep_since=1)
    plain.shrink(Shrinking(max_age=1), 3)
    shown.shrink(Shrinking(decay=0.5), 3)


def steps(clients):
    """Sync: steps that are over, one that waits for the other worker, and what it pushed for it."""
    table = [client.create_sparse_table("rows", dim=1, rule=SGD()) for client in clients]
    whole = [client.create_dense_table("whole", shape=4, rule=Lamb()) for client in clients]
    group = _core.hash_name("steps")

    def step(client, rank, number, ms=TIME):
        options = _core.PushOptions(GRADIENT, 0.1, 1.0, number, group, rank)
        push(table[rank], options)
        values = np.ones(4, np.float32)
        part = (whole[rank]._table, address(values), 4, 0.0, _core.Storage.float32, 0)
        client.native.push_dense([part], options, TIME)
        client.native.finish_step("steps", number, number + 1, rank, WORLD, 2.0, False, True, ms, b"position")

    for number in range(2):
        together(clients, lambda client, rank, number=number: step(client, rank, number))
    alone(lambda: step(clients[0], 0, 2, SHORT))


def meetings(clients):
    """Workers that are started, gather, and count their steps."""
    for rank, client in enumerate(clients):
        client.native.rejoin(rank, WORLD, TIME)
        client.native.note_steps(3 + rank, 0, 0, TIME, b"a place")
    for word in (b"a", b""):
        together(clients, lambda client, rank, word=word: client.native.gather("all", rank, WORLD, word, TIME))
    alone(lambda: clients[1].native.gather("some", 1, WORLD, b"brings", SHORT))
    for step in range(3):
        together(clients, lambda client, rank, at=step: client.native.advance("clock", at, 4, rank, WORLD, False, TIME))
    clients[0].native.advance("clock", 3, 4, 0, WORLD, False, TIME, True)


def team(clients):
    """Workers that come and go, and come to what goes by their number."""
    tell, part = clients[0].native.team, _core.TeamPart
    tell(part.join, TIME, 0, 1)
    tell(part.scale, TIME, workers=3)
    for rank in (1, 2):
        tell(part.join, TIME, rank, 3)
    tell(part.scale, TIME, workers=2)
    tell(part.leave, TIME, 2)
    tell(part.pin, TIME, 1, why="data that is shared by number")


def data(clients):
    """Pieces of data that are handed out, done and given back, and letters that were read and were not."""

    def lease(rank, call, take, progress=()):
        native = clients[rank].native
        return native.lease("pass", 0, 4, rank, WORLD, call, 60_000, rank, WORLD, take, progress, TIME)

    for rank in range(WORLD):
        _, _, shard, offset, _ = lease(rank, 1, True)
        lease(rank, 2, True, [(shard, offset + 5, 0)])
    for number in range(3):
        clients[0].native.send("mail", 0, 1, WORLD, number, number == 2, b"letter %d" % number, TIME)
    clients[1].native.receive("mail", 1, WORLD, 0, TIME)
    clients[1].native.receive("mail", 1, WORLD, 1, TIME)


def changes(clients):
    """Geo: who has heard of which changes."""
    tables = [client.create_sparse_table("rows", dim=1, rule=SGD()) for client in clients]
    versions = [[0], [0]]
    for _ in range(3):
        for rank, (client, table) in enumerate(zip(clients, tables, strict=True)):
            push(table, _core.PushOptions(_core.PushKind.delta, 0.0, 1.0, 0, 1, rank))
            _, versions[rank] = client.native.changes(table._table, rank, versions[rank], TIME)


def restored(folder):
    """A server that was given a parameter of a checkpoint, and nobody has asked for it yet."""
    options = _core.ServerOptions()
    options.endpoint, options.index, options.count = "127.0.0.1:0", 0, 1
    options.secret = secrets.token_hex()
    options.durable.folder = str(folder)
    server = _core.Server.make(options)
    spec = _core.TableSpec()
    spec.name, spec.kind, spec.shape, spec.rule = "dense", _core.TableKind.dense, [4], Adagrad().to_native()
    weights, state = np.ones(4, np.float32), np.full(4, 2, np.float32)
    server.restore_parameter(spec, address(weights), 4, address(state), 4, 3, 3)
    server.restored(5, 3)
    server.listen()
    server.stop()
    shutil.copy(min(folder.glob("**/snapshot-*[0-9]")), CORPUS / "restored.snapshot")


def write(job):
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "server-0"
        with LocalCluster(1, durable=folder, arguments=["--snapshot_seconds", "1"]) as cluster:
            clients = [cluster.client(worker=rank + 1, epoch=1) for rank in range(WORLD)]
            job(clients)
            shutil.copy(found / "log-1", CORPUS / f"{job.__name__}.log")
            deadline = time.monotonic() + 20
            while not (snapshots := sorted(found.glob("snapshot-*[0-9]"))):
                assert time.monotonic() < deadline, f"no snapshot came of {job.__name__}"
                time.sleep(0.02)
            shutil.copy(snapshots[0], CORPUS / f"{job.__name__}.snapshot")


if __name__ == "__main__":
    for job in (rows, steps, meetings, team, data, changes):
        write(job)
    with tempfile.TemporaryDirectory() as folder:
        restored(Path(folder))
