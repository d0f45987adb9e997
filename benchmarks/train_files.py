"""Training a click-through model from Criteo's files by train_from_dataset, and the same model fed from memory.

The model of train_ctr.py, batch 512, SGD, one epoch after a few batches to warm up. "memory" is an ordinary loop over
the same batches, read before; "files" reads, hashes and trains; "files, n" does so with n trainer threads. Bar: files
0.9 of memory.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch
from train_ctr import BATCH, DIM, FEATURES, Model, run

SIZES = ["local", "async 1x1", "async 2x2"]
WAYS = ["memory", "files", "files, 2"]
BAR = 0.9
FILES = 8


def worker(out: str, way: str, folder: str) -> None:
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
    flota.train_from_dataset(model, read_criteo(files[0], BATCH, counts="log1p"), loss=loss)
    if way == "memory":
        data = list(read_criteo(files, BATCH, counts="log1p", sharing="static"))
        flota.barrier_worker()
        began = time.perf_counter()
        for dense, ids, label in data:
            value = loss(model(dense, ids), label)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
        speed = sum(len(batch.label) for batch in data) / (time.perf_counter() - began)
    else:
        dataset = read_criteo(files, BATCH, counts="log1p")
        threads = int(way.partition(", ")[2] or 1)
        flota.barrier_worker()
        result = flota.train_from_dataset(model, dataset, loss=loss, thread_num=threads)
        speed = result.samples / result.seconds
    speed = float(flota.all_reduce(speed))
    if flota.is_first_worker():
        Path(out).write_text(json.dumps(speed))
    flota.stop_worker()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.out, arguments.way, arguments.folder)
        return
    from flota.data.synthetic import Clicks

    best = {size: dict.fromkeys(WAYS, 0.0) for size in SIZES}
    with tempfile.TemporaryDirectory() as folder:
        Clicks(arguments.rows).write(folder, files=FILES)
        for _ in range(arguments.rounds):
            for size in SIZES:
                for way in WAYS:
                    speed = run(size, 0.0, __file__, "--way", way, "--folder", folder)
                    best[size][way] = max(best[size][way], speed)
    for size, ways in best.items():
        for way, speed in ways.items():
            bar = f" (bar {BAR})" if way == "files" else ""
            print(f"{size:10} {way:9} {speed:8,.0f} samples/s, {speed / ways['memory']:.2f} of memory{bar}")
    print(json.dumps({"benchmark": "train_files", "samples_a_second": best}))


if __name__ == "__main__":
    main()
