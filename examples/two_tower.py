"""Two-tower retrieval: a vector for each user, one for each item, and the nearest items are what the user takes next.

    python examples/two_tower.py                                                  one process, no servers
    flota launch --server_num=1 --worker_num=2 examples/two_tower.py              the same script, two workers
    flota launch --server_num=1 --worker_num=2 examples/two_tower.py --mode sync

The other items of a batch are what a user did not take. Popular items are among them more often than others, which the
loss corrects (`--plain`: without that). Tested by recall: for how many users the one item that was kept back is among
the best K of all items. Data is generated, so that the recall of who knows the truth can be told beside it; `--taken`
names a CSV file of your own, such as MovieLens's ratings.csv.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

import flota
from flota.data import Csv, Features, QueueDataset, Sparse


class Tower(torch.nn.Module):
    """From the ids of a user or of an item, one a feature, to its vector."""

    def __init__(self, name: str, features: list[str], dim: int, width: int) -> None:
        super().__init__()
        self.rows = flota.nn.EmbeddingCollection(features, dim, init=flota.initializer.Normal(0.0, 0.1), name=name)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(len(features) * dim, width), torch.nn.ReLU(), torch.nn.Linear(width, dim)
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        rows = self.rows(ids)
        # Around the layers there is a way for the rows themselves, which learns faster.
        return rows.sum(1) + self.layers(rows.flatten(1))


class Batch(NamedTuple):
    users: torch.Tensor  # int64 [B, 2]: the user, and its group
    items: torch.Tensor  # int64 [B, 2]: the item that it took, and its kind
    log_chance: torch.Tensor  # float32 [B]: of the item to be drawn into a batch


class TwoTower(torch.nn.Module):
    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.user = Tower("users", ["user", "group"], dim, width)
        self.item = Tower("items", ["item", "kind"], dim, width)

    def forward(self, batch: Batch) -> torch.Tensor:
        """The loss: of all items in the batch, a user should score the one highest that it took.

        An item is among the others as often as it is popular: what would be learnt is how much more this user likes it
        than others do. Less the logarithm of its chance to be there, it is how likely the user takes it (Yi and others,
        2019).
        """
        scores = self.user(batch.users) @ self.item(batch.items).T - batch.log_chance
        item = batch.items[:, 0]
        also_taken = (item == item.unsqueeze(1)).fill_diagonal_(False)  # the same item, taken by another user
        return F.cross_entropy(scores.masked_fill(also_taken, -torch.inf), torch.arange(len(item)))


class Taken:
    """Which users took which items; users and items are numbered. Every process has all of it, and trains on its part.

    Of each user's items one is kept back to test with. ``truth``: for users, the logarithm of the chance of each item,
    up to a constant; None where nobody knows it.
    """

    def __init__(
        self, pairs: np.ndarray, group: np.ndarray, kind: np.ndarray, seed: int, truth: np.ndarray | None = None
    ) -> None:
        self.group, self.kind, self.seed, self.truth = group, kind, seed, truth
        pairs = np.random.default_rng([seed, 1]).permutation(pairs)
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        first = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))
        first = first[np.diff(first, append=len(pairs)) > 1]  # who has one item alone trains with it
        self.tested, self.kept_back = pairs[first].T
        self.pairs = np.delete(pairs, first, axis=0)
        self.counts = np.bincount(self.pairs[:, 1], minlength=len(kind))

    def users(self, users: np.ndarray) -> torch.Tensor:
        """Ids for the tower: groups are numbered after the users, for they share a table."""
        return torch.from_numpy(np.stack([users, len(self.group) + self.group[users]], axis=1))

    def items(self, items: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.stack([items, len(self.kind) + self.kind[items]], axis=1))

    def batches(self, batch_size: int, epoch: int, plain: bool) -> Iterator[Batch]:
        """This worker's batches of an epoch. Each worker takes its own part of what each step takes together."""
        log_chance = np.log(np.maximum(self.counts, 1) / len(self.pairs)).astype(np.float32) * (not plain)
        pairs = np.random.default_rng([self.seed, 2, epoch]).permutation(self.pairs)
        for begin in range(0, len(pairs), batch_size * flota.worker_num()):
            together = pairs[begin : begin + batch_size * flota.worker_num()]
            users, items = together[flota.worker_index() :: flota.worker_num()].T
            if len(users):
                yield Batch(self.users(users), self.items(items), torch.from_numpy(log_chance[items]))

    def found(self, scores: np.ndarray, tested: np.ndarray, k: int) -> int:
        """Of how many of these tested users the item that was kept back is among the best k, less those they have."""
        users = self.tested[tested]
        begin, end = np.searchsorted(self.pairs[:, 0], [users[0], users[-1] + 1])
        has = self.pairs[begin:end][np.isin(self.pairs[begin:end, 0], users)]
        scores = scores.copy()
        scores[np.searchsorted(users, has[:, 0]), has[:, 1]] = -np.inf
        kept_back = np.take_along_axis(scores, self.kept_back[tested, None], axis=1)
        return int(((scores > kept_back).sum(1) < k).sum())


