"""word2vec: skip-gram with negative sampling, on the shards that prepare.py has made.

    python examples/word2vec/prepare.py
    python examples/word2vec/train.py                                             one process, no servers
    flota launch --server_num=1 --worker_num=2 examples/word2vec/train.py --mode geo

Worker i of n reads the shards whose number modulo n is i. Both tables of vectors live on the servers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

import flota


class SkipGram(torch.nn.Module):
    """A word's vector should agree with those of the words around it, and not with those of random words."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        init = flota.initializer.Uniform(-0.5 / dim, 0.5 / dim)
        self.words = flota.nn.Embedding(None, dim, init=init, name="words")
        self.context = flota.nn.Embedding(None, dim, init=init, name="context")

    def forward(self, centre: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        """The loss of words [B] and others [B, 1 + negatives], of which the first stood near and the rest did not."""
        logits = torch.einsum("bd,bod->bo", self.words(centre), self.context(others))
        near = torch.zeros_like(logits)
        near[:, 0] = 1.0
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, near, reduction="none").sum(1).mean()


def own_shards(folder: Path, kind: str) -> list[Path]:
    """This worker's shards, by their number: the way for any number of files."""
    files = sorted(folder.glob(f"{kind}.txt-*"))
    return [file for file in files if int(file.name.split("-")[1]) % flota.worker_num() == flota.worker_index()]


class Reader:
    """Pairs of words that stand near each other, and random words beside them."""

    def __init__(self, dictionary: dict[str, list], window: int, negatives: int, batch_size: int, seed: int) -> None:
        self.numbers = {word: number for number, word in enumerate(dictionary["words"])}
        self.window, self.negatives, self.batch_size = window, negatives, batch_size
        frequency = np.array(dictionary["counts"], dtype=np.float64)
        # Chances of random words, as word2vec has them; the sum up to each of them, to draw by.
        self.chances = np.cumsum(frequency**0.75 / (frequency**0.75).sum())
        # Very common words say little: they are passed over the more often the commoner they are.
        share = frequency / frequency.sum()
        self.keep = np.minimum(1.0, np.sqrt(1e-2 / share))
        self.random = np.random.default_rng([seed, flota.worker_index()])

    def batches(self, shards: list[Path]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for shard in shards:
            centre, near = self._pairs(shard)
            order = self.random.permutation(len(centre))
            for begin in range(0, len(order), self.batch_size):
                some = order[begin : begin + self.batch_size]
                drawn = np.searchsorted(self.chances, self.random.random((len(some), self.negatives)))
                others = np.concatenate([near[some, None], np.minimum(drawn, len(self.chances) - 1)], axis=1)
                yield torch.from_numpy(centre[some]), torch.from_numpy(others)

    def _pairs(self, shard: Path) -> tuple[np.ndarray, np.ndarray]:
        words, sentence = [], []
        for number, line in enumerate(shard.read_text(encoding="utf-8").splitlines()):
            known = [self.numbers[word] for word in line.split() if word in self.numbers]
            words += known
            sentence += [number] * len(known)
        ids, where = np.array(words, dtype=np.int64), np.array(sentence, dtype=np.int64)
        kept = self.random.random(len(ids)) < self.keep[ids]
        ids, where = ids[kept], where[kept]
        pairs = []
        for distance in range(1, self.window + 1):
            together = where[:-distance] == where[distance:]
            left, right = ids[:-distance][together], ids[distance:][together]
            pairs += [(left, right), (right, left)]
        centre, near = (np.concatenate(side) for side in zip(*pairs, strict=True))
        return centre, near


@torch.no_grad()
def test_loss(model: SkipGram, batches: Iterator[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """The loss on all workers' test shards."""
    model.eval()
    losses = [(model(centre, others).item() * len(centre), len(centre)) for centre, others in batches]
    model.train()
    total, pairs = flota.all_reduce(np.array(losses).reshape(-1, 2).sum(0))
    return float(total / pairs)


def nearest_words(model: SkipGram, among: int) -> torch.Tensor:
    """For each of the commonest words, the number of the one whose vector has the least angle to its own."""
    vectors = torch.nn.functional.normalize(model.words.pull(torch.arange(among)), dim=1)
    alike = vectors @ vectors.T
    alike.fill_diagonal_(-1.0)
    return alike.argmax(1)


def report(model: SkipGram, dictionary: dict[str, list], among: int = 500) -> None:
    words = dictionary["words"][:among]
    nearest = nearest_words(model, len(words))
    for number in range(3):
        print(f"nearest to {words[number]}: {words[nearest[number]]}")
    if dictionary["topics"] is not None:
        topics = torch.tensor(dictionary["topics"][: len(words)])
        shared = (topics == topics[nearest]).float().mean()
        print(f"nearest neighbours with the same topic: {shared:.4f} (by chance {1 / len(topics.unique()):.4f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("word2vec_data"), help="what prepare.py wrote to")
    parser.add_argument("--mode", choices=["sync", "async", "geo"], default="async", help="default: %(default)s")
    parser.add_argument("--k_steps", type=int, default=50, help="geo: steps between exchanges (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=1024, help="pairs, of each worker (default: %(default)s)")
    parser.add_argument("--learning_rate", type=float, default=0.1, help="of Adagrad (default: %(default)s)")
    parser.add_argument("--dim", type=int, default=32, help="length of a vector (default: %(default)s)")
    parser.add_argument("--window", type=int, default=4, help="how near is near (default: %(default)s)")
    parser.add_argument("--negatives", type=int, default=5, help="random words a pair (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    flota.init()
    model = SkipGram(arguments.dim)
    modes = {"sync": flota.Sync(), "async": flota.Async(), "geo": flota.Geo(k_steps=arguments.k_steps)}
    optimizer = flota.distributed_optimizer(
        torch.optim.Adagrad(model.parameters(), lr=arguments.learning_rate), modes[arguments.mode]
    )
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return

    if not (arguments.data / "word_dict.json").exists():
        raise SystemExit(f"there is no {arguments.data / 'word_dict.json'}: run examples/word2vec/prepare.py first")
    dictionary = json.loads((arguments.data / "word_dict.json").read_text())
    reader = Reader(dictionary, arguments.window, arguments.negatives, arguments.batch_size, arguments.seed)
    flota.init_worker()
    step = 0
    for _ in range(arguments.epochs):
        for centre, others in reader.batches(own_shards(arguments.data, "train")):
            loss = model(centre, others)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 200 == 0 and flota.is_first_worker():
                print(f"step {step}: loss {loss.item():.4f}")
    flota.barrier_worker()  # all workers' last steps count
    loss = test_loss(model, reader.batches(own_shards(arguments.data, "test")))
    if flota.is_first_worker():
        print(f"test loss {loss:.4f}")
        report(model, dictionary)
        print("next: examples/README.md has the other modes and examples; prepare.py --corpus takes a text of yours")
    flota.stop_worker()


if __name__ == "__main__":
    main()
