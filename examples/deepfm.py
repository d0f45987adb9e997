"""DeepFM on click logs: a factorisation machine and a deep network that share the vectors of the ids.

    python examples/deepfm.py                                                     one process, no servers
    flota launch --server_num=1 --worker_num=2 examples/deepfm.py                 the same script, two workers
    flota launch --server_num=1 --worker_num=2 examples/deepfm.py --mode sync

Data is generated in the shape of Criteo's click logs, with a known truth: what there is to reach is printed beside what
is learnt. --files and --test_files name real ones, which the workers share among them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

import torch

import flota
from flota.data import Batch, read_criteo
from flota.data.criteo import DENSE, FEATURES
from flota.data.synthetic import Clicks


class DeepFM(torch.nn.Module):
    """The log-odds of a click as the sum of three parts (Guo and others, 2017), all of the same fields: 26 ids, and 13
    numbers.

    First order: a weight a field. Second order: the dot product of each pair of fields' vectors. Deep: layers over all
    vectors. An id's row is its vector, and its weight behind it, so one pull brings both.
    """

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.rows = flota.nn.EmbeddingCollection(FEATURES, dim + 1, init=flota.initializer.Normal(0.0, 0.01))
        # The same for a number, which multiplies what its field has.
        self.columns = torch.nn.Parameter(torch.randn(DENSE, dim + 1) * 0.01)
        self.bias = torch.nn.Parameter(torch.zeros(1))
        self.layers = torch.nn.Sequential(
            torch.nn.Linear((FEATURES + DENSE) * dim, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, 1),
        )

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        fields = torch.cat([self.rows(ids), dense.unsqueeze(2) * self.columns], dim=1)  # [batch, fields, dim + 1]
        vectors, weights = fields[:, :, :-1], fields[:, :, -1]
        # All pairs' products without going through the pairs: (the square of the sum - the sum of squares) / 2.
        pairs = (vectors.sum(1).square() - vectors.square().sum(1)).sum(1) / 2
        return self.bias + weights.sum(1) + pairs + self.layers(vectors.flatten(1)).squeeze(1)


class Data:
    """This worker's share of the data. Of each generated batch, another worker has another part."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.batch_size = arguments.batch_size
        self.clicks = self.test_clicks = None
        if arguments.files:
            self.train_files = read_criteo(arguments.files, arguments.batch_size, counts="log1p")
            self.test_files = read_criteo(arguments.test_files, 4096, counts="log1p")
        else:
            self.clicks, self.test_clicks = Clicks(
                arguments.rows, seed=arguments.seed, vocabulary=arguments.vocabulary
            ).split()

    def train(self, epoch: int) -> Iterable[Batch]:
        if self.clicks is None:
            return self.train_files
        return self.clicks.batches(self.batch_size, flota.worker_index(), flota.worker_num(), epoch)

    def test(self) -> Iterable[Batch]:
        if self.test_clicks is None:
            return self.test_files
        return self.test_clicks.batches(4096, flota.worker_index(), flota.worker_num())

    def best(self) -> str:
        """What there is to reach, where that is known."""
        return "" if self.test_clicks is None else f" (who knows the truth: {self.test_clicks.bayes_auc():.4f})"


def main() -> None:
    arguments = parse_args()
    flota.init()
    torch.manual_seed(arguments.seed)
    model = DeepFM(arguments.dim, arguments.width)
    modes = {"sync": flota.Sync(), "async": flota.Async(), "geo": flota.Geo(k_steps=arguments.k_steps)}
    flota.distributed_optimizer(
        torch.optim.Adagrad(model.parameters(), lr=arguments.learning_rate), modes[arguments.mode]
    )
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return

    flota.init_worker()
    data = Data(arguments)
    loss = torch.nn.BCEWithLogitsLoss()
    fetches = ["loss", "auc"] if flota.is_first_worker() else []
    for epoch in range(arguments.epochs):
        flota.train_from_dataset(model, data.train(epoch), loss=loss, fetch_list=fetches)
        flota.barrier_worker()  # all workers' last steps count
    # Each worker scores its share; the AUC is that of all scores.
    area = flota.infer_from_dataset(model, data.test(), loss=loss).auc_metric.compute_global()
    if flota.is_first_worker():
        print(f"test AUC {area:.4f}{data.best()}")
        print("next: examples/README.md has the other modes and examples; --help, the settings of this one")
    flota.stop_worker()


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=["sync", "async", "geo"], default="async", help="default: %(default)s")
    parser.add_argument("--k_steps", type=int, default=50, help="geo: steps between exchanges (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=512, help="of each worker (default: %(default)s)")
    parser.add_argument("--learning_rate", type=float, default=0.03, help="of Adagrad (default: %(default)s)")
    parser.add_argument("--dim", type=int, default=8, help="length of a vector (default: %(default)s)")
    parser.add_argument("--width", type=int, default=128, help="of each layer (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=200_000, help="generated samples (default: %(default)s)")
    parser.add_argument("--vocabulary", type=int, default=100_000, help="generated ids (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", nargs="+", default=[], help="train on these files in Criteo's format")
    parser.add_argument("--test_files", nargs="+", default=[], help="and test on these")
    arguments = parser.parse_args()
    if bool(arguments.files) != bool(arguments.test_files):
        parser.error("--files and --test_files go together")
    return arguments


if __name__ == "__main__":
    main()
