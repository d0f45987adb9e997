"""What it costs that servers outlive their processes.

Training: samples a second of the click-through model of train_ctr.py, with redo log and snapshots over without, by
turns, best of some rounds. Bar: 0.9. Snapshot: of ten million rows (dim 16, Adagrad) while one process pulls and
another pushes: the longest pull of all rounds (bar: 50 ms), up to some seconds after it, in which the old one is
removed and pages are laid together; and the time beside that of writing as many bytes and syncing them, by turns
under the same traffic, best of each (bar: 3 times). The longest pull beside that file is told apart; pages may still
be laid together then. A pull's time is told twice: as it was, and without what the whole machine stood still of it,
as virtual machines do when their host gives their cores to others (_pauses.py). Recovery: of that snapshot beside
reading its file, both from the disk (bar: 3 times).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _pauses import MachinePauses, Span
from train_ctr import run

from flota import Client
from flota.rules import Adagrad
from flota.testing import LocalCluster

DIM, KEYS = 16, 1024
HEAD_BYTES = 64  # of a log without records
LONG = 0.005  # seconds; shorter pulls are not told
AFTERWARDS = 3.0  # seconds; removing the old snapshot and laying pages together mostly takes less, at times 20 s
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


def pull_for_ever(endpoints: list[str], rows: int, long: Any) -> None:
    """Pulls of random rows, one after another; ``long`` is told from when to when those took that were not short."""
    rng = np.random.default_rng(0)
    with Client(endpoints, secret=SECRET) as client:
        table = client.table("rows")
        while True:
            keys = rng.integers(0, rows, size=KEYS)
            start = time.perf_counter()
            table.pull(keys)
            end = time.perf_counter()
            if end - start > LONG:
                long.put((start, end))


@dataclass(frozen=True)
class Longest:
    """Milliseconds that the longest pull took."""

    seen: float
    running: float  # without what the whole machine stood still

    def __str__(self) -> str:
        return f"longest pull {self.seen:.0f} ms ({self.running:.0f} of a running machine)"


class Traffic:
    """A process that pushes and one that pulls, as fast as they can."""

    def __init__(self, endpoints: list[str], rows: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._long = spawn.SimpleQueue()
        self._pauses = MachinePauses()
        self._processes = [
            spawn.Process(target=push_for_ever, args=(endpoints, rows), daemon=True),
            spawn.Process(target=pull_for_ever, args=(endpoints, rows, self._long), daemon=True),
        ]

    def take_longest(self) -> Longest:
        """The longest pulls since the last call."""
        pulls: list[Span] = [(0.0, 0.0)]
        while not self._long.empty():
            pulls.append(self._long.get())
        return Longest(
            seen=1000 * max(end - start for start, end in pulls),
            running=1000 * max(end - start - self._pauses.during(start, end) for start, end in pulls),
        )

    def __enter__(self) -> Traffic:
        self._pauses.__enter__()
        print(self._pauses.unavailable or "pauses of the machine are seen", flush=True)
        for process in self._processes:
            process.start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.join()
        self._pauses.__exit__()


def cluster_in(folder: Path, snapshot_seconds: float) -> LocalCluster:
    arguments = ["--snapshot_seconds", str(snapshot_seconds), "--snapshot_mb", "100000000"]
    return LocalCluster(1, secret=SECRET, durable=folder, arguments=arguments, timeout=600)


def fill(folder: Path, rows: int) -> None:
    with cluster_in(folder, 1e8) as cluster:
        table = cluster.client().create_sparse_table("rows", dim=DIM, rule=Adagrad())
        for begin in range(0, rows, 100_000):
            keys = np.arange(begin, min(begin + 100_000, rows))
            table.push(keys, np.ones((len(keys), DIM), np.float32))


def snapshots(folder: Path, rows: int, rounds: int) -> tuple[dict[str, float], Path]:
    """Snapshots and plain files of as many bytes by turns, under the same traffic."""
    taken, stalls, written, pulls, beside = [], [], [], [], []
    with cluster_in(folder, 8.0) as cluster:
        client = cluster.client()
        files = folder / "server-0"
        print(f"recovered from the log alone in {_values(client)['recovery_ms'] / 1000:.1f} s", flush=True)
        with Traffic(cluster.endpoints, rows) as traffic:
            for _ in range(rounds):
                before = _values(client)["snapshots"]
                while (values := _values(client))["snapshots"] == before:
                    time.sleep(0.02)
                taken.append(values["snapshot_ms"] / 1000)
                stalls.append(values["snapshot_stall_us"] / 1000)
                time.sleep(AFTERWARDS)
                pulls.append(traffic.take_longest())
                written.append(disk_writes(folder / "bytes", _newest(files).stat().st_size))
                beside.append(traffic.take_longest())
                print(
                    f"snapshot {taken[-1]:.2f} s, {pulls[-1]}; as many bytes {written[-1]:.2f} s, {beside[-1]}",
                    flush=True,
                )
    newest = _newest(files)
    found = {
        "snapshot_mb": newest.stat().st_size >> 20,
        "snapshot_s": min(taken),
        "snapshot_over_disk": round(min(taken) / min(written), 2),
        "fork_ms": max(stalls),
        "longest_pull_ms": round(max(pull.seen for pull in pulls), 2),
        "longest_pull_running_ms": round(max(pull.running for pull in pulls), 2),
        "longest_pull_beside_file_ms": round(max(pull.seen for pull in beside), 2),
        "longest_pull_beside_file_running_ms": round(max(pull.running for pull in beside), 2),
    }
    return found, newest


def _newest(folder: Path) -> Path:
    names = [path for path in folder.glob("snapshot-*") if path.suffix == ""]
    return max(names, key=lambda path: int(path.name.split("-")[1]))


def _values(client: Client) -> dict[str, int]:
    return client.statistics()[0].values


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
        taken, path = snapshots(folder, arguments.rows, arguments.rounds)
        found |= taken
        # Without what was pushed while it was written, and since, whether or not the next one had begun.
        number = int(path.name.split("-")[1])
        os.truncate(path.with_name(f"log-{number}"), HEAD_BYTES)
        for later in path.parent.glob("log-*"):
            if int(later.name.split("-")[1]) > number:
                later.unlink()
        recovered = min(recovery(folder) for _ in range(arguments.rounds))
        read = min(disk_reads(path) for _ in range(arguments.rounds))
        found |= {"recovery_s": recovered, "recovery_over_reading": round(recovered / read, 2)}
        print(found, flush=True)
    found |= training(arguments.seconds, arguments.rounds)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
