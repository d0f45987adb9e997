"""A user's script for the tests of async training: what each worker did when, and what came of it."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from train import DIM, ROWS, Model, batch_of, contents, make_optimizer

import flota


def main(mode, optimizer, steps, batch, out, dense_dtype="float32", slow=None, uneven=0):
    """``mode``: settings of Async. ``slow``: a worker, and the seconds that each of its steps takes longer. ``uneven``:
    how many more steps each worker has than the one before it."""
    torch.set_num_threads(1)
    flota.init()
    init = flota.initializer.Uniform(-1, 1)
    model = Model(
        flota.nn.Embedding(None, DIM, name="users", init=init), flota.nn.Embedding(None, DIM, name="items", init=init)
    )
    strategy = flota.DistributedStrategy(flota.Async(**mode), dense_dtype=dense_dtype)
    stepper = flota.distributed_optimizer(make_optimizer(optimizer, model.parameters()), strategy)
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return
    flota.init_worker()
    rank, world = flota.worker_index(), flota.worker_num()
    losses, finished, returned = [], [], []
    for step in range(steps + rank * uneven):
        ids, target = batch_of(step, batch)
        share = slice(rank * len(ids) // world, (rank + 1) * len(ids) // world)
        loss = torch.nn.functional.mse_loss(model(ids[share]), target[share])
        stepper.zero_grad()
        loss.backward()
        if slow is not None and slow[0] == rank:
            time.sleep(slow[1])
        finished.append(time.monotonic())
        stepper.step()
        returned.append(time.monotonic())
        losses.append(loss.item())
    flota.barrier_worker()
    stale = flota.staleness()
    Path(out, f"times.{rank}").write_text(json.dumps({"finished": finished, "returned": returned}))
    if flota.is_first_worker():
        flat = torch.arange(ROWS)
        tables = {f"staleness/{name}": [table.mean, table.max, table.count] for name, table in stale.tables.items()}
        everything = {"staleness": [stale.mean, stale.max, stale.count], **tables}
        np.savez(f"{out}/result.npz", **contents(model, lambda table: table.pull(flat)), loss=losses, **everything)
    flota.stop_worker()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
