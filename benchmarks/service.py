"""Pulls through a server on the same host, against the table in this process plus one copy of the rows.

Bars: one client's pull of 13,312 distinct keys x 16 floats reaches 0.6 of that; four clients together scale until the
cores are full.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable

import numpy as np
import torch

from flota import _core
from flota.client import Client
from flota.initializer import Uniform
from flota.rules import Adagrad
from flota.testing import LocalCluster

BATCH = 13_312
DIM = 16
TABLE = {"dim": DIM, "rule": Adagrad(lr=0.05), "init": Uniform(-0.01, 0.01), "seed": 7}


def batches(rows: int, count: int, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randperm(rows, generator=generator)[:BATCH].clone() for _ in range(count)]


class InProcess:
    """The same table without a server: keys in the order a client sends them, then one copy of the rows."""

    def __init__(self, rows: int) -> None:
        spec = _core.TableSpec()
        spec.name, spec.dim, spec.seed = "bench", DIM, 7
        spec.rule, spec.init = TABLE["rule"].to_native(), TABLE["init"].to_native()
        self.table = _core.SparseTable(spec)
        self.rows = torch.empty(BATCH, DIM)
        self.copy = torch.empty(BATCH, DIM)
        for first in range(0, rows, BATCH):
            self.pull(torch.arange(first, first + BATCH))

    def pull(self, keys: torch.Tensor) -> None:
        self.table.pull(keys.data_ptr(), BATCH, self.rows.data_ptr(), True)
        self.copy.copy_(self.rows)


def by_shard(keys: torch.Tensor) -> torch.Tensor:
    shards = np.array([_core.shard_of(int(key)) for key in keys])
    return keys[torch.from_numpy(np.argsort(shards, kind="stable"))]


def timed(body: Callable[[torch.Tensor], object], data: list[torch.Tensor]) -> float:
    started = time.perf_counter()
    for keys in data:
        body(keys)
    return (time.perf_counter() - started) / len(data)


def one_client(cluster: LocalCluster, rows: int, rounds: int) -> dict[str, dict[str, float]]:
    data = batches(rows, 24, seed=1)
    ordered = [by_shard(keys) for keys in data]
    local = InProcess(rows)
    out = torch.empty(BATCH, DIM)
    pulls: dict[str, Callable[[torch.Tensor], object]] = {}
    for transport in ("shared_memory", "unix", "tcp"):
        table = cluster.client(transport=transport).create_sparse_table("bench", **TABLE)
        pulls[transport] = lambda keys, table=table: table.pull(keys, out=out)
    for first in range(0, rows, BATCH):
        pulls["shared_memory"](torch.arange(first, first + BATCH))
    best = dict.fromkeys(["in_process", *pulls], float("inf"))
    for _ in range(rounds):
        best["in_process"] = min(best["in_process"], timed(local.pull, ordered))
        for transport, pull in pulls.items():
            best[transport] = min(best[transport], timed(pull, data))
    return {
        name: {"microseconds": seconds * 1e6, "ratio": best["in_process"] / seconds} for name, seconds in best.items()
    }


def _pull_for(
    endpoints: list[str], secret: str, rows: int, seed: int, start: float, until: float, queue: object
) -> None:
    torch.set_num_threads(1)
    data = batches(rows, 8, seed)
    out = torch.empty(BATCH, DIM)
    with Client(endpoints, secret=secret) as client:
        table = client.create_sparse_table("bench", **TABLE)
        table.pull(data[0], out=out)
        while time.time() < start:
            time.sleep(0.001)
        count = 0
        while time.time() < until:
            table.pull(data[count % len(data)], out=out)
            count += 1
    queue.put(count)  # type: ignore[attr-defined]


def several_clients(cluster: LocalCluster, rows: int, clients: int, seconds: float) -> float:
    """Pulls a second of so many client processes together."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    start = time.time() + 6 + clients
    workers = [
        context.Process(
            target=_pull_for, args=(cluster.endpoints, cluster.secret, rows, seed, start, start + seconds, queue)
        )
        for seed in range(clients)
    ]
    for worker in workers:
        worker.start()
    total = sum(queue.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join()
    return total / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=3.0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with LocalCluster(servers=1) as cluster:
        single = one_client(cluster, arguments.rows, arguments.rounds)
        for name, result in single.items():
            print(f"{name:14} {result['microseconds']:7.1f} µs a pull, {result['ratio']:.2f} of in-process (bar 0.60)")
        together = {}
        for clients in (1, 2, 4):
            together[clients] = several_clients(cluster, arguments.rows, clients, arguments.seconds)
            print(f"{clients} clients: {together[clients]:8,.0f} pulls/s, {together[clients] / together[1]:.2f}x one")
    print(json.dumps({"benchmark": "service", "bar": 0.6, "one_client": single, "pulls_a_second": together}))


if __name__ == "__main__":
    main()
