"""The death of a machine may cost a server the end of its log. A sync job then goes on from where it was, bit for bit,
or is refused and told what to do: never with parameters that lack something."""

import shutil
import subprocess

import numpy as np
import pytest
from training_jobs import start_workers

from flota import _core
from flota.arrays import address
from flota.errors import StateLost
from flota.rules import SGD
from flota.testing import LocalCluster
from waiting import wait_until

GROUP = "flota/train/0"
KEYS = np.arange(32)
STEPS, MORE = 8, 11


def newest_log(folder):
    return max(folder.glob("log-*"), key=lambda path: int(path.name.removeprefix("log-")))


class Worker:
    """The only one of its job. Each of its steps pushes to one of the servers or to both, and to the dense table."""

    def __init__(self, cluster):
        self.client = cluster.client(worker=1, timeout=10)
        self.native, self.time = self.client.native, self.client.time(None)
        self.last = self.native.rejoin(0, 1, self.time).last
        self.rows = self.client.create_sparse_table("rows", dim=2, rule=SGD(lr=1.0))
        self.dense = self.client.create_dense_table("dense", shape=(64,), rule=SGD(lr=1.0), min_block_size=16)
        if not self.last.group:
            self.dense.push(np.zeros(64, np.float32), kind="assign")
        if self.last.pending:
            self._finish(self.last.step, self.last.pending)

    @property
    def next(self):
        return self.last.step + 1 if self.last.group else 0

    def train(self, step):
        options = _core.PushOptions(_core.PushKind.gradient, 1.0, 1.0, step, _core.hash_name(GROUP), 0)
        if step % 3 != 2:
            keys = KEYS[: len(KEYS) // (1 + step % 2)]
            values = np.full((len(keys), 2), 1.0 + step, np.float32)
            batch = self.rows.make_batch()
            places = np.empty(len(keys), np.uint32)
            batch.route(address(keys), len(keys), address(places))
            self.rows.push_batch(batch, values, options)
        if step % 4 != 1:
            values = np.full(64, 1.0 + step, np.float32)
            self.native.push_dense([self.dense.part(values, 1.0)], options, self.time)
        self._finish(step)

    def _finish(self, step, servers=()):
        self.native.finish_step(GROUP, step, step + 1, 0, 1, 1.0, False, False, self.time, b"", servers)

    def has(self):
        return [np.asarray(part).tobytes() for part in (self.rows.pull(KEYS), self.dense.pull())]


def crash_both(cluster):
    for index in range(2):
        cluster.crash(index)


def restart_both(cluster):
    for index in range(2):
        cluster.restart(index)


@pytest.mark.parametrize("loser", [0, 1])
def test_wherever_a_log_is_torn_a_sync_job_goes_on_whole_or_is_refused(tmp_path, loser):
    durable, kept = tmp_path / "durable", tmp_path / "kept"
    with LocalCluster(2, durable=durable) as cluster:
        worker, sizes = Worker(cluster), []
        for step in range(STEPS):
            sizes.append(newest_log(durable / f"server-{loser}").stat().st_size)
            worker.train(step)
        size = newest_log(durable / f"server-{loser}").stat().st_size
        crash_both(cluster)
        shutil.copytree(durable, kept)

        went_on, refused, told, ends = [], [], [], set()
        for cut in range(size, sizes[STEPS - 3], -48):
            shutil.rmtree(durable)
            shutil.copytree(kept, durable)
            log = newest_log(durable / f"server-{loser}")
            with log.open("r+b") as file:
                file.truncate(cut)
            restart_both(cluster)
            try:
                again = Worker(cluster)
            except StateLost as error:
                refused.append(cut)
                told.append(str(error))
            else:
                for step in range(again.next, MORE):
                    again.train(step)
                ends.add(tuple(again.has()))
                went_on.append(cut)
            crash_both(cluster)
        # Whole: nothing at all was lost, or the finish of a step that is known to the other.
        assert refused
        assert min(went_on) > max(refused)
        assert min(went_on) < size
        assert len(ends) == 1
        assert all(f"server {loser} (" in text and "its last checkpoint" in text for text in told)


def lose_the_end(folder):
    log = newest_log(folder)
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size * 2 // 3)


@pytest.mark.parametrize("workers_die", [False, True], ids=["workers-live", "workers-die-too"])
def test_workers_are_told_that_a_server_lost_what_it_had(tmp_path, workers_die):
    with LocalCluster(2, durable=tmp_path / "durable") as cluster:
        watcher = cluster.client(timeout=60)

        def pushes():
            return sum(table["pushes"] for server in watcher.statistics() for table in server.tables.values())

        workers = start_workers(cluster, tmp_path, "sync", 100_000)
        try:
            wait_until(lambda: pushes() > 100, timeout=60)
            cluster.crash(1)
            if workers_die:
                for worker in workers:
                    worker.kill()
                    worker.wait()
            lose_the_end(tmp_path / "durable" / "server-1")
            cluster.restart(1)
            if workers_die:
                workers = start_workers(cluster, tmp_path, "sync", 100_000)
            for rank, worker in enumerate(workers):
                assert worker.wait(60) != 0
                log = (tmp_path / f"worker.{rank}").read_text()
                assert "flota.errors.StateLost" in log, log
                assert "server 1 (" in log
                assert "begin the job anew from its last checkpoint" in log
        except subprocess.TimeoutExpired:
            pytest.fail((tmp_path / "worker.0").read_text())
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