def generated(users: int, items: int, each: int, seed: int) -> Taken:
    """A user takes an item with a chance in proportion to its popularity times exp(taste · character), and none twice.
    Users of a group have similar tastes, items of a kind similar characters."""
    random = np.random.default_rng(seed)
    group, kind = random.integers(12, size=users), random.integers(30, size=items)
    taste = random.normal(0.0, 0.8, (12, 8))[group] + random.normal(0.0, 0.5, (users, 8))
    character = random.normal(0.0, 0.8, (30, 8))[kind] + random.normal(0.0, 0.5, (items, 8))
    log_chance = taste @ character.T - np.log(random.permutation(items) + 10.0)
    # The places of the highest sums with Gumbel noise are so many draws without replacement.
    drawn = np.argpartition(log_chance + random.gumbel(size=(users, items)), items - each, axis=1)[:, items - each :]
    pairs = np.stack([np.repeat(np.arange(users), each), drawn.ravel()], axis=1)
    return Taken(pairs, group, kind, seed, log_chance.astype(np.float32))


def read(path: Path, seed: int) -> Taken:
    """Nothing but ids is known here: all users are of one group, and all items of one kind."""
    dataset = QueueDataset()
    dataset.init(batch_size=65536, format=Csv(Features([Sparse("userId"), Sparse("movieId")])), sharing="none")
    dataset.set_filelist([path])
    ids = torch.cat([batch.ids for batch in dataset]).numpy()
    users, user = np.unique(ids[:, 0], return_inverse=True)
    items, item = np.unique(ids[:, 1], return_inverse=True)
    if len(users) == len(ids):
        raise SystemExit(f"{path}: each user has one item, so that none could be kept back to test with")
    return Taken(np.stack([user, item], axis=1), np.zeros_like(users), np.zeros_like(items), seed)


@torch.no_grad()
def recalls(model: TwoTower, taken: Taken, k: int) -> list[float]:
    """The share of users whose item is found: by the model, by popularity alone, and where it is known by who knows the
    truth. Each worker looks at its share of the users, among all items."""
    model.eval()  # ids that training never saw get no rows on the servers
    items = model.item(taken.items(np.arange(len(taken.kind))))
    own = np.arange(len(taken.tested))[flota.worker_index() :: flota.worker_num()]
    counts = np.zeros(3 if taken.truth is None else 4)
    for tested in (own[begin : begin + 512] for begin in range(0, len(own), 512)):
        users = taken.tested[tested]
        scores = (model.user(taken.users(users)) @ items.T).numpy()
        rankings = [scores, np.broadcast_to(taken.counts.astype(np.float32), scores.shape)]
        if taken.truth is not None:
            rankings.append(taken.truth[users])
        counts += [len(users), *(taken.found(ranking, tested, k) for ranking in rankings)]
    model.train()
    total, *found = flota.all_reduce(counts)
    return [each / total for each in found]


def main() -> None:
    arguments = parse_args()
    flota.init()
    torch.manual_seed(arguments.seed)
    model = TwoTower(arguments.dim, arguments.width)
    modes = {"sync": flota.Sync(), "async": flota.Async(), "geo": flota.Geo(k_steps=arguments.k_steps)}
    optimizer = flota.distributed_optimizer(
        torch.optim.Adagrad(model.parameters(), lr=arguments.learning_rate), modes[arguments.mode]
    )
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return

    flota.init_worker()
    if arguments.taken is None:
        taken = generated(arguments.users, arguments.items, arguments.each, arguments.seed)
    else:
        taken = read(arguments.taken, arguments.seed)
    for epoch in range(arguments.epochs):
        losses = []
        batches = taken.batches(arguments.batch_size, epoch, arguments.plain)
        for batch in flota.prefetch(batches, model):  # pulls the next batch's rows while this one computes
            loss = model(batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if flota.is_first_worker():
            print(f"epoch {epoch}: loss {np.mean(losses):.4f}")
    flota.barrier_worker()  # all workers' last steps count
    found, popular, *best = recalls(model, taken, arguments.k)
    if flota.is_first_worker():
        print(f"recall@{arguments.k} by popularity alone {popular:.4f}")
        print(f"recall@{arguments.k} {found:.4f}" + "".join(f" (who knows the truth: {each:.4f})" for each in best))
        print("next: examples/README.md has the other modes and examples; --help, the settings of this one")
    flota.stop_worker()


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=["sync", "async", "geo"], default="async", help="default: %(default)s")
    parser.add_argument("--k_steps", type=int, default=20, help="geo: steps between exchanges (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=512, help="of each worker (default: %(default)s)")
    parser.add_argument("--learning_rate", type=float, default=0.1, help="of Adagrad (default: %(default)s)")
    parser.add_argument("--dim", type=int, default=16, help="length of a vector (default: %(default)s)")
    parser.add_argument("--width", type=int, default=64, help="of the layers (default: %(default)s)")
    parser.add_argument("--users", type=int, default=4000, help="generated (default: %(default)s)")
    parser.add_argument("--items", type=int, default=2000, help="generated (default: %(default)s)")
    parser.add_argument("--each", type=int, default=30, help="items that each user takes (default: %(default)s)")
    parser.add_argument("--k", type=int, default=50, help="how many items are retrieved (default: %(default)s)")
    parser.add_argument("--plain", action="store_true", help="without the correction for popular items")
    parser.add_argument("--taken", type=Path, help="a CSV file with columns userId and movieId")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if not 1 < arguments.each < arguments.items:
        parser.error("--each must be 2 or more, for one is kept back, and less than --items")
    return arguments


if __name__ == "__main__":
    main()
