"""Training steps on a GPU with rows on servers, beside the same model with all rows in the GPU's memory.

The click-through model of train_ctr.py at batch 4,096 and 16,384: plain torch with everything on the GPU, flota with
tables in the process, and with a server process (async and sync), prefetching. Needs a GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from train_ctr import DENSE, DIM, FEATURES, ROWS, Model, PlainTable, run

MODES = ["torch", "local", "async 1x1", "sync 1x1", "geo 1x1", "async 4x1"]
BATCHES = [4096, 16384]


def batches(count: int, size: int) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Batches in pinned memory, as a DataLoader with pin_memory=True gives them."""
    from flota.data.synthetic import Clicks

    data = Clicks(count * size, seed=0, features=FEATURES, dense=DENSE, vocabulary=ROWS)
    return [tuple(part.pin_memory() for part in batch) for batch in data.batches(size)]  # type: ignore[misc]


def train(model: Model, optimizer: torch.optim.Optimizer, data: list, seconds: float, ahead: bool) -> float:
    """Samples a second, after some steps to warm up."""
    import flota

    loss_of = torch.nn.BCEWithLogitsLoss()
    warm_up, done, started = 20, 0, 0.0

    def endless() -> object:
        while done <= warm_up or time.perf_counter() - started < seconds:
            yield from data

    loader = flota.prefetch(endless(), model, device="cuda") if ahead else endless()
    for dense, ids, label in loader:
        dense, ids, label = (part.to("cuda", non_blocking=True) for part in (dense, ids, label))
        loss = loss_of(model(dense, ids), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done += 1
        if done == warm_up:
            torch.cuda.synchronize()
            started = time.perf_counter()
        if done > warm_up and time.perf_counter() - started >= seconds:
            break
    torch.cuda.synchronize()
    return (done - warm_up) * len(data[0][0]) / (time.perf_counter() - started)


def worker(mode: str, size: int, seconds: float, out: str) -> None:
    import flota

    torch.manual_seed(0)
    if mode == "torch":
        model = Model(PlainTable()).to("cuda")
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        Path(out).write_text(json.dumps(train(model, optimizer, batches(10, size), seconds, ahead=False)))
        return
    flota.init()
    model = Model(flota.nn.EmbeddingCollection(FEATURES, DIM)).to("cuda")
    strategy = {"sync": flota.Sync(), "geo": flota.Geo(100)}.get(mode.split()[0], flota.Async())
    optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.01), strategy)
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return
    flota.init_worker()
    speed = train(model, optimizer, batches(10, size), seconds, ahead=True)
    Path(out).write_text(json.dumps(speed))
    flota.stop_worker()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.size, arguments.seconds, arguments.out)
        return
    if not torch.cuda.is_available():
        print("there is no GPU here", file=sys.stderr)
        print(json.dumps({"benchmark": "train_gpu", "skipped": "no GPU"}))
        return
    result = {}
    for size in BATCHES:
        best = dict.fromkeys(MODES, 0.0)
        for _ in range(arguments.rounds):
            for mode in MODES:
                best[mode] = max(best[mode], run(mode, arguments.seconds, __file__, "--size", str(size)))
        for mode in MODES:
            share = best[mode] / best["torch"]
            print(f"batch {size:6,} {mode:10} {best[mode]:12,.0f} samples/s, {share:.2f} of all rows in GPU memory")
        result[str(size)] = best
    print(json.dumps({"benchmark": "train_gpu", "samples_a_second": result}))


if __name__ == "__main__":
    main()
