"""A user's script for the tests: a worker that ends itself by SIGKILL at chosen points, and is started again.

It trains two epochs, by a plain loop or from files, with a barrier and a save after each, and writes what the tables
have then.
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch

import flota
from flota.data import QueueDataset, Slot

MODES = {
    "sync": flota.Sync(),
    "async": flota.Async(),
    "bounded": flota.Async(max_staleness=2),
    "geo": flota.Geo(k_steps=3),
}
KEYS, DIM, BATCH, STEPS, LR = 32, 3, 10, 6, 0.0625


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.rows = flota.nn.Embedding(None, DIM, name="rows", init=flota.initializer.Uniform(-1, 1))
        self.counts = flota.nn.Embedding(None, 1, name="counts", init=flota.initializer.Constant(0.0))
        self.deep = torch.nn.Linear(DIM, 1)

    def loss(self, keys, target):
        """The gradient of a key's count is how often it came."""
        predicted = self.deep(self.rows(keys)).squeeze(-1)
        return torch.nn.functional.mse_loss(predicted, target) + self.counts(keys).sum()


class Death:
    """At its point, after so many times there: one for each time that this worker is started, as long as there are
    some."""

    def __init__(self, out, rank, points):
        died = len(list(Path(out).glob(f"died.{rank}.*")))
        self.mark = Path(out) / f"died.{rank}.{died}"
        self.point, self.after = points[died] if died < len(points) else (None, 0)

    def __call__(self, point):
        if point != self.point:
            return
        self.after -= 1
        if self.after < 0:
            self.mark.write_text(point)
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner, name, before=None, after=None):
        """Dies before or after a call of this method."""
        method = getattr(owner, name)

        def dies(*args, **kwargs):
            if before:
                self(before)
            result = method(*args, **kwargs)
            if after:
                self(after)
            return result

        setattr(owner, name, dies)


def watch(death, optimizer):
    communicator = optimizer.communicator
    if hasattr(communicator, "_push"):
        death.around(communicator, "_push", before="before push", after="between push and finish")
    death.around(communicator, "step", after="after finish")
    client = flota.fleet.fleet._client
    death.around(client, "gather", before="before barrier", after="after barrier")


def plain_batches(rank, epoch, steps):
    generator = torch.Generator().manual_seed(1000 * rank + epoch)
    for _ in range(steps):
        keys = torch.randint(KEYS, (BATCH,), generator=generator)
        yield keys, torch.sin(keys.float())


def file_batches(dataset):
    for batch in dataset:
        yield batch["key"].reshape(-1), batch["label"].reshape(-1)


def main(
    mode,
    out,
    endpoints,
    rank,
    world,
    files=None,
    threads=1,
    steps=STEPS,
    points=(),
    optimizer="Adam",
    skips=False,
    in_full=False,
):
    """``points``: where it dies, and after how many times there. ``skips``: it does not compute what it did before.
    ``in_full``: it begins with vectors, shrinks its table and loads what it has saved, too."""
    torch.set_num_threads(1)
    flota.init(
        flota.UserDefinedRoleMaker(
            current_id=rank, role=flota.Role.WORKER, worker_num=world, server_endpoints=endpoints
        )
    )
    model = Model()
    chosen = getattr(torch.optim, optimizer)(model.parameters(), lr=LR)
    trained = flota.distributed_optimizer(chosen, MODES[mode])
    flota.init_worker()
    death = Death(out, rank, points)
    watch(death, trained)
    dataset = QueueDataset()
    dataset.init(BATCH, threads, use_var=[Slot("key", (1,)), Slot("label", (1,), "float32")], lease_seconds=2.0)
    if files:
        dataset.set_filelist(files)

    def step(batch):
        keys, target = batch
        trained.zero_grad()
        model.loss(keys, target).backward()
        trained.step()

    if in_full:
        flota.load_vectors(model.rows, torch.arange(4), torch.ones(4, DIM))
    done = flota.restarted().skip() if skips and flota.restarted() else 0
    losses = []
    for epoch in range(2):
        if files and epoch == 0:
            flota.train_from_dataset(
                lambda batch: step((batch["key"].reshape(-1), batch["label"].reshape(-1))), dataset
            )
        else:
            source = file_batches(dataset) if files else plain_batches(rank, epoch, steps)
            for number, batch in enumerate(source, epoch * steps):
                if number >= done:
                    step(batch)
                # By steps: a count of batches begins anew where the data set goes on.
                if files and mode == "sync" and trained.steps in (12, 14):
                    flota.all_reduce([trained.steps])
                    death("within an epoch")
        if skips:
            continue
        losses.append(float(flota.all_reduce([rank + epoch])[0]))
        flota.save_persistables(f"{out}/saved")
        death("after save")
        if in_full:
            losses.append(flota.shrink(min_norm=0.8, tables=["rows"]))
            flota.load_model(f"{out}/saved")
            losses.append(flota.shrink(min_norm=0.7, tables=["rows"]))
    flota.barrier_worker()
    keys = torch.arange(KEYS)
    np.savez(
        f"{out}/result.{rank}.npz",
        rows=model.rows.pull(keys).numpy(),
        counts=model.counts.pull(keys).numpy()[:, 0],
        deep=model.deep.weight.detach().numpy(),
        losses=losses,
        steps=trained.steps,
        restarts=0 if flota.restarted() is None else flota.restarted().count,
    )
    flota.stop_worker()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
