"""Saving and loading a million rows (dim 16, Adagrad: 152 MB), beside what the disk needs for those bytes.

Two servers save; three are loaded through a client; one of one restores itself. The disk is written and synced with as
many bytes, in a file beside the checkpoint. Best of some rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from flota import _core
from flota.checkpoint.job import load_job, save_job
from flota.checkpoint.reader import Checkpoint
from flota.checkpoint.restore import restore_server
from flota.initializer import Uniform
from flota.rules import Adagrad
from flota.testing import LocalCluster

DIM = 16


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def write(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.write(os.urandom(1 << 20) * (size >> 20))
        file.flush()
        os.fsync(file.fileno())


def restore(path: Path) -> None:
    options = _core.ServerOptions()
    options.secret = "a secret for a server that never listens"
    restore_server(_core.Server.make(options), path)


def load(path: Path) -> float:
    with LocalCluster(servers=3) as cluster:
        client = cluster.client()
        client.create_sparse_table("rows", dim=DIM, rule=Adagrad(), init=Uniform(-1, 1))
        return seconds(lambda: list(load_job(client, Checkpoint(path))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    size = arguments.rows * (24 + 2 * 4 * DIM)
    times: dict[str, list[float]] = {"disk": [], "export": [], "save": [], "load": [], "restore": []}
    with tempfile.TemporaryDirectory() as folder, LocalCluster(servers=2) as cluster:
        path = Path(folder) / "saved"
        client = cluster.client()
        table = client.create_sparse_table("rows", dim=DIM, rule=Adagrad(), init=Uniform(-1, 1))
        for keys in torch.arange(arguments.rows).split(100_000):
            table.push(keys, torch.ones(len(keys), DIM))
        for _ in range(arguments.rounds):
            times["disk"].append(seconds(lambda: write(Path(folder) / "bytes", size)))
            times["export"].append(seconds(lambda: sum(len(page.keys) for page in table.export())))
            times["save"].append(seconds(lambda: save_job(client, path, 1, {})))
            times["load"].append(load(path))
            times["restore"].append(seconds(lambda: restore(path)))
    best = {f"{name}_s": round(min(values), 3) for name, values in times.items()}
    print(json.dumps({"rows": arguments.rows, "dim": DIM, "megabytes": size // 1_000_000, **best}))


if __name__ == "__main__":
    main()
