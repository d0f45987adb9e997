"""A worker that dies and is started again: the job ends as if it had not died."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from flota.testing import LocalCluster

SCRIPT = Path(__file__).with_name("rejoin_job.py")
DEADLINE = 100


class Job:
    """Two workers and two servers. A worker that dies is started again."""

    def __init__(self, out, **options):
        self.out = out
        self.options = options
        self.starts = [0, 0]

    def run(self, points=()):
        """``points``: for each worker that dies, where."""
        self.out.mkdir()
        dies = {rank: {"point": point, "after": after} for rank, point, after in points}
        with LocalCluster(servers=2) as cluster:
            running = {rank: self._start(cluster, rank, dies) for rank in range(2)}
            try:
                self._watch(cluster, running, dies)
            finally:
                for process in running.values():
                    process.kill()
                    process.wait()
        return [np.load(self.out / f"result.{rank}.npz") for rank in range(2)]

    def _start(self, cluster, rank, dies):
        self.starts[rank] += 1
        arguments = {
            "out": str(self.out),
            "endpoints": cluster.endpoints,
            "rank": rank,
            "world": 2,
            **self.options,
            **dies.get(rank, {}),
        }
        with (self.out / f"log.{rank}").open("a") as log:
            return subprocess.Popen(
                [sys.executable, str(SCRIPT), json.dumps(arguments)],
                stdout=log,
                stderr=log,
                env={**_environment(), "FLOTA_SECRET": cluster.secret},
            )

    def _watch(self, cluster, running, dies):
        until = time.monotonic() + DEADLINE
        while running:
            assert time.monotonic() < until, self._logs()
            for rank, process in list(running.items()):
                try:
                    code = process.wait(0.05)
                except subprocess.TimeoutExpired:
                    continue
                if code == -signal.SIGKILL and self.starts[rank] < 3:
                    running[rank] = self._start(cluster, rank, dies)
                    continue
                assert code == 0, self._logs()
                del running[rank]

    def _logs(self):
        return "\n".join(f"worker {rank}:\n{(self.out / f'log.{rank}').read_text()}" for rank in range(2))


def _environment():
    import os

    return dict(os.environ)


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
        for name in ("rows", "deep", "losses", "steps"):
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)


POINTS = {
    "before a push": [(1, "before push", 3)],
    "between push and finish, worker 0": [(0, "between push and finish", 2)],
    "after a finish": [(1, "after finish", 7)],
    "before a barrier": [(1, "before barrier", 0)],
    "after a save, worker 0": [(0, "after save", 0)],
    "both": [(0, "after finish", 3), (1, "between push and finish", 8)],
}


@pytest.mark.timeout(DEADLINE + 20)
@pytest.mark.parametrize("points", POINTS.values(), ids=POINTS.keys())
def test_a_plain_loop_in_sync_mode_ends_bit_for_bit_the_same(tmp_path, undisturbed, points):
    job = Job(tmp_path / "job", mode="sync")
    assert_same(job.run(points), undisturbed("plain", mode="sync"))
    assert sum(job.starts) == 2 + len(points)
