"""A user's script for the tests: trains from a step to another, beginning with a checkpoint and ending with one."""

import json
import sys
from pathlib import Path

import numpy as np
import torch

import flota

sys.path.insert(0, str(Path(__file__).parents[1] / "fleet"))
from train import DIM, ROWS, Model, batch_of, contents

OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.05),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.05),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.05, amsgrad=True),
    "SparseAdam": lambda parameters: torch.optim.SparseAdam(parameters, lr=0.05),
}


def main(optimizer, first, last, out, load=None, save=None, how="servers", mode="sync", min_block_size=8192):
    torch.set_num_threads(1)
    flota.init()
    init = flota.initializer.Uniform(-1, 1)
    model = Model(
        flota.nn.Embedding(None, DIM, name="users", init=init), flota.nn.Embedding(None, DIM, name="items", init=init)
    )
    with torch.no_grad():  # what is loaded must not depend on what the model began with
        for parameter in model.deep.parameters():
            parameter.add_(1.0 if load else 0.0)
    strategy = flota.DistributedStrategy(
        {"sync": flota.Sync(), "async": flota.Async()}[mode], min_block_size=min_block_size
    )
    stepper = flota.distributed_optimizer(OPTIMIZERS[optimizer](list(model.parameters())), strategy)
    if flota.is_server():
        flota.init_server(load if how == "servers" else None)
        flota.run_server()
        return
    flota.init_worker()
    if load and how == "workers":
        flota.load_model(load)
    rank, world = flota.worker_index(), flota.worker_num()
    for step in range(first, last):
        ids, target = batch_of(step, 16)
        share = slice(rank * len(ids) // world, (rank + 1) * len(ids) // world)
        loss = torch.nn.functional.mse_loss(model(ids[share]), target[share])
        stepper.zero_grad()
        loss.backward()
        stepper.step()
    if save:
        flota.save_persistables(save)
    flota.barrier_worker()
    if flota.is_first_worker():
        flat = torch.arange(ROWS)
        np.savez(f"{out}/result.npz", steps=stepper.steps, **contents(model, lambda table: table.pull(flat)))
    flota.stop_worker()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
