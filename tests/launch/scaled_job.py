"""A user's script for the tests of workers that come and go: each sample is a key of its own, whose gradient is 1, so
that its row is minus the number of times that the servers have learnt from it.

Batches are slow until the file ``hurry`` is there.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

import flota
from flota.data import QueueDataset, Slot

ROWS = 4000


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = flota.nn.Embedding(None, 1, name="counts", init=flota.initializer.Constant(0.0))

    def forward(self, batch):
        return self.embedding(batch["key"]).sum()


def take_time(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end and not Path("hurry").exists():
        time.sleep(0.005)


def main(pace, max_staleness=None, epochs=2):
    torch.set_num_threads(1)
    flota.init()
    model = Counter()
    optimizer = flota.distributed_optimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), flota.Async(max_staleness=max_staleness)
    )
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return
    flota.init_worker()
    dataset = QueueDataset()
    variables = [Slot("key", (1,)), Slot("label", (1,), "float32")]
    dataset.init(25, 1, use_var=variables, lease_seconds=2.0)
    dataset.set_filelist(sorted(map(str, Path("data").iterdir())))
    seen, numbers, totals = 0, [flota.worker_num()], []
    for _ in range(epochs):
        for batch in dataset:
            optimizer.zero_grad()
            model(batch).backward()
            optimizer.step()
            seen += len(batch["key"])
            if flota.worker_num() != numbers[-1]:
                numbers.append(flota.worker_num())
                Path(f"numbers.{flota.worker_index()}.{numbers[-1]}").touch()
            take_time(pace)
        totals.append(flota.all_reduce(seen).item())
    if flota.is_first_worker():
        counts = -model.embedding.pull(torch.arange(ROWS))[:, 0].numpy()
        np.save("counts.npy", counts)
    told = {"seen": seen, "numbers": numbers, "totals": totals}
    Path(f"told.{flota.worker_index()}").write_text(json.dumps(told))
    flota.stop_worker()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
