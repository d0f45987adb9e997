"""Wide & deep on click logs: every id has a weight of its own (wide) and a vector for the layers (deep).

    python examples/wide_and_deep.py                                              one process, no servers
    flota launch --server_num=1 --worker_num=2 examples/wide_and_deep.py          the same script, two workers
    flota launch --server_num=1 --worker_num=2 examples/wide_and_deep.py --mode sync

Data is generated in the shape of Criteo's click logs, unless --files and --test_files name real ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable

import torch

import flota
from flota.data import Batch, read_criteo
from flota.data.criteo import DENSE, FEATURES
from flota.data.synthetic import Clicks


class WideDeep(torch.nn.Module):
    """The rows of both tables live on the servers; which ids there are, nobody needs to know beforehand."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.wide = flota.nn.EmbeddingCollection(FEATURES, 1, init=flota.initializer.Constant(0.0), name="wide")
        self.deep = flota.nn.EmbeddingCollection(FEATURES, dim, init=flota.initializer.Normal(0.0, 0.01), name="deep")
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(FEATURES * dim + DENSE, 128),
            torch.nn.ReLU(),
            torch.nn.Linear(128, 64),
            torch.nn.ReLU(),
            torch.nn.Linear(64, 1),
        )

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        deep = self.layers(torch.cat([self.deep(ids).flatten(1), dense], dim=1))
        return (self.wide(ids).sum(1) + deep).squeeze(1)


def batches(arguments: argparse.Namespace) -> tuple[Callable[[int], Iterable[Batch]], Callable[[], Iterable[Batch]]]:
    """This worker's share of the data to train on in an epoch, and to test on."""
    if arguments.files:
        train = read_criteo(arguments.files, arguments.batch_size, counts="log1p")
        test = read_criteo(arguments.test_files, 4096, counts="log1p")
        return lambda epoch: train, lambda: test
    place = (flota.worker_index(), flota.worker_num())
    first, second = Clicks(arguments.rows, seed=arguments.seed).split()
    return lambda epoch: first.batches(arguments.batch_size, *place, epoch), lambda: second.batches(4096, *place)


@torch.no_grad()
def test_auc(model: WideDeep, data: Iterable[Batch]) -> float:
    """Each worker scores its share; the AUC is that of all scores."""
    flota.barrier_worker()  # all workers' last steps count
    model.eval()  # ids that training never saw get no rows on the servers
    auc = flota.metrics.Auc()
    for dense, ids, label in data:
        auc.update(model(dense, ids).sigmoid(), label)
    model.train()
    return auc.compute_global()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=["sync", "async", "geo"], default="async", help="default: %(default)s")
    parser.add_argument("--k_steps", type=int, default=20, help="geo: steps between exchanges (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=256, help="of each worker (default: %(default)s)")
    parser.add_argument("--learning_rate", type=float, default=0.03, help="of Adagrad (default: %(default)s)")
    parser.add_argument("--dim", type=int, default=8, help="length of a vector (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=200_000, help="generated samples (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", nargs="+", default=[], help="train on these files in Criteo's format")
    parser.add_argument("--test_files", nargs="+", default=[], help="and test on these")
    arguments = parser.parse_args()
    if bool(arguments.files) != bool(arguments.test_files):
        parser.error("--files and --test_files go together")

    flota.init()
    torch.manual_seed(arguments.seed)
    model = WideDeep(arguments.dim)
    modes = {"sync": flota.Sync(), "async": flota.Async(), "geo": flota.Geo(k_steps=arguments.k_steps)}
    optimizer = flota.distributed_optimizer(
        torch.optim.Adagrad(model.parameters(), lr=arguments.learning_rate), modes[arguments.mode]
    )
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return

    flota.init_worker()
    train, test = batches(arguments)
    loss_of = torch.nn.BCEWithLogitsLoss()
    auc = flota.metrics.Auc(window=100)  # of the last 100 batches, each scored before it was learnt from
    for epoch in range(arguments.epochs):
        for step, (dense, ids, label) in enumerate(train(epoch), 1):
            scores = model(dense, ids)
            loss = loss_of(scores, label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            auc.update(scores.detach().sigmoid(), label)
            if step % 20 == 0:
                flota.log_metrics(auc=auc.compute_window())  # for whoever looks on: flota launch, flota top
            if step % 100 == 0 and flota.is_first_worker():
                print(f"epoch {epoch}, step {step}: loss {loss.item():.4f}, AUC {auc.compute_window():.4f}")
    area = test_auc(model, test())
    if flota.is_first_worker():
        print(f"test AUC {area:.4f}")
        print("next: examples/README.md has the other modes and examples; --help, the settings of this one")
    flota.stop_worker()


if __name__ == "__main__":
    main()
