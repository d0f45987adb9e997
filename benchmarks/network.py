"""Pulls, pushes and whole training steps over a network: round trips of 0, 10 and 100 ms, and 1% of packets lost.

One server and one worker on two hosts made of network namespaces (tests/engines/hosts.py; it needs root), TLS between
them. Pulls and pushes are of 13,312 rows of 16 floats, one after another and with 1 and 8 under way; training steps
are those of train_ctr.py (26 features, dim 10, 400-400-400, batch 512). "8 ahead" is
``flota.prefetch(…, depth=8)`` with
``flota.Async(thread_pool_size=8, send_queue_size=32, independent_recv_thread=True)``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import train_ctr

import flota
from flota.initializer import Uniform
from flota.rules import Adagrad

ROWS, DIM, BATCH = 1_000_000, 16, 13_312
NETWORKS = {"0 ms": (0.0, 0.0), "10 ms": (10.0, 0.0), "100 ms": (100.0, 0.0), "100 ms, 1% lost": (100.0, 0.01)}
STEPS: dict[str, tuple[Callable[[], Any], int]] = {
    "sync": (flota.Sync, 0),
    "sync, prefetch": (flota.Sync, 1),
    "async": (flota.Async, 0),
    "async, prefetch": (flota.Async, 1),
    "async, 8 ahead": (
        lambda: flota.Async(thread_pool_size=8, send_queue_size=32, independent_recv_thread=True),
        8,
    ),
    "geo": (lambda: flota.Geo(100), 1),
}
UNDER_WAY = (0, 1, 8)  # 0: one call after another, in the caller's thread


def rate(begin: Callable[[torch.Tensor], Any], under_way: int, seconds: float) -> float:
    """Rows a second, of calls of which so many are begun before the first is waited for."""
    generator = torch.Generator().manual_seed(under_way)
    data = [torch.randperm(ROWS, generator=generator)[:BATCH].clone() for _ in range(16)]
    waiting: deque[Any] = deque()
    done, started = -2 * max(under_way, 1), 0.0  # the first ones find out what the network can carry
    while started == 0.0 or time.perf_counter() - started < seconds:
        future = begin(data[done % len(data)])
        if under_way:
            waiting.append(future)
        if len(waiting) > under_way or not under_way:
            if waiting:
                waiting.popleft().result()
            done += 1
            if done == 0:
                started = time.perf_counter()
    return done * BATCH / (time.perf_counter() - started)


def calls(seconds: float) -> dict[str, float]:
    """Rows a second of pulls and pushes."""
    rows = torch.full((BATCH, DIM), 1e-3)
    found = {}
    with flota.Client(flota.server_endpoints()) as client:
        table = client.create_sparse_table("calls", dim=DIM, rule=Adagrad(lr=0.05), init=Uniform(-0.01, 0.01))
        for under_way in UNDER_WAY:
            pull = table.pull_async if under_way else table.pull
            found[f"pull, {under_way} ahead" if under_way else "pull"] = rate(pull, under_way, seconds)
        for under_way in UNDER_WAY:
            push = table.push_async if under_way else table.push
            name = f"push, {under_way} ahead" if under_way else "push"
            found[name] = rate(lambda keys, push=push: push(keys, rows), under_way, seconds)
    return found


def steps(model: torch.nn.Module, optimizer: Any, ahead: int, seconds: float) -> float:
    """Samples a second of training, after a few steps to warm up."""
    data = train_ctr.batches(40, 0)
    loss_of = torch.nn.BCEWithLogitsLoss()

    def forever() -> Iterator[Any]:
        while True:
            yield from data

    done, warm_up, started = 0, 2 * ahead + 6, 0.0
    with contextlib.closing(flota.prefetch(forever(), model, depth=ahead) if ahead else forever()) as batches:
        for dense, ids, label in batches:
            loss = loss_of(model(dense, ids), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            if done == warm_up:
                optimizer.communicator.settle()
                started = time.perf_counter()
            if done > warm_up and time.perf_counter() - started >= seconds:
                break
    optimizer.communicator.settle()  # what is still in the queue counts when it has arrived
    return (done - warm_up) * train_ctr.BATCH / (time.perf_counter() - started)


def work(what: str, seconds: float, out: str) -> None:
    """A process of the job that measures one thing."""
    flota.init()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    make, ahead = STEPS.get(what, STEPS["async"])
    model = train_ctr.Model(flota.nn.EmbeddingCollection(train_ctr.FEATURES, train_ctr.DIM))
    optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.01), make())
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return
    flota.init_worker()
    found = calls(seconds) if what == "calls" else {what: steps(model, optimizer, ahead, seconds)}
    Path(out).write_text(json.dumps(found))
    flota.stop_worker()


def measure(hosts: Any, folder: Path, what: str, seconds: float, number: int) -> dict[str, float]:
    out = folder / f"found-{number}"
    first, second = (f"{host.address}:{6200 + 10 * number}" for host in hosts)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("FLOTA_", "PADDLE_"))},
        "FLOTA_SECRET": "known to the hosts of this benchmark", "FLOTA_CERTS": str(folder / "certs"),
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    launches = [
        host.start(
            [sys.executable, "-m", "flota.launch", f"--servers={first}", f"--workers={second}", "--no_durable",
             f"--log_dir={folder}/log-{number}-{host.name}", __file__, "--work", what, "--seconds", seconds,
             "--out", out],
            env={**environment, "POD_IP": host.address},
        )
        for host in hosts
    ]  # fmt: skip
    for launch in launches:
        if launch.wait(600) != 0:
            sys.exit(launch.output)
    return dict(json.loads(out.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement (default: %(default)s)")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS), metavar="NETWORK")
    parser.add_argument("--only", nargs="+", choices=["calls", *STEPS], default=["calls", *STEPS], metavar="WHAT")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work, arguments.seconds, arguments.out)
        return
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "engines"))
    from hosts import Hosts, missing

    if reason := missing("ethtool"):
        print(f"not measured: {reason}")
        print(json.dumps({"benchmark": "network", "skipped": reason}))
        return
    found: dict[str, dict[str, float]] = {}
    number = 0
    with tempfile.TemporaryDirectory() as temporary, Hosts(Path(temporary), 2) as hosts:
        folder = Path(temporary)
        named = [f"--host={host.address}" for host in hosts]
        command = [sys.executable, "-m", "flota.cli", "certs", str(folder / "certs"), *named]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for network in arguments.networks:
            if any(NETWORKS[network]):
                hosts.slow(hosts[1], *NETWORKS[network])
            found[network] = {}
            for what in arguments.only:
                number += 1
                measured = measure(hosts, folder, what, arguments.seconds, number)
                for name, value in measured.items():
                    unit = "samples/s" if name in STEPS else "rows/s"
                    print(f"{network:16} {name:16} {value:12,.0f} {unit}", flush=True)
                found[network].update(measured)
    print(json.dumps({"benchmark": "network", "found": found}))


if __name__ == "__main__":
    main()
