"""Whole training steps of a click-through model: plain torch, flota alone, and flota with servers on the same cores.

26 features into one table, dim 10, 13 dense inputs, 400-400-400, batch 512, SGD, data from memory; one or two servers
and as many workers in each mode. Bars, of plain torch with two threads: flota alone 0.95; 1 server and 1 worker async
0.85; 2 and 2 async 0.95, sync 0.75.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

FEATURES, DENSE, DIM, BATCH, ROWS = 26, 13, 10, 512, 1_000_000
MODES = ["torch", "local", *(f"{mode} {size}" for size in ("1x1", "2x2") for mode in ("async", "sync", "geo"))]
BARS = {"local": 0.95, "async 1x1": 0.85, "async 2x2": 0.95, "sync 2x2": 0.75}


class Model(torch.nn.Module):
    def __init__(self, embedding: torch.nn.Module) -> None:
        super().__init__()
        self.embedding = embedding
        sizes = [FEATURES * DIM + DENSE, 400, 400, 400]
        layers: list[torch.nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
        self.deep = torch.nn.Sequential(*layers, torch.nn.Linear(400, 1))

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        rows = self.embedding(ids).reshape(len(ids), -1)
        return self.deep(torch.cat([rows, dense], dim=1)).squeeze(1)


class PlainTable(torch.nn.Module):
    """What a torch user would write: one EmbeddingBag with sparse gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(ROWS, DIM, mode="sum", sparse=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.bag(ids.reshape(-1, 1))


def batches(count: int, seed: int) -> list:
    from flota.data.synthetic import Clicks

    data = Clicks(count * BATCH, seed=seed, features=FEATURES, dense=DENSE, vocabulary=ROWS)
    return list(data.batches(BATCH))


def train(model: Model, optimizer: torch.optim.Optimizer, data: list, seconds: float) -> float:
    """Samples a second over the whole time, after a few steps to warm up."""
    loss_of = torch.nn.BCEWithLogitsLoss()
    warm_up = 20
    started = 0.0
    step = 0
    while step <= warm_up or time.perf_counter() - started < seconds:
        dense, ids, label = data[step % len(data)]
        loss = loss_of(model(dense, ids), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step == warm_up:
            started = time.perf_counter()
    return (step - warm_up) * BATCH / (time.perf_counter() - started)


def worker(mode: str, seconds: float, out: str) -> None:
    import flota

    torch.manual_seed(0)
    if mode == "torch":
        torch.set_num_threads(2)
        model = Model(PlainTable())
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        speed = train(model, optimizer, batches(40, 0), seconds)
    else:
        flota.init()
        torch.set_num_threads(2 if flota.worker_num() == 1 else 1)
        model = Model(flota.nn.EmbeddingCollection(FEATURES, DIM))
        strategy = {"sync": flota.Sync(), "geo": flota.Geo(100)}.get(mode.split()[0], flota.Async())
        optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.01), strategy)
        if flota.is_server():
            flota.init_server()
            flota.run_server()
            return
        flota.init_worker()
        data = batches(40, flota.worker_index())
        flota.barrier_worker()
        speed = train(model, optimizer, data, seconds)
        speed = float(flota.all_reduce(speed))
        if not flota.is_first_worker():
            flota.stop_worker()
            return
        Path(out).write_text(json.dumps(speed))
        flota.stop_worker()
        return
    Path(out).write_text(json.dumps(speed))


def run(mode: str, seconds: float, script: str = __file__, *more: str) -> Any:
    """Trains in processes of their own, and returns what they tell: the samples a second."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "speed.json")
        command = [sys.executable]
        if "x" in mode:
            servers, workers = mode.split()[1].split("x")
            command += ["-m", "flota.launch", "--server_num", servers, "--worker_num", workers, "--log_dir", folder]
        command += [script, "--worker", mode, "--seconds", str(seconds), "--out", out, *more]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(Path(out).read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.seconds, arguments.out)
        return
    best = dict.fromkeys(MODES, 0.0)
    for _ in range(arguments.rounds):
        for mode in MODES:
            best[mode] = max(best[mode], run(mode, arguments.seconds))
    for mode in MODES:
        bar = f" (bar {BARS[mode]:.2f})" if mode in BARS else ""
        print(f"{mode:10} {best[mode]:8,.0f} samples/s, {best[mode] / best['torch']:.2f} of plain torch{bar}")
    print(json.dumps({"benchmark": "train_ctr", "samples_a_second": best}))


if __name__ == "__main__":
    main()
