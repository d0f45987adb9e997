"""A user's script for the tests: a table that admits keys by what is seen of them, and is shrunk now and then."""

import json
import sys

import numpy as np
import torch

import flota

ROWS, DIM, BATCH = 400, 4, 48
ADMISSIONS = {
    "count": flota.admission.Count(3),
    "probability": flota.admission.Probability(0.3),
    "score": flota.admission.ShowClick(threshold=1.5),
}


class Model(torch.nn.Module):
    def __init__(self, admission):
        super().__init__()
        torch.manual_seed(0)
        self.table = flota.nn.EmbeddingCollection(3, DIM, name="items", admission=admission)
        self.deep = torch.nn.Linear(3 * DIM, 1)

    def forward(self, ids):
        return self.deep(self.table(ids).flatten(1)).squeeze(1)


def batch_of(step):
    generator = torch.Generator().manual_seed(step)
    # Few keys come often, most seldom.
    ids = (torch.rand(BATCH, 3, generator=generator) ** 3 * ROWS).long()
    return ids, (ids[:, 0] % 3 == 0).float()


def main(mode, admission, steps, out, shrinks=0):
    torch.set_num_threads(1)
    flota.init()
    model = Model(ADMISSIONS[admission])
    modes = {
        "sync": flota.Sync(),
        "async": flota.Async(),
        "merged": flota.Async(max_merge_var_num=4),
        "geo": flota.Geo(),
    }
    optimizer = flota.distributed_optimizer(torch.optim.Adagrad(model.parameters(), lr=0.1), modes[mode])
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return
    flota.init_worker()
    rank, world = flota.worker_index(), flota.worker_num()
    removed = []
    for step in range(steps):
        ids, clicked = batch_of(step)
        share = slice(rank * BATCH // world, (rank + 1) * BATCH // world)
        ids, clicked = ids[share].clone(), clicked[share].clone()
        with flota.nn.shown(clicks=clicked):
            logits = model(ids)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, clicked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if shrinks and (step + 1) % shrinks == 0:
            removed.append(flota.shrink(max_age=1))
            if admission == "score":
                removed.append(flota.shrink(min_score=0.5, decay=0.7))
    flota.barrier_worker()
    rows = model.table.pull(torch.arange(ROWS)).numpy().copy()
    np.savez(f"{out}/result-{rank}.npz", rows=rows, removed=removed, weight=model.deep.weight.detach().numpy().copy())
    flota.stop_worker()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
