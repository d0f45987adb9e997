"""What it costs that servers outlive their processes.

Training: samples a second of the click-through model of train_ctr.py, with redo log and snapshots over without, by
turns, best of some rounds. Bar: 0.9. Snapshot: of ten million rows (dim 16, Adagrad) while one process pulls and
another pushes: the longest pull (bar: 50 ms), and the time beside that of writing as many bytes and syncing them (bar:
3 times). Recovery: of that snapshot beside reading its file, both from the disk (bar: 3 times).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from train_ctr import run

from flota import Client
from flota.rules import Adagrad
from flota.testing import LocalCluster

DIM, KEYS = 16, 1024
HEAD_BYTES = 64  # of a log without records
SECRET = "a secret for the servers of a benchmark"
DURABLE = ("FLOTA_DURABLE_DIR", "FLOTA_SNAPSHOT_SECONDS")


def train_once(mode: str, seconds: float, durable: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        if durable:
            os.environ.update(zip(DURABLE, (folder, str(seconds / 3)), strict=True))
        try:
            return float(run(mode, seconds))
        finally:
            for name in DURABLE:
                os.environ.pop(name, None)


def training(seconds: float, rounds: int) -> dict[str, float]:
    found = {}
    for mode in ("async 1x1", "async 2x2"):
        speeds: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(rounds):
            for durable in (False, True):
                speeds[durable].append(train_once(mode, seconds, durable))
        plain, kept = max(speeds[False]), max(speeds[True])
        print(f"{mode}: {kept:,.0f} samples/s with log and snapshots, {plain:,.0f} without", flush=True)
        found[mode.replace(" ", "_")] = round(kept / plain, 3)
    return found


def push_for_ever(endpoints: list[str], rows: int) -> None:
    rng = np.random.default_rng(1)
    with Client(endpoints, secret=SECRET) as client:
        table = client.table("rows")
        while True:
            table.push(rng.integers(0, rows, size=KEYS), np.ones((KEYS, DIM), np.float32))


class Pulls:
    """Pulls of random rows, one after another, and how long the longest took."""

    def __init__(self, client: Client, rows: int) -> None:
        self._table = client.table("rows")
        self._rows = rows
        self._rng = np.random.default_rng(0)
        self.longest = 0.0

    def go_on(self, times: int) -> None:
        for _ in range(times):
            keys = self._rng.integers(0, self._rows, size=KEYS)
            start = time.perf_counter()
            self._table.pull(keys)
            self.longest = max(self.longest, time.perf_counter() - start)


def cluster_in(folder: Path, snapshot_seconds: float) -> LocalCluster:
    arguments = ["--snapshot_seconds", str(snapshot_seconds), "--snapshot_mb", "100000000"]
    return LocalCluster(1, secret=SECRET, durable=folder, arguments=arguments, timeout=600)


def fill(folder: Path, rows: int) -> None:
    with cluster_in(folder, 1e8) as cluster:
        table = cluster.client().create_sparse_table("rows", dim=DIM, rule=Adagrad())
        for begin in range(0, rows, 100_000):
            keys = np.arange(begin, min(begin + 100_000, rows))
            table.push(keys, np.ones((len(keys), DIM), np.float32))


def snapshot(folder: Path, rows: int) -> tuple[dict[str, float], Path]:
    with cluster_in(folder, 8.0) as cluster:
        client = cluster.client()
        pusher = multiprocessing.get_context("spawn").Process(
            target=push_for_ever, args=(cluster.endpoints, rows), daemon=True
        )
        pusher.start()
        values = client.statistics()[0].values
        print(f"recovered from the log alone in {values['recovery_ms'] / 1000:.1f} s", flush=True)
        before, during = Pulls(client, rows), Pulls(client, rows)
        folder_of_server = folder / "server-0"
        while not any(folder_of_server.glob("*.tmp")) and not any(folder_of_server.glob("snapshot-*")):
            before.go_on(20)
        # The moment of the fork may lie in the last of those.
        during.longest = before.longest
        while not any(folder_of_server.glob("snapshot-*")):
            during.go_on(20)
        values = client.statistics()[0].values
        while values["snapshots"] == 0:
            values = client.statistics()[0].values
        pusher.kill()
        pusher.join()
        found = {
            "snapshot_s": values["snapshot_ms"] / 1000,
            "fork_ms": values["snapshot_stall_us"] / 1000,
            "longest_pull_ms": round(during.longest * 1000, 2),
        }
    return found, max(folder_of_server.glob("snapshot-*"), key=lambda path: int(path.name.split("-")[1]))


def forget(path: Path) -> None:
    """The page cache holds nothing of the file any more."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def disk_writes(path: Path, size: int) -> float:
    block = os.urandom(1 << 20)
    start = time.perf_counter()
    with path.open("wb") as file:
        for _ in range(size >> 20):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    spent = time.perf_counter() - start
    path.unlink()
    return spent


def disk_reads(path: Path) -> float:
    forget(path)
    start = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        buffer = bytearray(1 << 20)
        while file.readinto(buffer):
            pass
    return time.perf_counter() - start


def recovery(folder: Path) -> float:
    for file in (folder / "server-0").iterdir():
        forget(file)
    with cluster_in(folder, 1e8) as cluster:
        return cluster.client().statistics()[0].values["recovery_ms"] / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=8.0, help="of one training")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="on the disk to measure; the system's temporary one unless given")
    arguments = parser.parse_args()
    found: dict[str, float] = {"rows": arguments.rows}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        fill(folder, arguments.rows)
        taken, path = snapshot(folder, arguments.rows)
        size = path.stat().st_size
        found |= {"snapshot_mb": size >> 20, **taken}
        written = min(disk_writes(folder / "bytes", size) for _ in range(arguments.rounds))
        found["snapshot_over_disk"] = round(found["snapshot_s"] / written, 2)
        # Without what was pushed while it was written.
        os.truncate(path.with_name(path.name.replace("snapshot", "log")), HEAD_BYTES)
        recovered = min(recovery(folder) for _ in range(arguments.rounds))
        read = min(disk_reads(path) for _ in range(arguments.rounds))
        found |= {"recovery_s": recovered, "recovery_over_reading": round(recovered / read, 2)}
        print(found, flush=True)
    found |= training(arguments.seconds, arguments.rounds)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
