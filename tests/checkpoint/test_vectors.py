"""``flota.load_vectors``: training begins with vectors that were trained before."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tables import SECRET, servers

import flota
from flota import vectors
from flota.errors import InvalidArgument, NonFiniteValues
from flota.fleet import Fleet
from flota.nn.naming import reset_names

SCRIPT = Path(__file__).parent / "begun.py"


def worker(client=None, rows=None, mode=None):
    reset_names()
    fleet = Fleet()
    if client is None:
        fleet.init(flota.LocalRoleMaker())
    else:
        endpoints = [server.endpoint for server in client.statistics()]
        fleet.init(flota.UserDefinedRoleMaker(0, flota.Role.WORKER, 1, endpoints))
    model = flota.nn.Embedding(rows, 2, name="words")
    optimizer = fleet.distributed_optimizer(torch.optim.Adagrad(model.parameters(), lr=1.0), mode or flota.Sync())
    fleet.init_worker()
    return fleet, model, optimizer


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv("FLOTA_SECRET", SECRET)


def step(model, optimizer, keys):
    optimizer.zero_grad()
    model(torch.tensor(keys)).sum().backward()
    optimizer.step()


def test_rows_begin_with_the_vectors_and_without_state(monkeypatch):
    monkeypatch.setattr(vectors, "_ROWS", 2)
    fleet, model, optimizer = worker()
    step(model, optimizer, [5, 7, 8])
    other = model.pull(torch.tensor([8])).clone()
    assert fleet.load_vectors(model, torch.tensor([7, 5, -1]), torch.tensor([[1.0, 2], [3, 4], [5, 6]])) is True
    assert model.pull(torch.tensor([5, 7, -1])).tolist() == [[3, 4], [1, 2], [5, 6]]
    assert torch.equal(model.pull(torch.tensor([8])), other), "other rows stay"
    step(model, optimizer, [5])  # Adagrad's first step is as long as its learning rate
    torch.testing.assert_close(model.pull(torch.tensor([5])), torch.tensor([[2.0, 3.0]]))


@pytest.mark.parametrize("keys", [np.array([1, 2], np.int64), [1, 2], np.array([1, 2], np.uint64)])
def test_arrays_lists_and_names_are_taken(keys):
    fleet, model, _ = worker()
    fleet.load_vectors("words", keys, [[1.0, 2.0], [3.0, 4.0]])
    assert model.pull(torch.tensor([1, 2])).tolist() == [[1, 2], [3, 4]]
    assert fleet.load_vectors("words", [], [])


@pytest.mark.parametrize("on_servers", [False, True])
@pytest.mark.parametrize(
    ("keys", "rows", "reason"),
    [
        ([1, 2], torch.ones(2, 3), r"vectors for table 'words' must have shape \[2, 2\], not \[2, 3\]"),
        ([1, 2], torch.ones(1, 2), r"must have shape \[2, 2\], not \[1, 2\]"),
        ([3, 3], torch.ones(2, 2), "key 3 of table 'words' comes twice"),
        ([1.5], torch.ones(1, 2), "keys must be whole numbers"),
        ([9, 10], torch.ones(2, 2), "key 10 is not from 0 to 9"),
        ([-1, 4], torch.ones(2, 2), "key -1 is not from 0 to 9"),
        ([1], torch.tensor([[1.0, float("nan")]]), "the vector of key 1 for table 'words' holds NaN"),
        (None, None, "worker 0 must give keys and vectors"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(keys, rows, reason, on_servers):
    def refused(client):
        fleet, model, optimizer = worker(client, rows=10)
        before = model.pull(torch.arange(5)).clone()
        with pytest.raises((InvalidArgument, NonFiniteValues), match=reason):
            fleet.load_vectors(model, keys, rows)
        assert torch.equal(model.pull(torch.arange(5)), before)
        step(model, optimizer, [1])  # it trains on
        fleet.stop_worker()

    if on_servers:
        with servers(2) as client:
            refused(client)
    else:
        refused(None)


def test_a_table_that_nobody_trains_is_named():
    fleet, _, _ = worker()
    with pytest.raises(InvalidArgument, match="the optimizer trains no table 'word'; it trains words"):
        fleet.load_vectors("word", [1], [[1.0, 2.0]])
    with pytest.raises(InvalidArgument, match=r"call flota.init_worker\(\) first"):
        Fleet().load_vectors("words", [1], [[1.0, 2.0]])


def test_servers_that_began_with_a_checkpoint_keep_it(tmp_path):
    fleet, model, optimizer = worker()
    step(model, optimizer, [1])
    fleet.save_persistables(tmp_path / "saved")
    saved = model.pull(torch.tensor([1])).clone()
    with servers(2, tmp_path / "saved") as client:
        fleet, model, optimizer = worker(client)
        assert fleet.load_vectors(model, [1], [[1.0, 2.0]]) is False
        assert torch.equal(model.pull(torch.tensor([1])), saved)
        step(model, optimizer, [1])
        fleet.stop_worker()


def job(folder, fails=False, **settings):
    launch = [sys.executable, "-m", "flota.launch", "--server_num=2", "--worker_num=2", "--log_dir", folder, SCRIPT]
    done = subprocess.run(
        [*launch, json.dumps({"out": str(folder), **settings})],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=folder,
        check=False,
        env={**os.environ, "FLOTA_TIMEOUT": "20"},
    )
    if fails:
        assert done.returncode != 0
        return done.stdout + done.stderr + "".join(path.read_text() for path in folder.glob("workerlog.*"))
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads((folder / f"worker{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("mode", ["sync", "async", "geo"])
def test_every_worker_begins_with_worker_0s_vectors(tmp_path, mode):
    for result in job(tmp_path, mode=mode):
        assert result["taken"] is True
        assert result["seen"] == [[float(i), float(i)] for i in range(1000)]
        # Both workers' gradients of 1, averaged; in async each is applied.
        expected = {"sync": -1.0, "async": -2.0, "geo": -1.0}[mode]
        assert result["trained"] == [[expected, expected], [1 + expected, 1 + expected]]


def test_every_worker_hears_what_was_wrong_with_worker_0s_vectors(tmp_path):
    said = job(tmp_path, fails=True, mode="sync", wide=3)
    assert "vectors for table 'words' must have shape [1000, 2], not [1000, 3]" in said
