"""What each setting of a job does to its speed: the numbers of docs/tuning.md.

The model of ``benchmarks/train_ctr.py`` (26 features, dim 10, 400-400-400, SGD, data from memory), trained for
``--seconds`` by a launch. In each group one thing is varied, and the settings of a group take turns; the best of
``--rounds`` rounds counts. Two things are measured: the samples of all workers together in a second, and in a second of
CPU time of all processes, servers among them, which tells what a setting costs also on a machine that has other work.
With ``slow``, worker 1 sleeps for 200 ms in each step.

    python benchmarks/tuning.py                       # all groups
    python benchmarks/tuning.py --groups batch geo
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from train_ctr import DENSE, DIM, FEATURES, ROWS, Model

WARM_UP, SLEEP = 10, 0.200


@dataclass(frozen=True)
class Case:
    name: str
    mode: str = "Async"
    settings: dict[str, Any] = field(default_factory=dict)  # of the mode
    servers: int = 1
    workers: int = 2
    batch: int = 512
    prefetch: bool = False
    dense_dtype: str = "float32"
    slow: bool = False
    launch: tuple[str, ...] = ()  # flags


_MERGED = {"max_merge_var_num": 4, "min_send_grad_num_before_recv": 4}
_SMALL = 100

GROUPS: dict[str, list[Case]] = {
    "batch": [Case(f"batch {batch}", batch=batch) for batch in (64, 256, 1024, 4096)],
    "prefetch": [
        Case("sync", "Sync"),
        Case("sync, prefetching", "Sync", prefetch=True),
        Case("async"),
        Case("async, prefetching", prefetch=True),
    ],
    "small": [
        Case("batch 100", batch=_SMALL),
        Case("batch 100, four steps merged", settings=_MERGED, batch=_SMALL),
        Case("batch 100, dense parameters beside the steps", settings={"independent_recv_thread": True}, batch=_SMALL),
        Case("batch 100, dense parameters as bfloat16", batch=_SMALL, dense_dtype="bfloat16"),
    ],
    "staleness": [
        Case("sync, one slow worker", "Sync", slow=True),
        *(Case(f"max_staleness {s}, one slow worker", settings={"max_staleness": s}, slow=True) for s in (0, 4, 64)),
        Case("async without bound, one slow worker", slow=True),
    ],
    "servers": [Case(f"{s} servers, {w} workers", servers=s, workers=w) for s, w in ((1, 1), (1, 2), (2, 2), (1, 4))],
    "durable": [
        Case("nothing is kept", launch=("--no_durable",)),
        Case("log and snapshots, as by default"),
        Case("a snapshot every 2 s", launch=("--snapshot_seconds=2",)),
        Case("answers wait for the disk", launch=("--durable_sync",)),
    ],
}


def batches(case: Case, seed: int) -> list[Any]:
    generator = torch.Generator().manual_seed(seed)
    count = max(2, 20_480 // case.batch)
    made = []
    for _ in range(count):
        ids = (torch.rand(case.batch, FEATURES, generator=generator) ** 4 * (ROWS // FEATURES)).long()
        ids += torch.arange(FEATURES) * (ROWS // FEATURES)
        dense = torch.rand(case.batch, DENSE, generator=generator)
        made.append((dense, ids, (torch.rand(case.batch, generator=generator) < 0.3).float()))
    return made


def work(case: Case, seconds: float, out: Path) -> None:
    """One process of the job. Each writes what CPU time it took for how many samples; worker 0 how fast all were."""
    import flota

    flota.init()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model(flota.nn.EmbeddingCollection(FEATURES, DIM))
    mode = getattr(flota, case.mode)(**case.settings)
    strategy = flota.DistributedStrategy(mode, dense_dtype=case.dense_dtype)
    optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.01), strategy)
    if flota.is_server():
        flota.init_server()
        began = time.process_time()
        flota.run_server()
        told = {"cpu": time.process_time() - began, "samples": 0}
        (out / f"server-{flota.server_index()}.json").write_text(json.dumps(told))
        return
    flota.init_worker()
    made = batches(case, flota.worker_index())
    source = flota.prefetch(cycle(made), model) if case.prefetch else cycle(made)
    loss_of = torch.nn.BCEWithLogitsLoss()
    sleep = SLEEP if case.slow and flota.worker_index() == 1 else 0.0
    flota.barrier_worker()
    began, started, steps = time.process_time(), 0.0, 0
    for dense, ids, label in source:
        loss = loss_of(model(dense, ids), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(sleep)
        steps += 1
        if steps == WARM_UP:
            started = time.perf_counter()
        elif steps > WARM_UP and time.perf_counter() - started >= seconds:
            break
    speed = (steps - WARM_UP) * case.batch / (time.perf_counter() - started)
    told = {"cpu": time.process_time() - began, "samples": steps * case.batch, "speed": speed}
    flota.barrier_worker()
    if flota.is_first_worker() and case.mode == "Async":
        told["staleness"] = flota.staleness().mean
    (out / f"worker-{flota.worker_index()}.json").write_text(json.dumps(told))
    flota.stop_worker()


def run(case: Case, seconds: float, log_dir: Path | None = None) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        out = Path(name, "out")
        out.mkdir()
        command = [sys.executable, "-m", "flota.launch", f"--server_num={case.servers}", f"--worker_num={case.workers}"]
        command += [f"--log_dir={log_dir or Path(name, 'log')}", *case.launch, __file__]
        command += ["--case", json.dumps(asdict(case)), "--seconds", str(seconds), "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{case.name} failed:\n{done.stdout}\n{done.stderr}")
        told = [json.loads(file.read_text()) for file in out.iterdir()]
    sums = {key: sum(each.get(key, 0.0) for each in told) for key in ("cpu", "samples", "speed", "staleness")}
    return {"speed": sums["speed"], "of_cpu": sums["samples"] / sums["cpu"], "staleness": sums["staleness"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        work(Case(**json.loads(arguments.case)), arguments.seconds, arguments.out)
        return
    results: dict[str, dict[str, float]] = {}
    for group in arguments.groups:
        best: dict[str, dict[str, float]] = {}
        for _ in range(arguments.rounds):
            for case in GROUPS[group]:
                found = run(case, arguments.seconds)
                before = best.setdefault(case.name, found)
                best[case.name] = {key: max(before[key], found[key]) for key in found}
        print(group, flush=True)
        for name, found in best.items():
            speeds = f"{found['speed']:9,.0f} samples/s {found['of_cpu']:9,.0f} samples/s of CPU"
            print(f"  {name:47} {speeds}  staleness {found['staleness']:.1f}", flush=True)
        results |= best
    print(json.dumps({"benchmark": "tuning", "cases": results}))


if __name__ == "__main__":
    main()
