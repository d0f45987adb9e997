"""A worker that dies and is started again: the job ends as if it had not died."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import rejoin_job

from flota.testing import LocalCluster

DEADLINE = 100

# Processes of their own, that have not to import torch anew.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["torch", "flota.training.loop"])


def work(log, secret, arguments):
    os.environ["FLOTA_SECRET"] = secret
    target = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(target, 1)
    os.dup2(target, 2)
    rejoin_job.main(**arguments)
    sys.stdout.flush()


class Job:
    """Two workers and two servers. A worker that dies is started again."""

    def __init__(self, out, **options):
        self.out = Path(out)
        self.options = options
        self.starts = [0, 0]

    def run(self, points=()):
        """``points``: where a worker dies; what it does then it counts anew."""
        self.out.mkdir()
        dies = {rank: [point[1:] for point in points if point[0] == rank] for rank in range(2)}
        with LocalCluster(servers=2) as cluster:
            running = {rank: self._start(cluster, rank, dies) for rank in range(2)}
            try:
                self._watch(cluster, running, dies)
            finally:
                for process in running.values():
                    process.kill()
                    process.join()
        return [np.load(self.out / f"result.{rank}.npz") for rank in range(2)]

    def log(self, rank):
        return (self.out / f"log.{rank}").read_text()

    def _start(self, cluster, rank, dies):
        self.starts[rank] += 1
        place = {"out": str(self.out), "endpoints": cluster.endpoints, "rank": rank, "world": 2}
        arguments = {**place, **self.options, "points": dies[rank]}
        process = processes.Process(target=work, args=(str(self.out / f"log.{rank}"), cluster.secret, arguments))
        process.start()
        return process

    def _watch(self, cluster, running, dies):
        until = time.monotonic() + DEADLINE
        while running:
            multiprocessing.connection.wait([process.sentinel for process in running.values()], timeout=1)
            assert time.monotonic() < until, self.log(0) + self.log(1)
            for rank, process in list(running.items()):
                if process.exitcode is None:
                    continue
                if process.exitcode == -signal.SIGKILL and self.starts[rank] < 3:
                    running[rank] = self._start(cluster, rank, dies)
                    continue
                assert process.exitcode == 0, self.log(0) + self.log(1)
                del running[rank]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(3)
    paths = []
    for number in range(6):
        keys = rng.integers(0, 32, 25 + number)
        path = folder / f"part-{number}"
        path.write_text("".join(f"1 {key} 1 {np.sin(key):.6f}\n" for key in keys))
        paths.append(str(path))
    return paths


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, files):
    """What jobs end with when nobody dies, each run once."""
    results = {}

    def run(name, **options):
        if name not in results:
            results[name] = Job(tmp_path_factory.mktemp("undisturbed") / "job", **options).run()
        return results[name]

    return run


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        for name in ("rows", "counts", "deep", "steps", "losses"):
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)


# What a worker does, for one that dies after having done it so many times.
PLAIN = {
    "in steps": [(1, "before push", 3), (0, "between push and finish", 8)],
    "after steps, and in a barrier": [(0, "after finish", 7), (1, "before barrier", 3)],
}
FULL = {
    "vectors are loaded, and after a save": [(1, "before barrier", 1), (0, "after save", 0)],
    "the table was shrunk": [(0, "before barrier", 5)],
    "a save is being loaded": [(0, "before barrier", 8), (1, "after barrier", 7)],
}
FILES = {
    "in steps": (1, [(1, "before push", 3), (0, "after finish", 12)]),
    "with two threads": (2, [(1, "after finish", 4), (0, "between push and finish", 11)]),
    "at the end of an epoch, and in a barrier within one": (1, [(1, "after finish", 8), (0, "before barrier", 2)]),
    "twice in an epoch": (2, [(1, "after finish", 4), (1, "after finish", 1)]),
    "twice at a barrier within one": (1, [(0, "after finish", 11), (0, "before barrier", 2)]),
    "after barriers within an epoch": (2, [(1, "within an epoch", 1), (0, "within an epoch", 0)]),
}
OTHERS = [("async", False), ("bounded", True), ("geo", False), ("geo", True)]


@pytest.mark.timeout(DEADLINE + 20)
@pytest.mark.parametrize("points", PLAIN.values(), ids=PLAIN.keys())
def test_a_plain_loop_in_sync_mode_ends_bit_for_bit_the_same(tmp_path, undisturbed, points):
    job = Job(tmp_path / "job", mode="sync")
    assert_same(job.run(points), undisturbed("plain", mode="sync"))
    assert sum(job.starts) == 2 + len(points)
    for rank, starts in enumerate(job.starts):
        told = [f"worker {rank} was started again (restart {again + 1})" in job.log(rank) for again in range(starts)]
        assert told == [True] * (starts - 1) + [False]


@pytest.mark.timeout(DEADLINE + 20)
@pytest.mark.parametrize("points", FULL.values(), ids=FULL.keys())
def test_what_workers_do_together_is_done_once(tmp_path, undisturbed, points):
    job = Job(tmp_path / "job", mode="sync", in_full=True)
    assert_same(job.run(points), undisturbed("in full", mode="sync", in_full=True))
    assert sum(job.starts) == 2 + len(points)


@pytest.mark.timeout(DEADLINE + 20)
@pytest.mark.parametrize(("threads", "points"), FILES.values(), ids=FILES.keys())
def test_a_data_set_in_sync_mode_goes_on_where_it_was(tmp_path, undisturbed, files, threads, points):
    job = Job(tmp_path / "job", mode="sync", files=files, threads=threads)
    found = job.run(points)
    assert_same(found, undisturbed(f"{threads} threads", mode="sync", files=files, threads=threads))
    assert sum(job.starts) == 2 + len(points)


def test_a_script_may_skip_what_it_did(tmp_path, undisturbed):
    job = Job(tmp_path / "job", mode="sync", skips=True)
    found = job.run([(1, "after finish", 4)])
    assert_same(found, undisturbed("skips", mode="sync", skips=True))
    assert [result["restarts"] for result in found] == [0, 1]


@pytest.mark.timeout(DEADLINE + 20)
@pytest.mark.parametrize(("mode", "from_files"), OTHERS)
def test_other_modes_end_with_nothing_left_out(tmp_path, files, mode, from_files):
    job = Job(tmp_path / "job", mode=mode, optimizer="SGD", files=files if from_files else None)
    found = job.run([(1, "after finish", 3)])
    assert job.starts == [1, 2]
    assert found[0]["losses"].tolist() == [1.0, 3.0]
    np.testing.assert_array_equal(found[0]["rows"], found[1]["rows"])
    # Each sample was trained, and those of the worker that died at most once more.
    share = 2 if mode == "geo" else 1  # a worker's moves count by its share
    counts = -found[0]["counts"] * share / rejoin_job.LR
    expected = np.bincount(keys_of(files) if from_files else plain_keys(), minlength=rejoin_job.KEYS)
    assert (counts > expected - 0.01).all(), (counts, expected)
    assert counts.sum() < expected.sum() + 4 * rejoin_job.BATCH + 0.01
    if not from_files:
        assert [int(result["steps"]) for result in found] == [12, 12]


def keys_of(files):
    """Of two epochs."""
    return np.array([int(line.split()[1]) for file in files for line in Path(file).read_text().splitlines()] * 2)


def plain_keys():
    batches = (rejoin_job.plain_batches(rank, epoch, rejoin_job.STEPS) for rank in range(2) for epoch in range(2))
    return np.concatenate([keys.numpy() for source in batches for keys, _ in source])
