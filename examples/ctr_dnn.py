"""Click-through prediction with a deep network: one table for all ids, 13 counts, three layers of 400.

    python examples/ctr_dnn.py --is_local 1                                       local training
    flota launch --server_num=2 --worker_num=2 examples/ctr_dnn.py                distributed, on this machine
    flota launch --server_num=2 --worker_num=2 examples/ctr_dnn.py --files raw_data/part-* --test_files raw_test/*

Data is generated in the shape of Criteo's click logs unless files are given: each worker reads its share of --files.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch

import flota
from flota.data import Batch, read_criteo
from flota.data.criteo import DENSE, FEATURES
from flota.data.synthetic import Clicks


class CtrDnn(torch.nn.Module):
    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.embedding = flota.nn.EmbeddingCollection(FEATURES, dim, init=flota.initializer.Normal(0.0, 0.01))
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(FEATURES * dim + DENSE, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, 1),
        )

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        rows = self.embedding(ids).flatten(1)
        return self.layers(torch.cat([rows, dense], dim=1)).squeeze(1)


class Data:
    """This worker's part of the training data and of the test data."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.place = (flota.worker_index(), flota.worker_num())
        self.files = flota.util.get_file_shard(sorted(arguments.files))
        if arguments.files and not self.files:
            raise SystemExit(
                f"{len(arguments.files)} files for {flota.worker_num()} workers: worker {self.place[0]} has none"
            )
        self.train_clicks, self.test_clicks = Clicks(arguments.rows, seed=arguments.seed).split()

    def train(self, epoch: int) -> Iterator[Batch]:
        if self.files:
            return read_criteo(self.files, self.arguments.batch_size)
        return self.train_clicks.batches(self.arguments.batch_size, *self.place, epoch)

    def test(self) -> Iterator[Batch]:
        if self.arguments.test_files:
            return read_criteo(self.arguments.test_files, 4096, *self.place)
        return self.test_clicks.batches(4096, *self.place)


def train(model: CtrDnn, optimizer: torch.optim.Optimizer, batches: Iterable[Batch]) -> None:
    loss_of = torch.nn.BCEWithLogitsLoss()
    for step, (dense, ids, label) in enumerate(batches, 1):
        loss = loss_of(model(torch.from_numpy(dense), torch.from_numpy(ids)), torch.from_numpy(label))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0 and flota.is_first_worker():
            print(f"  step {step}: loss {loss.item():.4f}")


@torch.no_grad()
def auc_of(model: CtrDnn, batches: Iterable[Batch]) -> float:
    """Each worker scores its part; the AUC is that of all scores."""
    flota.barrier_worker()  # all workers' last steps count
    model.eval()
    scores, labels = [np.empty(0, np.float32)], [np.empty(0, np.float32)]
    for dense, ids, label in batches:
        scores.append(model(torch.from_numpy(dense), torch.from_numpy(ids)).numpy())
        labels.append(label)
    model.train()
    everybody = [np.concatenate(flota.util.all_gather(np.concatenate(parts))) for parts in (scores, labels)]
    return flota.metrics.roc_auc(*everybody)


def main_function(arguments: argparse.Namespace) -> None:
    # What local and distributed training have in common is all the rest.
    flota.init(flota.LocalRoleMaker() if arguments.is_local else flota.PaddleCloudRoleMaker())

    torch.manual_seed(arguments.seed)
    model = CtrDnn(arguments.dim, arguments.width)
    modes = {"sync": flota.Sync(), "async": flota.Async(), "geo": flota.Geo(k_steps=arguments.k_steps)}
    strategy = flota.DistributedStrategy(modes[arguments.mode])
    optimizer = flota.distributed_optimizer(
        torch.optim.Adagrad(model.parameters(), lr=arguments.learning_rate), strategy
    )
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return

    flota.init_worker()
    data = Data(arguments)
    for epoch in range(arguments.epochs):
        train(model, optimizer, data.train(epoch))
        area = auc_of(model, data.test())
        flota.util.print_on_rank(f"epoch {epoch}: test AUC {area:.4f}", rank=0)
    flota.util.print_on_rank("next: examples/README.md has the other modes and examples", rank=0)
    flota.stop_worker()


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--is_local", type=int, choices=[0, 1], default=0, help="1: one process, whatever started it")
    parser.add_argument("--mode", choices=["sync", "async", "geo"], default="async", help="default: %(default)s")
    parser.add_argument("--k_steps", type=int, default=100, help="geo: steps between exchanges (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=512, help="of each worker (default: %(default)s)")
    parser.add_argument("--learning_rate", type=float, default=0.01, help="of Adagrad (default: %(default)s)")
    parser.add_argument("--dim", type=int, default=10, help="length of a row (default: %(default)s)")
    parser.add_argument("--width", type=int, default=400, help="of each layer (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=400_000, help="generated samples (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", nargs="+", type=Path, default=[], help="train on these, in Criteo's format")
    parser.add_argument("--test_files", nargs="+", type=Path, default=[], help="and test on these")
    arguments = parser.parse_args()
    if bool(arguments.files) != bool(arguments.test_files):
        parser.error("--files and --test_files go together")
    return arguments


if __name__ == "__main__":
    main_function(parse_args())
