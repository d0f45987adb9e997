"""Click-through prediction with a deep network: one table for all ids, 13 counts, three layers of 400.

    python examples/ctr_dnn.py --is_local 1                                       local training
    flota launch --server_num=2 --worker_num=2 examples/ctr_dnn.py                distributed, on this machine
    flota launch --server_num=2 --worker_num=2 examples/ctr_dnn.py --files raw_data/part-* --test_files raw_test/*

Data is generated in the shape of Criteo's click logs unless files are given, which the workers share among them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

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
    """The training data and the test data. Of each batch, another worker has another part."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.clicks = Clicks(arguments.rows, seed=arguments.seed).split()
        self.batch_size = arguments.batch_size
        self.files = None
        if arguments.files:
            train = read_criteo(arguments.files, arguments.batch_size, counts="log1p")
            self.files = train, read_criteo(arguments.test_files, 4096, counts="log1p")

    def train(self, epoch: int) -> Iterable[Batch]:
        if self.files:
            return self.files[0]
        return self.clicks[0].batches(self.batch_size, flota.worker_index(), flota.worker_num(), epoch)

    def test(self) -> Iterable[Batch]:
        return self.files[1] if self.files else self.clicks[1].batches(4096, flota.worker_index(), flota.worker_num())


def main_function(arguments: argparse.Namespace) -> None:
    # What local and distributed training have in common is all the rest.
    flota.init(flota.LocalRoleMaker() if arguments.is_local else flota.PaddleCloudRoleMaker())

    torch.manual_seed(arguments.seed)
    model = CtrDnn(arguments.dim, arguments.width)
    modes = {"sync": flota.Sync(), "async": flota.Async(), "geo": flota.Geo(k_steps=arguments.k_steps)}
    strategy = flota.DistributedStrategy(modes[arguments.mode])
    flota.distributed_optimizer(torch.optim.Adagrad(model.parameters(), lr=arguments.learning_rate), strategy)
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return

    flota.init_worker()
    data = Data(arguments)
    loss = torch.nn.BCEWithLogitsLoss()
    fetches = ["loss", "auc"] if flota.is_first_worker() else []
    for epoch in range(arguments.epochs):
        flota.train_from_dataset(
            model, data.train(epoch), loss=loss, fetch_list=fetches, thread_num=arguments.thread_num
        )
        flota.barrier_worker()  # all workers' last steps count
        area = flota.infer_from_dataset(model, data.test(), loss=loss).auc_metric.compute_global()
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
    parser.add_argument("--thread_num", type=int, default=1, help="trainer threads of a worker; not in sync mode")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", nargs="+", type=Path, default=[], help="train on these, in Criteo's format")
    parser.add_argument("--test_files", nargs="+", type=Path, default=[], help="and test on these")
    arguments = parser.parse_args()
    if bool(arguments.files) != bool(arguments.test_files):
        parser.error("--files and --test_files go together")
    return arguments


if __name__ == "__main__":
    main_function(parse_args())
