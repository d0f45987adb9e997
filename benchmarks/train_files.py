"""Training a click-through model from Criteo's files by train_from_dataset, and the same model fed from memory.

The model of train_ctr.py, batch 512, SGD. "memory" is an ordinary loop over the same batches, read before; "files"
reads, hashes and trains; "files, n" does so with n trainer threads. All ways take turns in the same processes, an epoch
each, after one to warm up: two processes of one way differ by more than what is measured here. Bar: files 0.9 of
memory.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
from train_ctr import BATCH, DIM, FEATURES, Model, run

SIZES = ["local", "async 1x1", "async 2x2"]
WAYS = ["memory", "files", "files, 2"]
BAR = 0.9
FILES = 8


def worker(out: str, folder: str, rounds: int) -> None:
    import flota
    from flota.data import read_criteo

    torch.manual_seed(0)
    flota.init()
    torch.set_num_threads(2 if flota.worker_num() == 1 else 1)
    model = Model(flota.nn.EmbeddingCollection(FEATURES, DIM))
    optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.01), flota.Async())
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return
    flota.init_worker()
    files = sorted(Path(folder).glob("part-*"))
    loss = torch.nn.BCEWithLogitsLoss()
    dataset = read_criteo(files, BATCH, counts="log1p")
    kept = list(read_criteo(files, BATCH, counts="log1p", sharing="static"))

    def from_memory() -> float:
        began = time.perf_counter()
        for dense, ids, label in kept:
            value = loss(model(dense, ids), label)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
        return sum(len(batch.label) for batch in kept) / (time.perf_counter() - began)

    def from_files(threads: int) -> float:
        result = flota.train_from_dataset(model, dataset, loss=loss, thread_num=threads)
        return result.samples / result.seconds

    speeds: dict[str, list[float]] = {way: [] for way in WAYS}
    from_files(1)
    for _ in range(rounds):
        for way in WAYS:
            flota.barrier_worker()
            speed = from_memory() if way == "memory" else from_files(int(way.partition(", ")[2] or 1))
            speeds[way].append(float(flota.all_reduce(speed)))
    if flota.is_first_worker():
        Path(out).write_text(json.dumps(speeds))
    flota.stop_worker()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--seconds", help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.out, arguments.folder, arguments.rounds)
        return
    from flota.data.synthetic import Clicks

    with tempfile.TemporaryDirectory() as folder:
        Clicks(arguments.rows).write(folder, files=FILES)
        more = ["--folder", folder, "--rounds", str(arguments.rounds)]
        speeds = {size: run(size, 0.0, __file__, *more) for size in SIZES}
    for size, ways in speeds.items():
        for way, each in ways.items():
            bar = f" (bar {BAR})" if way == "files" else ""
            ratio = max(each) / max(ways["memory"])
            middle = median(one / memory for one, memory in zip(each, ways["memory"], strict=True))
            print(f"{size:10} {way:9} {max(each):8,.0f} samples/s, {ratio:.2f} of memory{bar}, median {middle:.2f}")
    print(json.dumps({"benchmark": "train_files", "samples_a_second": speeds}))


if __name__ == "__main__":
    main()
