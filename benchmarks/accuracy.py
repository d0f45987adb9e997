"""Test AUC after one epoch in each mode, against plain torch on the same data from the same first values.

400,000 generated Criteo-like rows: the first 360,000 to train, 40,000 to test. 26 features into one table, dim 10, 13
dense inputs, 400-400-400. Plain torch and flota alone train with batch 512. Sync: 2 workers with half of each of these
batches, which is the same training. Async and Geo (k_steps=100): 2 workers, each with half of the data in batches of
512. One optimizer and learning rate for all. Bars: sync within 0.001 of plain torch, async and Geo within 0.005.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch

import flota
from flota.data.criteo import DENSE, FEATURES
from flota.data.synthetic import Clicks

DIM, BATCH = 10, 512
INIT = flota.initializer.Normal(0.0, 0.01)

# Name: (workers, each worker's batch, mode, how far the AUC may be from plain torch's).
RUNS: dict[str, tuple[int, int, Callable[[], object] | None, float | None]] = {
    "torch": (0, BATCH, None, None),
    "local": (0, BATCH, flota.Sync, 0.001),
    "sync": (2, BATCH // 2, flota.Sync, 0.001),
    "async": (2, BATCH, flota.Async, 0.005),
    "geo": (2, BATCH, lambda: flota.Geo(k_steps=100), 0.005),
}

OPTIMIZERS = {"Adagrad": torch.optim.Adagrad, "Adam": torch.optim.Adam, "SGD": torch.optim.SGD}


class Model(torch.nn.Module):
    def __init__(self, embedding: torch.nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = embedding
        layers: list[torch.nn.Module] = []
        for before, after in pairwise([FEATURES * DIM + DENSE, 400, 400, 400]):
            layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
        self.deep = torch.nn.Sequential(*layers, torch.nn.Linear(400, 1))

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return self.deep(torch.cat([self.embedding(ids).flatten(1), dense], dim=1)).squeeze(1)


def plain_embedding(rows: int) -> torch.nn.Embedding:
    """torch's own, with the values that flota's rows begin with."""
    table = flota.nn.Embedding(None, DIM, init=INIT, name="ids")
    flota.init(flota.LocalRoleMaker())
    flota.distributed_optimizer(torch.optim.SGD([table.weight], lr=0.0))
    flota.init_worker()
    first = torch.cat([table.pull(keys) for keys in torch.arange(rows).split(1 << 16)])
    return torch.nn.Embedding.from_pretrained(first, freeze=False, sparse=True)


def train(model: Model, optimizers: list[torch.optim.Optimizer], clicks: Clicks, batch: int) -> None:
    loss_of = torch.nn.BCEWithLogitsLoss()
    for dense, ids, label in clicks.batches(batch, flota.worker_index(), flota.worker_num()):
        loss = loss_of(model(dense, ids), label)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()


@torch.no_grad()
def auc_of(model: Model, clicks: Clicks) -> float:
    flota.barrier_worker()
    model.eval()
    batches = list(clicks.batches(4096))
    scores = [model(dense, ids) for dense, ids, _ in batches]
    return flota.metrics.roc_auc(torch.cat(scores), torch.cat([label for _, _, label in batches]))


def worker(name: str, arguments: argparse.Namespace) -> None:
    """One process of one run; worker 0 writes the AUC."""
    _, batch, mode, _ = RUNS[name]
    clicks, held_out = Clicks(arguments.rows, seed=arguments.seed).split(test=0.1)
    make = OPTIMIZERS[arguments.optimizer]
    began = time.perf_counter()
    if mode is None:
        model = Model(plain_embedding(clicks.id_count))
        rows, layers = model.embedding.parameters(), model.deep.parameters()
        # torch's Adam takes no sparse gradients, and would move every row in every step.
        sparse = torch.optim.SparseAdam if arguments.optimizer == "Adam" else make
        optimizers = [sparse(list(rows), lr=arguments.lr), make(layers, lr=arguments.lr)]
        train(model, optimizers, clicks, batch)
    else:
        flota.init()
        model = Model(flota.nn.EmbeddingCollection(FEATURES, DIM, init=INIT, name="ids"))
        optimizer = flota.distributed_optimizer(make(model.parameters(), lr=arguments.lr), mode())
        if flota.is_server():
            flota.init_server()
            flota.run_server()
            return
        flota.init_worker()
        train(model, [optimizer], clicks, batch)
    seconds = time.perf_counter() - began
    area = auc_of(model, held_out)
    if flota.is_first_worker():
        Path(arguments.out).write_text(json.dumps({"auc": area, "seconds": seconds}))
    flota.stop_worker()


def run(name: str, arguments: argparse.Namespace) -> dict[str, float]:
    workers = RUNS[name][0]
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "result.json")
        command = [sys.executable]
        if workers:
            command += ["-m", "flota.launch", "--server_num=1", f"--worker_num={workers}", f"--log_dir={folder}"]
        command += [__file__, "--worker", name, "--out", out]
        for setting in ("rows", "seed", "optimizer", "lr"):
            command += [f"--{setting}", str(getattr(arguments, setting))]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{name} failed:\n{done.stdout}\n{done.stderr}")
        result: dict[str, float] = json.loads(Path(out).read_text())
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--seed", type=int, default=0, help="of the data")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="Adagrad")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--worker", choices=RUNS, help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments)
        return
    best = Clicks(arguments.rows, seed=arguments.seed).split(test=0.1)[1].bayes_auc()
    print(f"{arguments.optimizer}, lr {arguments.lr}; a model that knew the truth would have an AUC of {best:.4f}")
    print(f"{'':8}{'test AUC':>9}{'difference':>12}{'bar':>8}{'seconds':>9}", flush=True)
    results = {}
    for name in arguments.runs:
        results[name] = run(name, arguments)
        bar = RUNS[name][3]
        known = name != "torch" and "torch" in results
        apart_text = f"{results[name]['auc'] - results['torch']['auc']:+.4f}" if known else ""
        print(
            f"{name:8}{results[name]['auc']:9.4f}{apart_text:>12}{'' if bar is None else f'{bar:.3f}':>8}"
            f"{results[name]['seconds']:9.1f}",
            flush=True,
        )
    setting = {"rows": arguments.rows, "optimizer": arguments.optimizer, "lr": arguments.lr, "seed": arguments.seed}
    areas = {name: round(result["auc"], 5) for name, result in results.items()}
    print(json.dumps({"benchmark": "accuracy", **setting, "bayes_auc": round(best, 5), "auc": areas}))


if __name__ == "__main__":
    main()
