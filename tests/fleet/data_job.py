"""A user's script for the tests: trains on files of slot text, and counts how often each sample was trained.

Each sample is a key of its own, and its gradient is 1: with SGD and a learning rate of 1 the row of a key is minus the
number of times that the servers have learnt from it.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch

import flota
from flota.data import QueueDataset, Slot, leases

MODES = {
    "sync": flota.Sync(),
    "async": flota.Async(),
    "bounded": flota.Async(max_staleness=1),
    "geo": flota.Geo(k_steps=7),
}


def rows_of(files):
    return sum(len(Path(file).read_text().splitlines()) for file in files)


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = flota.nn.Embedding(None, 1, name="counts", init=flota.initializer.Constant(0.0))

    def forward(self, batch):
        return self.embedding(batch["key"]).sum()


def role(endpoints, rank, world):
    if endpoints is None:
        return None
    return flota.UserDefinedRoleMaker(
        current_id=rank, role=flota.Role.WORKER, worker_num=world, server_endpoints=endpoints
    )


def main(
    mode,
    files,
    out,
    endpoints=None,
    rank=0,
    world=1,
    epochs=1,
    batch_size=100,
    threads=1,
    sharing=None,
    slow=None,
    dies=None,
    report=1000,
    lease_seconds=2.0,
    save=None,
    load=None,
    prefetch=False,
    trainers=1,
    breaks=None,
    looks=False,
    stays=False,
):
    """``slow``: a worker, and the seconds that each of its steps takes longer. ``breaks``: a worker, and after how many
    batches it ends its first epoch. ``dies``, ``save``: a worker and the
    number of batches after which it is killed, or (path, number) saves and ends. ``stays``: without saying goodbye."""
    torch.set_num_threads(1)
    leases.REPORT_SAMPLES = report
    flota.init(role(endpoints, rank, world))
    model = Counter()
    optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=1.0), MODES[mode])
    if flota.is_server():
        flota.init_server(load)
        flota.run_server()
        return
    flota.init_worker()
    if load and endpoints is None and flota.server_num() == 0:
        flota.load_model(load)
    rank = flota.worker_index()
    dataset = QueueDataset()
    dataset.init(
        batch_size,
        threads,
        use_var=[Slot("key", (1,)), Slot("label", (1,), "float32")],
        sharing=sharing,
        lease_seconds=lease_seconds,
    )
    dataset.set_filelist(files)
    seen, batches = [], 0

    def step(batch):
        nonlocal batches
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()
        seen.extend(batch["key"].reshape(-1).tolist())
        batches += 1
        if slow is not None and slow[0] == rank:
            time.sleep(slow[1])
        if dies is not None and dies == [rank, batches]:
            os.kill(os.getpid(), signal.SIGKILL)
        if save is not None and save[1] == batches:
            flota.save_persistables(save[0])
            finish(model, files, seen, out, rank)
            os._exit(0)

    if looks:
        next(iter(dataset))  # is no epoch
    for epoch in range(epochs):
        if breaks is not None and epoch == 0:
            for number, batch in enumerate(flota.prefetch(dataset, model) if prefetch else dataset, 1):
                step(batch)
                if breaks == [rank, number]:
                    break
        elif trainers > 1:
            result = flota.train_from_dataset(model, dataset, thread_num=trainers)
            seen.append(result.samples)
        elif prefetch:
            flota.train_from_dataset(step, dataset)
        else:
            for batch in dataset:
                step(batch)
    if stays:
        finish(model, files, seen, out, rank)
        os._exit(0)
    flota.barrier_worker()
    finish(model, files, seen, out, rank)
    flota.stop_worker()


def finish(model, files, seen, out, rank):
    keys = torch.arange(rows_of(files))
    counts = -model.embedding.pull(keys)[:, 0].numpy()
    np.savez(f"{out}/result.{rank}.npz", counts=counts, seen=np.array(seen, dtype=np.int64))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
