"""The job of the long run: workers learn from keys that never end, until a given time, and write down what they send.

Every key that a step learns from has a gradient of 1 in the table "counts", which goes by SGD with a learning rate of
1: its row is minus the number of steps that the servers have learnt from it. Each worker says in a file of its own
which step it begins (before it pulls) and how many steps are applied for good, so that what is in the tables can be
held against what was sent.
"""

import json
import os
import sys
import time
from pathlib import Path

from soak_steps import BEGINS, CONFIRMED, GOES_ON, keys_of, record

import flota

CONFIRM = 20  # steps


def main(settings):
    out = Path(settings["out"])
    flota.init()
    name = f"server {flota.server_index()}" if flota.is_server() else f"worker {flota.worker_index()}"
    new = out / "pids" / f".{name}.new"
    new.write_text(str(os.getpid()))
    new.rename(out / "pids" / name)
    if flota.is_server():
        flota.init_server()
        flota.run_server()
    else:
        work(out, settings["until"])


def work(out, until):
    import torch

    torch.set_num_threads(1)
    zero = flota.initializer.Constant(0.0)
    counts = flota.nn.Embedding(None, 1, name="counts", init=zero)
    features = flota.nn.Embedding(None, 8, name="features")
    groups = [
        {"params": list(counts.parameters()), "lr": 1.0},
        {"params": list(features.parameters()), "lr": 0.05},
    ]
    optimizer = flota.distributed_optimizer(torch.optim.SGD(groups), flota.Async())
    flota.init_worker()
    restart = flota.restarted()
    step = 0 if restart is None else restart.skip()
    rank = flota.worker_index()
    with (out / f"steps.{rank}.{0 if restart is None else restart.count}").open("ab", buffering=0) as told:
        told.write(record(GOES_ON, step))
        while time.time() < until:
            keys = torch.from_numpy(keys_of(rank, step))
            told.write(record(BEGINS, step))
            optimizer.zero_grad()
            loss = counts(keys).sum() + (features(keys) - 1).square().mean()
            loss.backward()
            optimizer.step()
            step += 1
            if step % CONFIRM == 0:
                told.write(record(CONFIRMED, optimizer.communicator.applied(step)))
        flota.barrier_worker()  # what was sent is applied
        told.write(record(CONFIRMED, step))
        flota.barrier_worker()
    if rank == 0:
        (out / "trained").touch()
    while not (out / "looked").exists():  # who runs this looks at the tables now
        time.sleep(0.05)
    flota.stop_worker()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
