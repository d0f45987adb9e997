"""A user's script for the tests: loads files into memory, shuffles them over all workers, and says who has what."""

import json
import resource
import sys
from pathlib import Path

import numpy as np
import torch

import flota
from flota.data import Criteo, InMemoryDataset


def resident():
    """Bytes that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak():
    """The most that it was since the last time that ``forget_peak`` was called."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def forget_peak():
    Path("/proc/self/clear_refs").write_text("5")


def numbers(dataset):
    """The samples' numbers: the classic reader divides the first count by 20."""
    return np.concatenate([np.rint(batch.dense[:, 0].numpy() * 20).astype(np.int64) for batch in dataset])


def main(files, out):
    flota.init()
    model = torch.nn.Linear(1, 1)
    flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), flota.Async())
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return
    flota.init_worker()
    dataset = InMemoryDataset()
    dataset.init(batch_size=4096, format=Criteo())
    dataset.set_filelist(files)
    before = resident()
    forget_peak()
    dataset.load_into_memory()
    data = dataset.memory_bytes
    loading = peak() - before
    held = resident() - before
    loaded = numbers(dataset)  # this test's own memory, which the next line leaves out
    before = resident() - held
    forget_peak()
    dataset.global_shuffle(flota)
    memory = max(loading, peak() - before)
    sizes = [dataset.get_memory_data_size(), dataset.get_memory_data_size(flota), dataset.get_shuffle_data_size(flota)]
    first = numbers(dataset)
    dataset.global_shuffle()
    np.savez(
        f"{out}/result.{flota.worker_index()}.npz",
        loaded=loaded, first=first, second=numbers(dataset), memory=[memory, data], sizes=sizes,
    )  # fmt: skip
    dataset.release_memory()
    flota.stop_worker()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
