"""Matrix factorisation: how many stars a user gives an item, or which items it likes, by the product of two vectors.

    python examples/matrix_factorisation.py                                                one process, no servers
    flota launch --server_num=1 --worker_num=2 examples/matrix_factorisation.py            the same script, two workers
    flota launch --server_num=1 --worker_num=2 examples/matrix_factorisation.py --loss bpr --mode geo

`--loss squared` predicts the stars, `--loss bpr` (Rendle and others, 2009) ranks what a user gave four stars or more
above other items. Ratings are generated in the shape of MovieLens's, with a known truth: what there is to reach is
printed beside what is learnt. `--ratings ratings.csv` takes MovieLens's own file, or any CSV file with its columns
userId, movieId and rating.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import flota
from flota.data import Csv, Features, Label, QueueDataset, Sparse

Batch = tuple[torch.Tensor, torch.Tensor]  # ids, int64 [B, 2 or 3]; stars, float32 [B]

TEST_EVERY = 10
LIKED = 4


class Factors(torch.nn.Module):
    """What users give items: a mean, what is the user's and the item's own (biases), and the product of their vectors.

    A row is a vector, and its bias behind it: all that a batch needs comes with one pull.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.rows = flota.nn.Embedding(None, dim + 1, init=flota.initializer.Normal(0.0, 0.05))
        self.mean = torch.nn.Parameter(torch.tensor([3.5]))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """``ids``: [B, 1 + items], a user and some items; a number for each of these items."""
        rows = self.rows(ids)
        user, items = rows[:, :1], rows[:, 1:]
        return self.mean + user[..., -1] + items[..., -1] + (user * items)[..., :-1].sum(-1)


