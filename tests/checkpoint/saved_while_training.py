"""A user's script for the tests: worker 0 saves between two steps, while worker 1 goes on, and at a barrier."""

import json
import sys
import time
from pathlib import Path

import torch

import flota


class Model(torch.nn.Module):
    """Its gradients are ones, whatever it is given."""

    def __init__(self, dim):
        super().__init__()
        self.rows = flota.nn.Embedding(None, dim, init=flota.initializer.Constant(0.0), name="rows")
        self.scale = torch.nn.Parameter(torch.zeros(20_000))

    def forward(self, keys):
        return self.rows(keys).sum() + self.scale.sum()


class Job:
    def __init__(self, out, mode, keys, dim):
        self.out = Path(out)
        self.mode = mode
        self.keys = torch.arange(keys)
        self.model = Model(dim)
        modes = {"sync": flota.Sync(), "async": flota.Async(), "geo": flota.Geo(k_steps=3)}
        strategy = flota.DistributedStrategy(modes[mode], min_block_size=8192)
        sgd = torch.optim.SGD(self.model.named_parameters(), lr=1.0)
        self.optimizer = flota.distributed_optimizer(sgd, strategy)

    def train(self):
        flota.init_worker()
        self.steps(10)
        self.save("between_steps")
        self.steps(10)
        flota.barrier_worker()
        if self.mode == "sync":
            self.save("at_a_barrier")  # and worker 1 goes on
        elif flota.is_first_worker():
            flota.save_persistables(self.out / "at_a_barrier")
        if self.mode != "sync":
            flota.barrier_worker()
        self.steps(5)
        flota.barrier_worker()
        flota.stop_worker()

    def steps(self, count):
        for _ in range(count):
            self.optimizer.zero_grad()
            self.model(self.keys).backward()
            self.optimizer.step()

    def save(self, name):
        """Worker 0 saves when worker 1 has pulled for its next step, and is about to push."""
        marker = self.out / f"{name}.begun"
        if flota.is_first_worker():
            deadline = time.monotonic() + 60
            while not marker.exists():
                assert time.monotonic() < deadline, "worker 1 does not come"
                time.sleep(0.001)
            flota.save_persistables(self.out / name)
        else:
            self.model(self.keys)
            marker.touch()


def main(settings):
    torch.set_num_threads(1)
    flota.init()
    job = Job(**settings)
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return
    job.train()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
