"""How much of a job's CPU time its server takes when batches are small and dense parameters weigh most.

The model of train_ctr.py (26 features of dim 10, 13 dense inputs, 400-400-400, SGD) at batch 100: every step pushes
and pulls 1.7 MB of dense parameters for little arithmetic. Prints, after a warm-up, the server process's CPU time
divided by that of all processes of the job. The bar is 15 % with the default strategy.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from train_ctr import DENSE, DIM, FEATURES, ROWS, Model

BATCH, BAR = 100, 0.15
STRATEGIES = {
    "default": {},
    "merged": {"max_merge_var_num": 4, "min_send_grad_num_before_recv": 4},
    "bfloat16": {"dense_dtype": "bfloat16"},
}
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(process: int) -> float:
    """CPU time of all of a process's threads so far."""
    # The name may hold spaces; the numbers come after its bracket: user time is the 12th of them, system time the 13th.
    numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / _TICKS


def worker(settings: dict, seconds: float, folder: Path) -> None:
    import flota
    from flota.data.synthetic import Clicks

    torch.manual_seed(0)
    flota.init()
    # One thread a worker: how many the arithmetic gets shall not blur what is compared.
    torch.set_num_threads(1)
    model = Model(flota.nn.EmbeddingCollection(FEATURES, DIM))
    mode = {name: value for name, value in settings.items() if name != "dense_dtype"}
    strategy = flota.DistributedStrategy(flota.Async(**mode), dense_dtype=settings.get("dense_dtype", "float32"))
    optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.01), strategy)
    if flota.is_server():
        (folder / "server").write_text(str(os.getpid()))
        flota.init_server()
        flota.run_server()
        return
    flota.init_worker()
    clicks = Clicks(100 * BATCH, seed=flota.worker_index(), features=FEATURES, dense=DENSE, vocabulary=ROWS)
    data = list(clicks.batches(BATCH))
    loss_of = torch.nn.BCEWithLogitsLoss()

    def train(until: float) -> int:
        steps = 0
        while time.perf_counter() < until:
            dense, ids, label = data[steps % len(data)]
            loss = loss_of(model(dense, ids), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
        return steps

    train(time.perf_counter() + seconds / 4)
    flota.barrier_worker()
    server = int((folder / "server").read_text())
    mine, its = cpu_seconds(os.getpid()), cpu_seconds(server)
    steps = train(time.perf_counter() + seconds)
    mine, its = cpu_seconds(os.getpid()) - mine, cpu_seconds(server) - its
    total = flota.all_reduce([mine, float(steps)])
    if flota.is_first_worker():
        result = {"share": its / (its + float(total[0])), "server": its, "workers": total[0], "steps": total[1]}
        (folder / "result").write_text(json.dumps(result))
    flota.stop_worker()


def run(strategy: str, workers: int, seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "flota.launch", "--server_num=1", f"--worker_num={workers}"]
        command += ["--log_dir", folder, __file__, "--worker", strategy, "--seconds", str(seconds), "--out", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        result: dict[str, float] = json.loads((Path(folder) / "result").read_text())
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--strategies", nargs="+", choices=list(STRATEGIES), default=list(STRATEGIES))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(STRATEGIES[arguments.worker], arguments.seconds, Path(arguments.out))
        return
    jobs = [(workers, strategy) for workers in (1, 2) for strategy in arguments.strategies]
    results: dict[str, list[dict[str, float]]] = {}
    for _ in range(arguments.rounds):
        for workers, strategy in jobs:
            results.setdefault(f"{strategy} 1x{workers}", []).append(run(strategy, workers, arguments.seconds))
    shares = {}
    for job, rounds in results.items():
        # The middle round: one that another job on the machine has disturbed counts for nothing.
        middle = sorted(rounds, key=lambda result: result["share"])[len(rounds) // 2]
        shares[job] = middle["share"]
        steps = middle["steps"]
        print(
            f"{job:13} server {middle['share']:6.1%} of all CPU time{f' (bar {BAR:.0%})' if 'default' in job else ''}; "
            f"a step: server {middle['server'] / steps * 1e3:.2f} ms, worker {middle['workers'] / steps * 1e3:.2f} ms"
        )
    print(json.dumps({"benchmark": "dense_traffic", "server_share": shares}))


if __name__ == "__main__":
    main()
