"""DLRM: numbers and ids meet as vectors of one length, and their dot products go on to the layers above.

    python examples/dlrm.py                                                       one process, no servers
    flota launch --server_num=1 --worker_num=2 examples/dlrm.py                   the same script, two workers
    flota launch --server_num=1 --worker_num=2 examples/dlrm.py --mode sync

Data is generated, with a known truth: visits to shops, each with counts, ids, and the items that were looked at before,
any number of them. The same from CSV files, which have the columns of FEATURES, and which the workers share among them:

    python examples/dlrm.py --write visits
    python examples/dlrm.py --files visits/train-* --test_files visits/test-*
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch

import flota
from flota.data import Batch, Csv, Dense, Features, Label, QueueDataset, Sparse

# For files with other columns change this, and nothing else. An item in a history is the same as where it stands alone.
FEATURES = Features(
    [
        Label("click"),
        *(Dense(name, log1p=True) for name in ("price", "views", "orders", "days")),
        *(Sparse(name) for name in ("user", "shop", "item")),
        Sparse("history", many="|", space="item"),
    ]
)


class Dlrm(torch.nn.Module):
    """Naumov and others, 2019. The vectors of all features are in one table: one pull brings those of a batch. Several
    ids of a sample are pooled on the way, as ``torch.nn.EmbeddingBag`` does it."""

    def __init__(self, features: Features, dim: int, width: int) -> None:
        super().__init__()
        init = flota.initializer.Normal(0.0, 0.01)
        self.vectors = flota.nn.EmbeddingCollection(features.sparse, dim, mode="mean", init=init)
        self.bottom = torch.nn.Sequential(
            torch.nn.Linear(len(features.dense), width), torch.nn.ReLU(), torch.nn.Linear(width, dim), torch.nn.ReLU()
        )
        fields = 1 + len(features.sparse)
        self.register_buffer("pairs", torch.tril_indices(fields, fields, offset=-1), persistent=False)
        self.top = torch.nn.Sequential(
            # ids stand beside their products: by those alone an id's own weight could only come through other vectors
            torch.nn.Linear(fields * dim + self.pairs.shape[1], width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, width // 2),
            torch.nn.ReLU(),
            torch.nn.Linear(width // 2, 1),
        )

    def forward(self, dense: torch.Tensor, ids: dict[str, torch.Tensor]) -> torch.Tensor:
        vectors = torch.cat([self.bottom(dense).unsqueeze(1), self.vectors(ids)], dim=1)  # [batch, fields, dim]
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([vectors.flatten(1), products], dim=1)).squeeze(1)


class Visits:
    """Generated visits, the same in every process.

    What is planted, as the log-odds of a click: a weight for each count and for each id, and how near the item is to
    what was looked at before: the dot product of its vector and the mean of theirs. Low numbers are the commonest.
    """

    LONGEST = 8  # history

    def __init__(self, rows: int, users: int, shops: int, items: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        sizes = {"user": users, "shop": shops, "item": items}
        # In one table equal ids have the same row, so a feature's ids follow those of the one before it.
        self.offsets = {"item": 0, "user": items, "shop": items + users}
        weights = {name: random.normal(0.0, 0.5, size) for name, size in sizes.items()}
        tastes = random.normal(size=(20, 4))[random.integers(20, size=items)]  # of twenty kinds
        tastes += random.normal(0.0, 0.2, tastes.shape)

        counts = random.geometric(0.1, (rows, len(FEATURES.dense))) - 1
        self.counts = counts
        self.ids = {name: (size * random.random(rows) ** 2).astype(np.int64) for name, size in sizes.items()}
        self.lengths = random.integers(self.LONGEST + 1, size=rows)
        self.ends = self.lengths.cumsum()
        self.history = (items * random.random(self.ends[-1]) ** 2).astype(np.int64)

        sums = np.concatenate([np.zeros((1, 4)), tastes[self.history].cumsum(0)])
        means = (sums[self.ends] - sums[self.ends - self.lengths]) / np.maximum(self.lengths, 1)[:, None]
        score = np.log1p(counts) @ random.normal(0.0, 0.3, counts.shape[1])
        score += sum(weights[name][ids] for name, ids in self.ids.items())
        score += (means * tastes[self.ids["item"]]).sum(1)
        self.chances = 1.0 / (1.0 + np.exp(score.mean() + 1.0 - score))
        self.clicks = (random.random(rows) < self.chances).astype(np.float32)

    def batches(
        self, batch_size: int, begin: int, end: int, order: np.random.Generator | None = None
    ) -> Iterator[Batch]:
        """This worker's batches of the rows from ``begin`` to ``end``. The workers' batches of a step are together that
        of one process with as many times the batch size."""
        together = batch_size * flota.worker_num()
        steps = np.arange(begin, end, together)
        for step in steps if order is None else order.permutation(steps):
            first = step + batch_size * flota.worker_index()
            last = min(first + batch_size, step + together, end)
            if first < last:  # at the end some workers may have a batch less
                yield self.batch(first, last)

    def batch(self, first: int, last: int) -> Batch:
        rows = slice(first, last)
        ids: dict[str, torch.Tensor | tuple[torch.Tensor, torch.Tensor]] = {
            name: torch.from_numpy(ids[rows] + self.offsets[name]) for name, ids in self.ids.items()
        }
        starts = self.ends[rows] - self.lengths[rows]
        history = self.history[starts[0] : self.ends[last - 1]]
        ids["history"] = torch.from_numpy(history), torch.from_numpy(starts - starts[0])
        dense = torch.from_numpy(np.log1p(self.counts[rows]).astype(np.float32))
        return Batch(dense, ids, torch.from_numpy(self.clicks[rows]))

    def write(self, path: Path, first: int, last: int) -> None:
        """As CSV with a header."""
        with path.open("w", encoding="ascii") as file:
            file.write(",".join(column.name for column in FEATURES.columns) + "\n")
            for row in range(first, last):
                ids = [ids[row] for ids in self.ids.values()]
                history = "|".join(map(str, self.history[self.ends[row] - self.lengths[row] : self.ends[row]]))
                file.write(",".join(map(str, [int(self.clicks[row]), *self.counts[row], *ids, history])) + "\n")


class Data:
    """This worker's share of what to train on and to test on."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        sizes = arguments.rows, arguments.users, arguments.shops, arguments.items
        self.visits = None if arguments.files else Visits(*sizes, arguments.seed)
        self.kept = arguments.rows * 9 // 10

    def train(self, epoch: int) -> Iterable[Batch]:
        if self.visits is None:
            return self.read(self.arguments.files, self.arguments.batch_size)
        order = np.random.default_rng([self.arguments.seed, epoch])
        return self.visits.batches(self.arguments.batch_size, 0, self.kept, order)

    def test(self) -> Iterable[Batch]:
        if self.visits is None:
            return self.read(self.arguments.test_files, 4096)
        return self.visits.batches(4096, self.kept, self.arguments.rows)

    def best(self) -> str:
        """What there is to reach, where that is known."""
        if self.visits is None:
            return ""
        area = flota.metrics.roc_auc(self.visits.chances[self.kept :], self.visits.clicks[self.kept :])
        return f" (who knows the truth: {area:.4f})"

    def write(self, folder: Path, files: int = 4) -> None:
        assert self.visits is not None
        folder.mkdir(parents=True, exist_ok=True)
        for kind, begin, end in (("train", 0, self.kept), ("test", self.kept, self.arguments.rows)):
            ends = [begin + (end - begin) * number // files for number in range(files + 1)]
            for number in range(files):
                self.visits.write(folder / f"{kind}-{number}", ends[number], ends[number + 1])

    @staticmethod
    def read(files: list[Path], batch_size: int) -> QueueDataset:
        dataset = QueueDataset()
        dataset.init(batch_size, format=Csv(FEATURES))
        dataset.set_filelist(files)
        return dataset


def train(arguments: argparse.Namespace) -> None:
    flota.init()
    torch.manual_seed(arguments.seed)
    model = Dlrm(FEATURES, arguments.dim, arguments.width)
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
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=256, help="of each worker (default: %(default)s)")
    parser.add_argument("--learning_rate", type=float, default=0.1, help="of Adagrad (default: %(default)s)")
    parser.add_argument("--dim", type=int, default=8, help="length of a vector (default: %(default)s)")
    parser.add_argument("--width", type=int, default=64, help="of the layers (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=200_000, help="generated samples (default: %(default)s)")
    parser.add_argument("--users", type=int, default=1000, help="generated (default: %(default)s)")
    parser.add_argument("--shops", type=int, default=50, help="generated (default: %(default)s)")
    parser.add_argument("--items", type=int, default=200, help="generated (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", nargs="+", type=Path, default=[], help="train on these CSV files")
    parser.add_argument("--test_files", nargs="+", type=Path, default=[], help="and test on these")
    parser.add_argument("--write", type=Path, help="write the generated samples to this folder, and train nothing")
    arguments = parser.parse_args()
    if bool(arguments.files) != bool(arguments.test_files):
        parser.error("--files and --test_files go together")
    if arguments.files and arguments.write:
        parser.error("--write writes generated samples: it does not go with --files")
    return arguments


if __name__ == "__main__":
    given = parse_args()
    if given.write:
        Data(given).write(given.write)
    else:
        train(given)
