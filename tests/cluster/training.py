"""What workers of the kill matrix's job do."""

import contextlib
import os
import time
from pathlib import Path

import numpy as np
import torch

import flota
from flota.data import QueueDataset, Slot, leases

MODES = {
    "sync": lambda: flota.Sync(),
    "async": lambda: flota.Async(),
    "geo": lambda: flota.Geo(k_steps=4),
}
FEATURES = 97
REPORT = 200  # samples between two notes of progress


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        zero = flota.initializer.Constant(0.0)
        self.counts = flota.nn.Embedding(None, 1, name="counts", init=zero)
        self.features = flota.nn.Embedding(None, 8, name="features")
        torch.manual_seed(1)
        self.head = torch.nn.Linear(8, 1)

    def forward(self, keys, labels):
        counted = self.counts(keys).sum()
        predicted = self.head(self.features(keys % FEATURES)).reshape(-1)
        return counted + torch.nn.functional.mse_loss(predicted, labels)


class Training:
    def __init__(self, settings, out, faults):
        self.settings = settings
        self.out = out
        self.faults = faults

    def run(self):
        torch.set_num_threads(1)
        leases.REPORT_SAMPLES = REPORT
        with self.faults.around("start-up"):
            self.model = Model()
            groups = [
                {"params": [*self.model.counts.parameters()], "lr": 1.0},
                {"params": [*self.model.features.parameters(), *self.model.head.parameters()], "lr": 0.05},
            ]
            self.optimizer = flota.distributed_optimizer(torch.optim.SGD(groups), MODES[self.settings["mode"]]())
            flota.init_worker()
        self.train()

    def train(self):
        if self.settings["load"]:
            with self.faults.around("restore"):
                flota.load_model(self.settings["load"])
        loop = {"dataset": self.from_files, "plain": self.from_memory}[self.settings["loop"]]
        for epoch in range(2):
            loop(epoch)
            if epoch == 0:
                self.meet()
                if flota.is_first_worker():
                    with self.faults.around("save"):
                        flota.save_persistables(self.out / "saved", keep=2)
        flota.barrier_worker()
        if flota.is_first_worker():
            self.write_result()
        with self.faults.around("shutdown"):
            flota.stop_worker()

    def meet(self):
        """A barrier in which somebody waits when the fault comes: its victim if that is a worker, else worker 0."""
        due = [fault for fault in self.faults.faults if fault.moment == "barrier"]
        waits = [fault.victim if fault.victim.startswith("worker") else "worker 0" for fault in due]
        if due and self.faults.name not in waits:
            with self.faults.around("barrier"):
                self.wait_for_faults()
            flota.barrier_worker()
            return
        with self.faults.around("barrier"):
            flota.barrier_worker()

    def wait_for_faults(self):
        deadline = time.monotonic() + 20
        while not self.faults.brought_about("barrier") and time.monotonic() < deadline:
            time.sleep(0.01)

    def from_files(self, epoch):
        dataset = QueueDataset()
        places = [Slot("key", (1,)), Slot("label", (1,), "float32")]
        dataset.init(self.settings["batch"], 1, use_var=places, lease_seconds=1.0)
        dataset.set_filelist(self.settings["files"][epoch::2])
        for batch in dataset:
            self.step(batch["key"].reshape(-1), batch["label"].reshape(-1))

    def from_memory(self, epoch):
        """The same samples without a data set: this worker's, in their order."""
        mine = []
        for file in self.settings["files"][epoch::2]:
            mine += [line.split() for line in Path(file).read_text().splitlines()]
        mine = mine[flota.worker_index() :: flota.worker_num()]
        for begin in range(0, len(mine), self.settings["batch"]):
            rows = mine[begin : begin + self.settings["batch"]]
            self.step(torch.tensor([int(row[1]) for row in rows]), torch.tensor([float(row[3]) for row in rows]))

    def step(self, keys, labels):
        self.faults.step += 1
        self.optimizer.zero_grad()
        with self.faults.around("pull"):
            loss = self.model(keys, labels)
        loss.backward()
        with self.faults.around("push"):
            self.optimizer.step()
        with contextlib.suppress(OSError), (self.out / f"steps.{flota.worker_index()}").open("ab") as steps:
            steps.write(np.float64(time.time()).tobytes())

    def write_result(self):
        keys = torch.arange(self.settings["samples"])
        values = {
            "counts": self.model.counts.pull(keys).numpy(),
            "features": self.model.features.pull(torch.arange(FEATURES)).numpy(),
            "weight": self.model.head.weight.detach().numpy(),
            "bias": self.model.head.bias.detach().numpy(),
        }
        with (self.out / ".result.new").open("wb") as file:
            np.savez(file, **values)
        os.replace(self.out / ".result.new", self.out / "result.npz")
