"""Loss against time and against samples in sync, async and geo mode: the pictures of docs/modes.md.

One server, two workers, one epoch of generated Criteo-like clicks in files, read as any job reads them: in async and
geo mode the workers lease pieces of them, in sync mode each has its half. The click-through model of
``benchmarks/accuracy.py`` at half its width, batches of 256 for each worker, Adagrad; nothing differs but the mode.
Each batch's loss is taken before its step, so it is always of samples that no worker has trained on.

Twice: with workers as equal as two cores make them, and with worker 1 asleep for ``--slow`` milliseconds in each
step, as one whose host has other work. Of ``--rounds`` rounds, in which the modes take turns, the fastest of each mode
is shown.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path

import torch
from _pictures import Chart, Line, picture

import flota
from flota.data import read_criteo
from flota.data.criteo import DENSE, FEATURES
from flota.data.synthetic import Clicks

DIM, WIDTH, BATCH = 10, 200, 256
MODES = ("sync", "async", "geo")
CASES = {"equal": "equal workers", "slow": "one slow worker"}
WINDOW = 16_384  # samples that a point of a line is the mean of

Steps = list[tuple[float, int, float]]  # when, of how many samples, their mean loss


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = flota.nn.EmbeddingCollection(FEATURES, DIM, init=flota.initializer.Normal(0.0, 0.01))
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(FEATURES * DIM + DENSE, WIDTH),
            torch.nn.ReLU(),
            torch.nn.Linear(WIDTH, WIDTH),
            torch.nn.ReLU(),
            torch.nn.Linear(WIDTH, 1),
        )

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return self.layers(torch.cat([self.embedding(ids).flatten(1), dense], dim=1)).squeeze(1)


def work(arguments: argparse.Namespace) -> None:
    """One process of one run; each worker writes what its steps were."""
    flota.init()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model()
    mode = {"sync": flota.Sync(), "async": flota.Async(), "geo": flota.Geo(k_steps=arguments.k_steps)}[arguments.mode]
    optimizer = flota.distributed_optimizer(torch.optim.Adagrad(model.parameters(), lr=0.03), mode)
    if flota.is_server():
        flota.init_server()
        flota.run_server()
        return
    flota.init_worker()
    files = sorted(Path(arguments.data).glob("part-*"))
    slow = arguments.slow / 1000 if flota.worker_index() == 1 else 0.0
    loss_of = torch.nn.BCEWithLogitsLoss()
    steps: Steps = []
    flota.barrier_worker()
    for dense, ids, label in flota.prefetch(read_criteo(files, BATCH, counts="log1p"), model):
        loss = loss_of(model(dense, ids), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(slow)
        steps.append((time.time(), len(label), loss.item()))
    Path(arguments.out, f"worker-{flota.worker_index()}.json").write_text(json.dumps(steps))
    flota.stop_worker()


def run(mode: str, slow: float, data: Path, k_steps: int) -> Steps:
    """Both workers' steps in the order of time, which begins with the first of them."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "flota.launch", "--server_num=1", "--worker_num=2", f"--log_dir={folder}/log"]
        command += [__file__, "--mode", mode, "--data", str(data), "--out", folder]
        command += ["--slow", str(slow), "--k_steps", str(k_steps)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{mode} failed:\n{done.stdout}\n{done.stderr}")
        of_workers = [json.loads(Path(folder, f"worker-{i}.json").read_text()) for i in (0, 1)]
    began = min(steps[0][0] for steps in of_workers)
    return sorted((when - began, samples, loss) for steps in of_workers for when, samples, loss in steps)


def curve(steps: Steps) -> list[tuple[float, int, float]]:
    """Seconds, samples and mean loss of each window of samples."""
    points, sums = [], [0, 0.0]
    for (when, samples, loss), total in zip(steps, accumulate(step[1] for step in steps), strict=True):
        sums = [sums[0] + samples, sums[1] + samples * loss]
        if sums[0] >= WINDOW:
            points.append((when, total, sums[1] / sums[0]))
            sums = [0, 0.0]
    return points


def draw(best: dict[str, Steps], what: str) -> str:
    # The first window is of models that know nothing yet, and would take most of the height.
    curves = {mode: curve(steps)[1:] for mode, steps in best.items()}
    by_time = [Line(mode, [(t, loss) for t, _, loss in points]) for mode, points in curves.items()]
    by_samples = [Line(mode, [(n / 1000, loss) for _, n, loss in points]) for mode, points in curves.items()]
    charts = [
        Chart(f"{what}: against time", "seconds", "loss", by_time),
        Chart(f"{what}: against samples", "thousand samples", "loss", by_samples),
    ]
    return picture(charts, f"The loss of sync, async and geo training, {what}, against time and against samples")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--k_steps", type=int, default=20, help="of geo (default: %(default)s)")
    parser.add_argument("--slow", type=float, default=20.0, help="milliseconds (default: %(default)s)")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--pictures", type=Path, help="folder to write modes-equal.svg and modes-slow.svg to")
    for name in ("--mode", "--data", "--out"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.mode:
        work(arguments)
        return
    results: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as folder:
        Clicks(arguments.rows).write(folder, files=8)
        for name in arguments.cases:
            what, slow = CASES[name], arguments.slow if name == "slow" else 0.0
            runs: dict[str, list[Steps]] = {mode: [] for mode in MODES}
            for _ in range(arguments.rounds):
                for mode in MODES:
                    runs[mode].append(run(mode, slow, Path(folder), arguments.k_steps))
            best = {mode: min(runs[mode], key=lambda steps: steps[-1][0]) for mode in MODES}
            for mode, steps in best.items():
                seconds, last = steps[-1][0], curve(steps)[-4:]
                loss = sum(point[2] for point in last) / len(last)
                print(
                    f"{what:16} {mode:6} {seconds:6.1f} s  {arguments.rows / seconds:8,.0f} samples/s  loss {loss:.4f}"
                )
                results[f"{name} {mode}"] = {"seconds": round(seconds, 2), "loss": round(loss, 4)}
            if arguments.pictures:
                arguments.pictures.mkdir(parents=True, exist_ok=True)
                (arguments.pictures / f"modes-{name}.svg").write_text(draw(best, what))
    print(json.dumps({"benchmark": "modes", "runs": results}))


if __name__ == "__main__":
    main()
