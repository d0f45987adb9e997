"""Workers train on through the death of each server: in sync mode to the same bits, in Geo to the end."""

import numpy as np
from training_jobs import start_workers

from flota.testing import LocalCluster
from waiting import wait_until


def train(folder, mode, steps, kills):
    """What the workers end with; as many times, each server is killed and started again once they have trained on."""
    folder.mkdir()
    arguments = ["--snapshot_seconds", "0.3"]
    with LocalCluster(2, durable=folder / "durable", arguments=arguments) as cluster:
        workers = start_workers(cluster, folder, mode, steps)
        try:
            watcher = cluster.client(timeout=60)

            def pushes():
                return sum(table["pushes"] for server in watcher.statistics() for table in server.tables.values())

            for _ in range(kills):
                for index in range(2):
                    before = pushes()
                    wait_until(lambda before=before: pushes() > before + 20, timeout=60)
                    assert all(worker.poll() is None for worker in workers), "the training was over before the kill"
                    cluster.crash(index)
                    cluster.restart(index)
            for rank, worker in enumerate(workers):
                assert worker.wait(60) == 0, (folder / f"worker.{rank}").read_text()
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
    with np.load(folder / "result.npz") as result:
        return {name: result[name].tobytes() for name in result}, result["loss"]


def test_sync_training_ends_with_the_same_bits_when_servers_die(tmp_path):
    whole, _ = train(tmp_path / "whole", "sync", 60, kills=0)
    killed, _ = train(tmp_path / "killed", "sync", 60, kills=1)
    assert killed == whole


def test_geo_training_goes_on_when_servers_die(tmp_path):
    _, losses = train(tmp_path / "killed", "geo", 150, kills=1)
    assert len(losses) == 150
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