def squared(scores: torch.Tensor, stars: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(scores[:, 0], stars)


def bpr(scores: torch.Tensor, stars: torch.Tensor) -> torch.Tensor:
    """How surprising it is that the user likes the first item better than the second."""
    return F.softplus(scores[:, 1] - scores[:, 0]).mean()


class Ratings:
    """Who gave which item how many stars. Every process has all of them, the same, and trains on its part.

    ``truth``: what who knows it gives for the ids of users and items; None where nobody does.
    """

    def __init__(self, ids: np.ndarray, stars: np.ndarray, seed: int, truth: Callable | None = None) -> None:
        self.ids, self.stars, self.seed, self.truth = ids, stars.astype(np.float32), seed, truth
        shuffled = np.random.default_rng([seed, 1]).permutation(len(ids))
        self.train, self.test = np.split(shuffled, [len(ids) - len(ids) // TEST_EVERY])
        _, user = np.unique(ids[:, 0], return_inverse=True)
        items, item = np.unique(ids[:, 1], return_inverse=True)
        self.user, self.item, self.items = user, item, len(items)
        self.liked = stars >= LIKED
        self.liked_pairs = np.sort((user * len(items) + item)[self.liked])

    def ranked(self, places: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """[user, item that it likes, another item] for each of these places that is a liking, and those places. The
        other item is as likely as it is rated, and none that the user likes."""
        places = places[self.liked[places]]
        others = random.integers(len(self.ids), size=len(places))
        wanted = self.user[places] * self.items + self.item[others]
        nearest = np.searchsorted(self.liked_pairs, wanted).clip(max=len(self.liked_pairs) - 1)
        keep = self.liked_pairs[nearest] != wanted
        places, others = places[keep], others[keep]
        return np.concatenate([self.ids[places], self.ids[others, 1:]], axis=1), places

    def batches(self, batch_size: int, epoch: int, loss: Callable) -> Iterator[Batch]:
        """This worker's batches of an epoch. Each worker takes its own part of what each step takes together."""
        random = np.random.default_rng([self.seed, 2, epoch])
        places = random.permutation(self.train)
        ids = self.ids[places]
        if loss is bpr:
            ids, places = self.ranked(places, random)
        together = batch_size * flota.worker_num()
        for begin in range(0, len(ids), together):
            own = slice(begin + flota.worker_index(), begin + together, flota.worker_num())
            if len(ids[own]):
                yield torch.from_numpy(ids[own].copy()), torch.from_numpy(self.stars[places[own]])


def generated(users: int, items: int, rows: int, seed: int) -> Ratings:
    """Some users rate much, some items are rated much. Stars are a mean, a bias for each of both, the product of two
    vectors, and noise; from 1 to 5."""
    random = np.random.default_rng(seed)
    user, item = (
        (users * random.random(rows) ** 1.5).astype(np.int64),
        (items * random.random(rows) ** 2).astype(np.int64),
    )
    # Nobody rates an item twice. Items are numbered after the users: all have their rows in one table.
    ids = np.unique(np.stack([user, users + item], axis=1), axis=0)
    biases = random.normal(0.0, 0.4, users + items)
    vectors = random.normal(0.0, 0.6, (users + items, 4))
    between = np.array([1.5, 2.5, 3.5, 4.5])  # one number of stars and the next

    def level(user: np.ndarray, item: np.ndarray) -> np.ndarray:
        return (3.6 + biases[user] + biases[item] + (vectors[user] * vectors[item]).sum(1))[:, None]

    def expected(user: np.ndarray, item: np.ndarray) -> np.ndarray:
        return 1 + (1 / (1 + np.exp((between - level(user, item)) / 0.3))).sum(1)

    stars = 1 + (level(*ids.T) + random.logistic(0.0, 0.3, (len(ids), 1)) > between).sum(1)
    return Ratings(ids, stars, seed, expected)


def read(path: Path, seed: int) -> Ratings:
    """Ids become hashes of their column and their text: user 1 and item 1 are different rows."""
    dataset = QueueDataset()
    features = Features([Label("rating", binary=False), Sparse("userId"), Sparse("movieId")])
    dataset.init(batch_size=65536, format=Csv(features), sharing="none")
    dataset.set_filelist([path])
    ids, stars = zip(*((batch.ids, batch.label) for batch in dataset), strict=True)
    return Ratings(torch.cat(ids).numpy(), torch.cat(stars).numpy(), seed)


@torch.no_grad()
def test(model: Factors, ratings: Ratings, loss: Callable) -> list[float]:
    """How good the model is, and where it is known how good who knows the truth would be. Each worker tests its share;
    what is told is of all."""
    model.eval()  # ids that training never saw get no rows on the servers
    places = ratings.test[flota.worker_index() :: flota.worker_num()]
    ids = ratings.ids[places]
    if loss is bpr:
        ids, places = ratings.ranked(places, np.random.default_rng([ratings.seed, 3, flota.worker_index()]))

    def quality(scores: np.ndarray) -> float:
        if loss is bpr:
            right = scores[:, 0] > scores[:, 1]
            return flota.metrics.acc(right.sum(), right.size)
        error = flota.metrics.RMSE()
        error.update(scores[:, 0], ratings.stars[places])
        return error.compute_global()

    found = [quality(model(torch.from_numpy(ids)).numpy())]
    if ratings.truth is not None:
        found.append(quality(np.stack([ratings.truth(ids[:, 0], item) for item in ids[:, 1:].T], axis=1)))
    model.train()
    return found


def main() -> None:
    arguments = parse_args()
    flota.init()
    torch.manual_seed(arguments.seed)
    model = Factors(arguments.dim)
    modes = {"sync": flota.Sync(), "async": flota.Async(), "geo": flota.Geo(k_steps=arguments.k_steps)}
    optimizer = flota.distributed_optimizer(
        torch.optim.Adagrad(model.parameters(), lr=arguments.learning_rate, weight_decay=arguments.weight_decay),
        modes[arguments.mode],
    )
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return

    flota.init_worker()
    loss_of = {"squared": squared, "bpr": bpr}[arguments.loss]
    if arguments.ratings is None:
        ratings = generated(arguments.users, arguments.items, arguments.rows, arguments.seed)
    else:
        ratings = read(arguments.ratings, arguments.seed)
    for epoch in range(arguments.epochs):
        losses = []
        # Pulls the next batch's rows while this one computes.
        for ids, stars in flota.prefetch(ratings.batches(arguments.batch_size, epoch, loss_of), model):
            loss = loss_of(model(ids), stars)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if flota.is_first_worker():
            print(f"epoch {epoch}: loss {np.mean(losses):.4f}")
    flota.barrier_worker()  # all workers' last steps count
    found, *best = test(model, ratings, loss_of)
    if flota.is_first_worker():
        what = "test RMSE" if loss_of is squared else "pairs in the right order"
        print(f"{what} {found:.4f}" + "".join(f" (who knows the truth: {each:.4f})" for each in best))
        print("next: examples/README.md has the other modes and examples; --help, the settings of this one")
    flota.stop_worker()


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=["sync", "async", "geo"], default="async", help="default: %(default)s")
    parser.add_argument("--k_steps", type=int, default=20, help="geo: steps between exchanges (default: %(default)s)")
    parser.add_argument("--loss", choices=["squared", "bpr"], default="squared", help="default: %(default)s")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch_size", type=int, default=1024, help="of each worker (default: %(default)s)")
    parser.add_argument("--learning_rate", type=float, default=0.1, help="of Adagrad (default: %(default)s)")
    parser.add_argument("--weight_decay", type=float, default=1e-4, help="of rows in the batch (default: %(default)s)")
    parser.add_argument("--dim", type=int, default=8, help="length of a vector (default: %(default)s)")
    parser.add_argument("--users", type=int, default=3000, help="generated (default: %(default)s)")
    parser.add_argument("--items", type=int, default=1000, help="generated (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=300_000, help="generated ratings, at most (default: %(default)s)")
    parser.add_argument("--ratings", type=Path, help="a CSV file with columns userId, movieId and rating")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
