"""A job for tests of bad networks: what it ends with tells what was lost, doubled or done in another order.

Each sample is a key of its own in the table "counts", with a gradient of 1: by SGD with a learning rate of 1 its row is
minus the number of times that the servers have learnt from it (in sync and geo divided by the number of workers).
Beside it a small model learns in the ordinary way, so that a run in sync mode can be compared bit for bit with another.
"""

import json
import os
import sys
import time
from pathlib import Path

import flota

FEATURES = 97


def main(settings):
    flota.init()
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return
    out = Path(settings["out"])
    import torch  # a server has no use for it

    torch.set_num_threads(1)
    zero = flota.initializer.Constant(0.0)
    counts = flota.nn.Embedding(None, 1, name="counts", init=zero)
    features = flota.nn.Embedding(None, 8, name="features")
    torch.manual_seed(1)
    head = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(
        [
            {"params": [*counts.parameters()], "lr": 1.0},
            {"params": [*features.parameters(), *head.parameters()], "lr": 0.05},
        ]
    )
    modes = {"sync": flota.Sync(), "async": flota.Async(), "geo": flota.Geo(k_steps=4)}
    optimizer = flota.distributed_optimizer(optimizer, modes[settings["mode"]])
    flota.init_worker()
    model = torch.nn.ModuleList([counts, features, head])
    batches = from_files if settings["files"] else from_memory
    with (out / f"steps.{flota.worker_index()}").open("a", buffering=1) as steps:
        for keys in flota.prefetch(batches(settings), model):
            predicted = head(features(keys % FEATURES)).reshape(-1)
            loss = counts(keys).sum() + torch.nn.functional.mse_loss(predicted, keys % 7 / 7)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps.write(f"{time.time()}\n")
            time.sleep(settings["pace"])  # a larger model
    flota.barrier_worker()
    if flota.is_first_worker():
        tables = {
            "counts": counts.pull(torch.arange(settings["samples"])).reshape(-1).tolist(),
            "features": features.pull(torch.arange(FEATURES)).tolist(),
            "head": [*head.weight.reshape(-1).tolist(), *head.bias.tolist()],
        }
        (out / "result.new").write_text(json.dumps(tables))
        os.rename(out / "result.new", out / "result.json")
    flota.stop_worker()


def from_memory(settings):
    """This worker's batches of all samples, in their order."""
    import torch

    mine = torch.arange(flota.worker_index(), settings["samples"], flota.worker_num())
    yield from torch.split(mine, settings["batch"])


def from_files(settings):
    """The same samples, which workers share by leases."""
    dataset = flota.data.QueueDataset()
    key = flota.data.Slot("key", (1,))
    dataset.init(settings["batch"], 1, use_var=[key], lease_seconds=2.0)
    dataset.set_filelist(settings["files"])
    for batch in dataset:
        yield batch["key"].reshape(-1)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
