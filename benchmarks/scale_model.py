"""What a job of many workers and servers will do, from what this machine measures; and how far that is to be believed.

    python benchmarks/scale_model.py                  calibrates, and compares with runs of 1 to 4 processes here
    python benchmarks/scale_model.py --workers 1000 --servers 50 --rows 1e11 --bandwidth 25Gbit --round_trip_ms 0.2

It measures what a training step of train_ctr.py's model costs a worker, and what pulls, pushes and dense exchanges cost
both sides (CPU seconds a call, a row, a number), and simulates workers and servers that wait for cores, network cards
and each other (_simulator.py). Bar: within 25% of what is measured for each size that fits on this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import train_ctr
from _calibration import Calibration, cores
from _simulator import Cost, Costs, Job, simulate

import flota
from flota.client import Tls
from flota.testing import LocalCluster

BAR = 0.25
SIZES = [(1, 1), (2, 1), (1, 2), (2, 2)]  # servers, workers: up to four processes
ALONE = ("local", 0, 1)  # one process, with its tables in it
MODES = ("async", "sync")
# Bytes of a row in a server's memory: the key, counters and the index's share, beside weights and state
# (benchmarks/memory.py measures 96, 160 and 224 bytes a row of dim 16 for SGD, Adagrad and Adam).
ROW_OVERHEAD = 32
STATES = {"sgd": 0, "adagrad": 1, "adam": 2}
LANES = 3  # connections of a worker to each server: its own calls, a push and a pull in the background
CONNECTIONS = 4096  # that a server takes


# --- what is measured ---


def go_first() -> None:
    """Others who use this machine wait while this process is measured; without the right to that, they do not."""
    # Priorities count within a group of processes, where the kernel makes one of each session: that of the group first.
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("-20")
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, int(thread), -20)


class Idle(train_ctr.Model):
    """The same rows and parameters, and next to nothing to compute."""

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        touched = sum(parameter.sum() for parameter in self.deep.parameters())
        return self.embedding(ids).sum(dim=(1, 2)) * 1e-6 + touched * 1e-6


def work(mode: str, seconds: float, out: str) -> None:
    """train_ctr.py's worker, of one thread; modes that begin with "idle" compute nothing."""
    flota.init()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    kind = Idle if mode.startswith("idle") else train_ctr.Model
    mode = mode.removeprefix("idle-")
    model = kind(flota.nn.EmbeddingCollection(train_ctr.FEATURES, train_ctr.DIM))
    strategy = flota.Sync() if mode.startswith("sync") else flota.Async()
    optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.01), strategy)
    if flota.is_server():
        go_first()
        flota.init_server()
        flota.run_server()
        return
    flota.init_worker()
    data = train_ctr.batches(40, flota.worker_index())
    go_first()
    flota.barrier_worker()
    times = train(model, optimizer, data, seconds)
    speed = len(times) / sum(times)
    if "x" in mode:
        speed = float(flota.all_reduce(speed))
    if flota.is_first_worker():
        Path(out).write_text(json.dumps([speed, *np.percentile(times, range(1, 100))]))
    flota.stop_worker()


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, data: list[Any], seconds: float) -> list[float]:
    """How long each step takes, after a few to warm up."""
    loss_of = torch.nn.BCEWithLogitsLoss()
    warm_up, moments = 20, [0.0]
    while len(moments) <= warm_up or moments[-1] - moments[warm_up] < seconds:
        dense, ids, label = data[len(moments) % len(data)]
        loss = loss_of(model(dense, ids), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        moments.append(time.perf_counter())
    return np.diff(moments[warm_up:]).tolist()


def steps_a_second(mode: str, seconds: float) -> float:
    return float(train_ctr.run(mode, seconds, __file__)[0])


def computing(copies: int, rounds: int, seconds: float) -> tuple[float, ...]:
    """Percentiles of a step's time with its tables in the process, while so many processes train, each alone."""
    found = []
    for _ in range(rounds):
        with ThreadPoolExecutor(copies) as pool:
            found += list(pool.map(lambda _: train_ctr.run("local", seconds, __file__)[1:], range(copies)))
    return tuple(min(found, key=sum))


def keys_of_batches(count: int) -> float:
    """Distinct keys of so many batches."""
    ids = torch.cat([ids for _, ids, _ in train_ctr.batches(count, 0)])
    return float(sum(len(column.unique()) for column in ids.T))


def calibrate(transport: str, seconds: float, certificates: str = "") -> Costs:
    """Without the worker's compute, which no transport changes."""
    arguments = ["--certs", certificates] if certificates else []
    tls = Tls(f"{certificates}/authority.pem") if certificates else None
    with LocalCluster(servers=1, arguments=arguments) as cluster:
        it = Calibration(cluster, transport, train_ctr.DIM, seconds, tls)
        pull, push, hold, dense = it.pull(), it.push(), it.hold(), it.dense()
    return Costs((0.0,), *pull, *push, *hold, *dense)


# --- what is predicted ---


def quantity(text: str) -> float:
    """ "25Gbit", "512GiB", "1e12": bytes, or a number."""
    found = re.fullmatch(r"([\d.]+(?:e\d+)?)\s*([KMGT]?)(i?)(bit|B|)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text} is not a quantity such as 25Gbit, 512GiB or 1e12")
    scale = (1024 if found[3] else 1000) ** " KMGT".index(found[2] or " ")
    return float(found[1]) * scale / (8 if found[4] == "bit" else 1)


def row_bytes(dim: int, rule: str, half: bool) -> int:
    return ROW_OVERHEAD + dim * ((2 if half else 4) + 4 * STATES[rule])


def local_job(mode: str, servers: int, workers: int, rows: float) -> Job:
    dense = sum(p.numel() for p in train_ctr.Model(torch.nn.Identity()).parameters())
    return Job(workers, servers, mode, rows, dense, 4.0 * train_ctr.DIM, shared_cores=cores())


def _name(case: tuple[str, int, int]) -> str:
    mode, servers, workers = case
    return mode if case == ALONE else f"{mode} {servers}x{workers}"


def verify(costs: Costs, crowded: Costs, rows: float, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Predicted and measured steps a second of jobs whose processes share this machine's cores, in turns. ``crowded``:
    what things cost while other processes compute, too."""
    cases = [ALONE, *((mode, servers, workers) for mode in MODES for servers, workers in SIZES)]
    best = dict.fromkeys(cases, 0.0)
    for _ in range(rounds):
        for case in cases:
            best[case] = max(best[case], steps_a_second(_name(case), seconds))
    found = []
    for case, measured in best.items():
        if case == ALONE:  # nothing to wait for
            predicted = len(costs.compute) / sum(costs.compute)
        else:
            predicted = simulate(local_job(*case, rows), crowded if case[2] > 1 else costs).steps
        error = predicted / measured - 1
        found.append({"case": _name(case), "predicted": predicted, "measured": measured})
        print(
            f"{case[0]:6} {case[1]} server{'s' * (case[1] > 1)}, {case[2]} worker{'s' * (case[2] > 1):1} "
            f"{predicted:7.1f} steps/s predicted, {measured:7.1f} measured: {error:+.0%} (bar {BAR:.0%})"
        )
    return found


@dataclass(frozen=True)
class Prediction:
    """``busiest``: what is in use most, and how much of it; at 1 it is what limits the job."""

    workers: int
    servers: int
    rows: float
    gib_a_server: float
    samples: float  # a second
    of_ideal: float  # of what the workers' computing alone would allow
    busiest: str
    busy: float
    connections: int  # of a server


def predict(asked: argparse.Namespace, costs: Costs, rows: float, rows_of_k: float) -> Prediction:
    """A job on hosts of their own."""
    memory = asked.rows * row_bytes(asked.dim, asked.rule, asked.float16)
    servers = asked.servers or max(1, math.ceil(memory / (0.8 * asked.memory)))
    scale = asked.batch / train_ctr.BATCH
    mean = sum(costs.compute) / len(costs.compute)
    compute = asked.compute_ms / 1e3 if asked.compute_ms else mean * scale
    job = Job(
        asked.workers, servers, asked.mode, rows * scale, asked.dense, 4.0 * asked.dim,
        rows_of_k=rows_of_k * scale, k_steps=asked.k_steps, prefetch=asked.prefetch,
        round_trip=asked.round_trip_ms / 1e3, bandwidth=asked.bandwidth,
        worker_cores=asked.worker_cores, server_cores=asked.server_cores,
    )  # fmt: skip
    wider = (8 + 4 * asked.dim) / (8 + 4 * train_ctr.DIM)
    outcome = simulate(
        job,
        replace(wide(costs, wider), compute=tuple(each * compute / mean for each in costs.compute)),
        20 if asked.workers > 100 else 60,
    )
    busiest = max(outcome.busy, key=lambda name: outcome.busy[name])
    return Prediction(
        asked.workers, servers, asked.rows, memory / servers / 2**30, outcome.steps * asked.batch,
        outcome.steps * compute / asked.workers, busiest, outcome.busy[busiest], asked.workers * LANES,
    )  # fmt: skip


def wide(costs: Costs, factor: float) -> Costs:
    """A row of another width costs so much more."""
    rows = ("pull_worker", "pull_server", "push_worker", "push_server", "hold_worker", "hold_server")
    return replace(costs, **{name: Cost(getattr(costs, name).call, getattr(costs, name).row * factor) for name in rows})


def show(prediction: Prediction) -> None:
    much = f"{prediction.busiest} {prediction.busy:.0%}"
    many = f"{prediction.connections:,} connections"
    many += " (more than a server takes by default)" if prediction.connections > CONNECTIONS else ""
    print(
        f"{prediction.workers:6,} workers {prediction.servers:5,} servers {prediction.rows:7.0e} rows: "
        f"{prediction.gib_a_server:7.1f} GiB a server, {prediction.samples:12,.0f} samples/s, "
        f"{prediction.of_ideal:4.0%} of computing alone; busiest: {much:20} {many}",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    own = parser.add_argument_group("your job (without --workers: this machine is compared with its prediction)")
    own.add_argument("--workers", type=int, nargs="+", default=[], help="how many; several: a line for each")
    own.add_argument("--servers", type=int, default=0, help="default: as many as the rows need")
    own.add_argument("--rows", type=quantity, nargs="+", default=[1e9], help="in the tables (default: 1e9)")
    own.add_argument("--mode", choices=["sync", "async", "geo"], default="async")
    own.add_argument("--dim", type=int, default=train_ctr.DIM, help="of a row (default: %(default)s)")
    own.add_argument("--rule", choices=STATES, default="adagrad", help="of the rows (default: %(default)s)")
    own.add_argument("--float16", action="store_true", help="rows are stored as float16 or bfloat16")
    own.add_argument("--batch", type=int, default=train_ctr.BATCH, help="of each worker (default: %(default)s)")
    own.add_argument("--dense", type=quantity, default=local_job("async", 1, 1, 0).dense, help="dense numbers")
    own.add_argument("--compute_ms", type=float, default=0.0, help="of a step; default: as measured, by batch size")
    own.add_argument("--k_steps", type=int, default=100, help="of geo (default: %(default)s)")
    own.add_argument("--prefetch", action="store_true", help="pulls are made a batch ahead")
    own.add_argument("--bandwidth", type=quantity, default=quantity("25Gbit"), help="of a host (default: 25Gbit)")
    own.add_argument("--round_trip_ms", type=float, default=0.2, help="default: %(default)s")
    own.add_argument("--memory", type=quantity, default=quantity("256GiB"), help="of a server's host (default: 256GiB)")
    own.add_argument("--worker_cores", type=int, default=4, help="default: %(default)s")
    own.add_argument("--server_cores", type=int, default=16, help="default: %(default)s")
    parser.add_argument("--costs", type=Path, help="use what a run has written there, or write it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    return parser.parse_args()


def overheads(costs: Costs, rows: float, workers: int, rounds: int, seconds: float) -> dict[str, float]:
    """What a step with servers takes beside its calls, where there is nothing to compute."""
    alone = 1 / max(steps_a_second("idle-local", seconds) for _ in range(rounds))
    found = {}
    for mode in MODES:
        step = workers / max(steps_a_second(f"idle-{mode} 1x{workers}", seconds) for _ in range(rounds))
        calls = workers / simulate(local_job(mode, 1, workers, rows), costs).steps
        found[f"{mode}_overhead"] = max(0.0, step - alone - calls)
    return found


def _measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Costs by shared memory on this host, alone and with company, and by TLS between hosts; keys of batches."""
    local = calibrate("shared_memory", asked.seconds / 4)
    rows, rows_of_k = keys_of_batches(1), keys_of_batches(asked.k_steps)
    here = replace(
        local,
        compute=computing(1, asked.rounds, asked.seconds),
        **overheads(local, rows, 1, asked.rounds, asked.seconds),
    )
    crowded = replace(
        local,
        compute=computing(cores(), asked.rounds, asked.seconds),
        **overheads(local, rows, 2, asked.rounds, asked.seconds),
    )
    own = {name: getattr(here, name) for name in ("compute", *(f"{mode}_overhead" for mode in MODES))}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "flota.cli", "certs", f"{folder}/certs", "--host=127.0.0.1"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        between = replace(calibrate("tcp", asked.seconds / 4, f"{folder}/certs"), **own)
    return {"here": here, "crowded": crowded, "between": between, "rows": rows, "rows_of_k": rows_of_k}


def _costs(asked: argparse.Namespace) -> dict[str, Any]:
    if asked.costs is None or not asked.costs.exists():
        measured = _measure(asked)
        if asked.costs:
            plain = {name: asdict(each) if isinstance(each, Costs) else each for name, each in measured.items()}
            asked.costs.write_text(json.dumps(plain))
        return measured
    kept = json.loads(asked.costs.read_text())
    for which in ("here", "crowded", "between"):
        parts = {name: Cost(**each) if isinstance(each, dict) else each for name, each in kept[which].items()}
        kept[which] = Costs(**{**parts, "compute": tuple(parts["compute"])})
    return dict(kept)


def _tell(name: str, costs: Costs) -> None:
    parts = [
        f"{name}: a step's computing {1e3 * sum(costs.compute) / len(costs.compute):.1f} ms (one in a hundred "
        f"{costs.compute[-1] * 1e3:.1f}), and in async {costs.async_overhead * 1e3:.1f} ms "
        f"more of Python, in sync {costs.sync_overhead * 1e3:.1f};"
    ]
    for what in ("pull", "push", "hold", "dense"):
        both = [getattr(costs, f"{what}_{side}") for side in ("worker", "server")]
        parts.append(f"{what} " + " and ".join(f"{c.call * 1e6:.0f} us + {c.row * 1e9:.1f} ns each" for c in both))
    print(parts[0], "; ".join(parts[1:]), "(CPU of worker and server)", flush=True)


def main() -> None:
    asked = _arguments()
    if asked.worker:
        work(asked.worker, asked.seconds, asked.out)
        return
    measured = _costs(asked)
    rows, rows_of_k = measured["rows"], measured["rows_of_k"]
    for name in ("here", "crowded", "between"):
        _tell(name, measured[name])
    print(
        f"distinct keys: {rows:,.0f} in a batch of {train_ctr.BATCH}, {rows_of_k:,.0f} in {asked.k_steps}", flush=True
    )
    if asked.workers:
        found = []
        for workers in asked.workers:
            for many in asked.rows:
                found.append(predict(argparse.Namespace(**{**vars(asked), "workers": workers, "rows": many}),
                                     measured["between"], rows, rows_of_k))  # fmt: skip
                show(found[-1])
        print(json.dumps({"benchmark": "scale_model", "predictions": [asdict(each) for each in found]}))
        return
    found = verify(measured["here"], measured["crowded"], rows, asked.rounds, asked.seconds)
    worst = max(abs(case["predicted"] / case["measured"] - 1) for case in found)
    print(f"worst: {worst:.0%} (bar {BAR:.0%})")
    print(json.dumps({"benchmark": "scale_model", "bar": BAR, "worst": worst, "cases": found}))


if __name__ == "__main__":
    main()
