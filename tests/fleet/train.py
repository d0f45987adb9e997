"""A user's script for the tests: two tables, one of them used by two features, and dense layers."""

import json
import sys

import numpy as np
import torch

import flota

ROWS, DIM = 40, 4


class Model(torch.nn.Module):
    def __init__(self, users, items):
        super().__init__()
        torch.manual_seed(0)
        self.users, self.items = users, items
        self.deep = torch.nn.Sequential(torch.nn.Linear(3 * DIM, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))

    def forward(self, ids):
        rows = [self.users(ids[:, 0]), self.items(ids[:, 1]), self.items(ids[:, 2])]
        return self.deep(torch.cat(rows, dim=1)).squeeze(1)


def batch_of(step, size):
    """Every row comes in every batch, so that torch's Adam, which moves all rows in every step, does the same."""
    generator = torch.Generator().manual_seed(step)
    order = [torch.randperm(ROWS, generator=generator) for _ in range(2)]
    ids = torch.randint(ROWS, (size * 4, 3), generator=generator)
    ids[:ROWS, 0], ids[:ROWS, 1] = order
    return ids, torch.sin(ids[:, 0]) + torch.cos(ids[:, 1] + 2.0 * ids[:, 2])


def shares(steps, size, rank, world):
    for step in range(steps):
        ids, target = batch_of(step, size)
        share = slice(rank * len(ids) // world, (rank + 1) * len(ids) // world)
        yield ids[share].clone(), target[share]


def make_optimizer(name, parameters):
    return getattr(torch.optim, name)(parameters, lr=0.05)


def plain_torch(optimizer_name, steps, size):
    tables = [torch.nn.Embedding(ROWS, DIM) for _ in range(2)]
    model = Model(*tables)
    with torch.no_grad():
        for table, name in zip(tables, ("users", "items"), strict=True):
            table.weight.copy_(torch.from_numpy(first_rows(name)))
    optimizer = make_optimizer(optimizer_name, model.parameters())
    for step in range(steps):
        ids, target = batch_of(step, size)
        loss = torch.nn.functional.mse_loss(model(ids), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return contents(model, lambda table: table.weight.detach())


def first_rows(name):
    """What rows begin with depends on the table's name and the key only."""
    from flota.communicator.local import LocalStore
    from flota.nn.table import TableOptions

    store = LocalStore(TableOptions(name, DIM, flota.initializer.Uniform(-1, 1)), flota.rules.SGD())
    keys = store.route(torch.arange(ROWS))
    return store.pull(keys, create=False, device=torch.device("cpu"))[keys.places].numpy()


def contents(model, rows):
    result = {name: parameter.detach().numpy().copy() for name, parameter in model.deep.named_parameters()}
    return {**result, "users": rows(model.users).numpy().copy(), "items": rows(model.items).numpy().copy()}


def main(mode, optimizer, steps, batch, out, ahead=0):
    torch.set_num_threads(1)
    flota.init()
    init = flota.initializer.Uniform(-1, 1)
    model = Model(
        flota.nn.Embedding(None, DIM, name="users", init=init), flota.nn.Embedding(None, DIM, name="items", init=init)
    )
    modes = {
        "sync": flota.Sync(),
        "uneven": flota.Sync(),
        "async": flota.Async(),
        "geo": flota.Geo(k_steps=5),
        "uneven geo": flota.Geo(k_steps=4),
    }
    stepper = flota.distributed_optimizer(make_optimizer(optimizer, model.parameters()), modes[mode])
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return
    flota.init_worker()
    rank, world = flota.worker_index(), flota.worker_num()
    if mode.startswith("uneven"):
        steps += rank
    losses = []
    loader = shares(steps, batch, rank, world)
    for ids, target in flota.prefetch(loader, model, depth=ahead) if ahead else loader:
        loss = torch.nn.functional.mse_loss(model(ids), target)
        stepper.zero_grad()
        loss.backward()
        stepper.step()
        losses.append(loss.item())
    sums = [float(flota.all_reduce(steps, how)) for how in ("sum", "min", "max")]
    if flota.is_first_worker():
        flat = torch.arange(ROWS)
        np.savez(f"{out}/result.npz", **contents(model, lambda table: table.pull(flat)), loss=losses, sums=sums)
    flota.stop_worker()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
