"""A factorisation machine on generated clicks, trained through two real server processes.

Every id of every field has a row on the servers: one weight and `FACTORS` factors. A step pulls the rows of its batch,
lets torch work out the gradient, and pushes it back; the next batch's rows are pulled meanwhile. Run: make demo
"""

from __future__ import annotations

import argparse
import time

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from flota.initializer import Normal
from flota.rules import Adagrad
from flota.testing import LocalCluster

FIELDS = 12
IDS_A_FIELD = 1_000
FACTORS = 7


class Clicks:
    """Samples of one id a field, popular ids more often, and clicks drawn from a hidden factorisation machine."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.ids_chance = torch.arange(1, IDS_A_FIELD + 1, dtype=torch.float64).pow(-1.05)
        self.hidden = torch.randn(FIELDS * IDS_A_FIELD, 1 + FACTORS, generator=generator) * 0.35
        self.generator = generator

    def draw(self, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys ``int64 [samples, FIELDS]`` and clicks ``float32 [samples]``."""
        ids = torch.multinomial(self.ids_chance, samples * FIELDS, replacement=True, generator=self.generator)
        keys = ids.reshape(samples, FIELDS) + torch.arange(FIELDS) * IDS_A_FIELD
        chance = torch.sigmoid(score(self.hidden[keys]) - 1.0)
        return keys, torch.bernoulli(chance, generator=self.generator)


def score(rows: torch.Tensor) -> torch.Tensor:
    """The machine's logit for rows ``[samples, FIELDS, 1 + FACTORS]``."""
    weights, factors = rows[..., 0], rows[..., 1:]
    pairs = factors.sum(1).square() - factors.square().sum(1)
    return weights.sum(1) + 0.5 * pairs.sum(1)


def auc(scores: torch.Tensor, clicks: torch.Tensor) -> float:
    """The chance that a click scores higher than a non-click."""
    ranks = torch.empty(len(scores), dtype=torch.float64)
    ranks[scores.argsort()] = torch.arange(1, len(scores) + 1, dtype=torch.float64)
    positives = int(clicks.sum())
    negatives = len(clicks) - positives
    return float((ranks[clicks > 0].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=2, help="server processes (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=1000, help="training steps (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=1024, help="samples a step (default: %(default)s)")
    arguments = parser.parse_args()

    console = Console()
    clicks = Clicks(seed=1)
    test_keys, test_clicks = clicks.draw(20_000)
    with LocalCluster(servers=arguments.servers) as cluster:
        console.print(f"{arguments.servers} servers: {', '.join(cluster.endpoints)}")
        table = cluster.client().create_sparse_table(
            "ids", dim=1 + FACTORS, rule=Adagrad(lr=0.1), init=Normal(0.0, 0.05), seed=7
        )

        def logits(keys: torch.Tensor) -> torch.Tensor:
            rows = table.pull(keys.reshape(-1), create=False)
            return score(rows.reshape(len(keys), FIELDS, -1))

        untrained = auc(logits(test_keys), test_clicks)
        progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]:>7,.0f} samples/s  loss {task.fields[loss]:.4f}"),
            TimeRemainingColumn(),
            console=console,
        )
        started = time.perf_counter()
        with progress:
            bar = progress.add_task("", total=arguments.steps, speed=0.0, loss=0.0)
            keys, labels = clicks.draw(arguments.batch)
            ahead = table.pull_async(keys.reshape(-1))
            pushed = None
            for step in range(1, arguments.steps + 1):
                rows = ahead.result().requires_grad_()
                next_keys, next_labels = clicks.draw(arguments.batch)
                ahead = table.pull_async(next_keys.reshape(-1))
                loss = torch.nn.functional.binary_cross_entropy_with_logits(
                    score(rows.reshape(arguments.batch, FIELDS, -1)) - 1.0, labels
                )
                loss.backward()
                pushed = table.push_async(keys.reshape(-1), rows.grad)
                keys, labels = next_keys, next_labels
                speed = step * arguments.batch / (time.perf_counter() - started)
                progress.update(bar, advance=1, speed=speed, loss=loss.item())
            if pushed is not None:
                pushed.result()
        ahead.result()

        console.print(f"rows on the servers: {table.rows():,}")
        for server in cluster.client().statistics():
            counts = server.tables["ids"]
            console.print(f"  {server.endpoint}: {counts['rows']:,} rows, {counts['bytes'] / 1e6:.1f} MB")
        best = auc(score(clicks.hidden[test_keys]), test_clicks)
        console.print(
            f"held-out AUC: {auc(logits(test_keys), test_clicks):.4f}"
            f"  (untrained {untrained:.4f}, the model that drew the clicks {best:.4f})"
        )


if __name__ == "__main__":
    main()
