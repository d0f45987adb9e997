"""Random schedules of faults, each from its seed: nothing may be lost or doubled.

    python tests/cluster/chaos.py                  # schedules 0 to 199
    python tests/cluster/chaos.py --seed 17        # one again

Three schedules of four are of tables alone: clients push from several threads while servers are killed, paused and
started again, and every row must come out exact. The fourth is a whole job under ``flota launch``.
"""

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from clusterjobs import Run, check, no_core_files
from failures import Without
from faults import Fault

import flota
from flota.rules import SGD
from flota.testing import LocalCluster

SCHEDULES = 200
KEYS, DIM = 400, 3


def job_schedule(rng):
    """A job, and what befalls it."""
    servers, workers = rng.randint(1, 2), 2
    processes = [f"server {i}" for i in range(servers)] + [f"worker {i}" for i in range(workers)]
    faults = []
    for _ in range(rng.randint(1, 3)):
        moment = rng.choice(["pull", "push", "push", "barrier", "save", "shutdown"])
        victim = "launcher" if rng.random() < 0.1 else rng.choice(processes)
        by = "worker 0" if moment == "save" else rng.choice(["worker 0", "worker 1"])
        kind = rng.choice(["kill", "kill", "kill", "cut"]) if victim != "launcher" else "kill"
        faults.append(Fault(victim, moment, kind, by, rng.randint(1, 12), round(rng.random() * 0.004, 5)))
    mode = rng.choice(["sync", "sync", "async", "geo"])
    loop = rng.choice(["dataset", "plain"]) if mode == "sync" else "dataset"
    return {"mode": mode, "loop": loop, "servers": servers, "workers": workers, "faults": faults}


def run_job(seed, folder, without):
    schedule = job_schedule(random.Random(seed))
    if any(fault.moment == "barrier" for fault in schedule["faults"]):
        # One at a time: who waits in the barrier waits for its fault.
        first = next(fault for fault in schedule["faults"] if fault.moment == "barrier")
        others = [fault for fault in schedule["faults"] if fault.moment != "barrier"]
        victim_waits = first.victim if first.victim.startswith("worker") else "worker 0"
        by = first.victim if first.victim.startswith("worker") else "worker 1"
        schedule["faults"] = [*others, Fault(first.victim, "barrier", first.kind, by, 0, 0.2)]
        assert victim_waits != by or first.victim.startswith("worker")
    expected = without.result(schedule["mode"], schedule["loop"])
    run = Run(folder, without.files, arguments=["--max_restarts=10"], **schedule)
    run.may_miss = True  # a fault whose step a restarted worker does not come to again does not come
    outcome = run.run(patience=120)
    check(run, outcome, expected)
    what = f"{schedule['mode']} {schedule['loop']} {schedule['servers']}x{schedule['workers']}, " + ", ".join(
        f"{fault.kind} {fault.victim} in {fault.moment}" for fault in schedule["faults"]
    )
    return what, outcome.error


class Pusher(threading.Thread):
    """A client that adds to random rows, and knows what it has added."""

    def __init__(self, cluster, number, pushes, rng):
        super().__init__(daemon=True)
        self.expected = np.zeros(KEYS)
        self.done = 0
        self.error = None
        self._client = flota.Client(cluster.endpoints, secret=cluster.secret, worker=number + 1, epoch=1, timeout=30)
        self._table = self._client.create_sparse_table(
            "rows", dim=DIM, rule=SGD(lr=1.0), init=flota.initializer.Constant(0.0)
        )
        self._pushes = pushes
        self._rng = np.random.default_rng(rng.randrange(1 << 30))

    def run(self):
        try:
            for _ in range(self._pushes):
                keys = self._rng.choice(KEYS, size=int(self._rng.integers(1, 60)), replace=False)
                self._table.push(keys, -np.ones((len(keys), DIM), dtype=np.float32))
                self.expected[keys] += 1
                self.done += 1
            self._client.close()
        except Exception as error:
            self.error = error


def run_tables(seed, folder):
    rng = random.Random(seed)
    servers, clients, pushes = rng.randint(1, 3), rng.randint(1, 3), rng.randint(150, 400)
    faults = sorted(
        (rng.randrange(clients * pushes), rng.randrange(servers), rng.choice(["crash", "crash", "crash", "pause"]))
        for _ in range(rng.randint(1, 5))
    )
    what = f"tables {servers}x{clients}, " + ", ".join(f"{kind} {server} at {at}" for at, server, kind in faults)
    arguments = [f"--snapshot_seconds={rng.choice([1, 300])}", "--snapshot_mb=1"]
    with LocalCluster(servers, durable=folder, arguments=arguments) as cluster:
        pushers = [Pusher(cluster, number, pushes, rng) for number in range(clients)]
        for pusher in pushers:
            pusher.start()
        for at, server, kind in faults:
            while sum(pusher.done for pusher in pushers) < at and any(pusher.is_alive() for pusher in pushers):
                time.sleep(0.0005)
            if kind == "crash":
                cluster.crash(server)
                cluster.restart(server)
            else:
                cluster.pause(server)
                time.sleep(0.3)
                cluster.resume(server)
        for pusher in pushers:
            pusher.join(60)
            if pusher.is_alive() or pusher.error is not None:
                return what, f"a client failed: {pusher.error or 'it hangs'}"
        table = cluster.client().table("rows")
        found = np.asarray(table.pull(np.arange(KEYS), create=False))
        expected = np.sum([pusher.expected for pusher in pushers], axis=0)
        wrong = np.flatnonzero((found != expected[:, None]).any(axis=1))
        if len(wrong):
            return what, f"{len(wrong)} rows are wrong: row {wrong[0]} is {found[wrong[0]]}, not {expected[wrong[0]]}"
    return what, ""


def run_schedule(seed, folder, without):
    """What it was, and what is wrong. What nobody thought of is wrong, too, and must not hide the other schedules."""
    try:
        return run_job(seed, folder, without) if seed % 4 == 3 else run_tables(seed, folder)
    except Exception as error:
        return "it did not come to its end", f"{type(error).__name__}: {error}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="this schedule alone")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first of them (default: 0)")
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help="how many (default: %(default)s)")
    arguments = parser.parse_args()
    no_core_files()
    seeds = (
        range(arguments.first, arguments.first + arguments.schedules) if arguments.seed is None else [arguments.seed]
    )
    failed = []
    place = Path(tempfile.mkdtemp(prefix="flota-chaos-"))
    without = Without(place / "without")
    for seed in seeds:
        began = time.monotonic()
        folder = place / str(seed)
        what, error = run_schedule(seed, folder, without)
        print(f"schedule {seed}: {error or 'nothing lost'} ({time.monotonic() - began:.1f} s; {what})", flush=True)
        if error:
            failed.append(seed)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if not failed:
        shutil.rmtree(place, ignore_errors=True)
    for seed in failed:
        print(f"to run it again: make chaos ARGS='--seed {seed}'; what it left is in {place / str(seed)}")
    print(f"{len(seeds) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
