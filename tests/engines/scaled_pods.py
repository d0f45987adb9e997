"""A user's script for the test of workers that come and go as pods: each sample is a key, whose gradient is 1.

Each pod makes the same data for itself. Batches are slow until there have been three workers and are two again; then
the job goes on for some seconds, in which who has asked for two hears of it.
"""

import time
from pathlib import Path

import torch

import flota
from flota.data import QueueDataset, Slot

FILES, LINES = 16, 250
PACE, LAST_PACE = 2.0, 0.2  # seconds a batch


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = flota.nn.Embedding(None, 1, name="counts", init=flota.initializer.Constant(0.0))

    def forward(self, batch):
        return self.embedding(batch["key"]).sum()


def make_data(folder):
    folder.mkdir()
    for number in range(FILES):
        lines = [f"1 {key} 1 0.5\n" for key in range(number * LINES, (number + 1) * LINES)]
        (folder / f"part-{number:02}").write_text("".join(lines))


def main():
    torch.set_num_threads(1)
    flota.init()
    model = Counter()
    optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=1.0), flota.Async())
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return
    make_data(Path("/tmp/data"))
    flota.init_worker()
    dataset = QueueDataset()
    dataset.init(25, 1, use_var=[Slot("key", (1,)), Slot("label", (1,), "float32")], lease_seconds=2.0)
    dataset.set_filelist(sorted(map(str, Path("/tmp/data").iterdir())))
    most = now = 0
    for batch in dataset:
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()
        if flota.worker_num() != now:
            now = flota.worker_num()
            most = max(most, now)
            print("workers", now, flush=True)
        time.sleep(LAST_PACE if most == 3 and now == 2 else PACE)
    flota.barrier_worker()
    if flota.is_first_worker():
        counts = -model.embedding.pull(torch.arange(FILES * LINES))[:, 0]
        print(f"least {int(counts.min())} twice {int((counts > 1).sum())}", flush=True)
    flota.stop_worker()


if __name__ == "__main__":
    main()
