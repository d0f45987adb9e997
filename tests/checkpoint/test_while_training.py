"""Saves while others train: rows are whole, and in sync mode and at barriers all are of one step."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from flota import rules
from flota.checkpoint.job import save_job
from flota.checkpoint.reader import Checkpoint
from flota.initializer import Constant
from flota.testing import LocalCluster

SCRIPT = Path(__file__).parent / "saved_while_training.py"
KEYS, DIM, LR = 20_000, 4, 0.5


class Pusher(threading.Thread):
    """A client that pushes ones to random rows until it is told to end."""

    def __init__(self, cluster, number):
        super().__init__(daemon=True)
        self.pushes = 0
        self.ending = threading.Event()
        self._table = cluster.client(timeout=30).table("rows")
        self._rng = np.random.default_rng(number)

    def run(self):
        while not self.ending.is_set():
            keys = self._rng.choice(KEYS, 2000, replace=False)
            self._table.push(keys, np.ones((len(keys), DIM), np.float32))
            self.pushes += 1


def test_every_row_of_a_save_during_async_training_is_whole(tmp_path):
    """By Adagrad and gradients of 1, a row's weights and state follow from the number of its updates."""
    with LocalCluster(2) as cluster:
        client = cluster.client()
        rule = rules.Adagrad(lr=LR, eps=0.0)
        client.create_sparse_table("rows", dim=DIM, rule=rule, init=Constant(0.0))
        pushers = [Pusher(cluster, number) for number in range(2)]
        for pusher in pushers:
            pusher.start()
        try:
            saves = {"base": {}, "delta": {"before": tmp_path / "base"}, "all": {}}
            for mode, before in saves.items():
                began = sum(pusher.pushes for pusher in pushers)
                save_job(client, tmp_path / mode, 0, {}, mode=mode, **before)
                assert sum(pusher.pushes for pusher in pushers) > began, "nobody trained meanwhile"
        finally:
            for pusher in pushers:
                pusher.ending.set()
            for pusher in pushers:
                pusher.join(30)
        most = max(int(page.updates.max()) for page in client.table("rows").export())
    weights = -LR * np.concatenate([[0.0], np.cumsum(1 / np.sqrt(np.arange(1, most + 1)))])
    for mode in saves:
        pages = list(Checkpoint(tmp_path / mode).rows("rows"))
        assert sum(len(page.keys) for page in pages) > KEYS // 2
        for page in pages:
            np.testing.assert_array_equal(page.state, np.repeat(page.updates[:, None], DIM, axis=1))
            expected = np.repeat(weights[page.updates][:, None], DIM, axis=1)
            np.testing.assert_allclose(page.weights, expected, rtol=1e-5)


# Each worker's gradients are ones. In sync mode a step is the average of both, in async mode each is a step of its own;
# in Geo each moves its rows, and servers add half of that, twice.
MOVES = {"sync": 1, "async": 2, "geo": 1}


@pytest.mark.parametrize("mode", MOVES)
def test_a_save_between_steps_of_sync_mode_or_at_a_barrier_is_of_one_step(tmp_path, mode):
    settings = json.dumps({"out": str(tmp_path), "mode": mode, "keys": KEYS, "dim": DIM})
    command = [sys.executable, "-m", "flota.launch", "--server_num=2", "--worker_num=2", "--log_dir", tmp_path / "log"]
    done = subprocess.run(
        [*command, SCRIPT, settings],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=tmp_path,
        check=False,
        env={**os.environ, "FLOTA_TIMEOUT": "60"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    steps = {"between_steps": 10, "at_a_barrier": 20}
    if mode != "sync":
        del steps["between_steps"]  # there, rows are whole, and no more is promised
    for name, made in steps.items():
        saved = Checkpoint(tmp_path / name)
        pages = list(saved.rows("rows"))
        assert sum(len(page.keys) for page in pages) == KEYS
        for page in pages:
            assert mode == "geo" or set(page.updates.tolist()) == {made * MOVES[mode]}, name
            np.testing.assert_array_equal(page.weights, np.full_like(page.weights, -made * MOVES[mode]), name)
        scale = dict(saved.parameters())["dense/scale"].weights
        np.testing.assert_array_equal(scale, np.full_like(scale, -made * MOVES[mode]), name)
