"""Saving and loading as scripts do it: alone, and as a worker of servers in this process."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tables import SECRET, servers

import flota
from flota import saving
from flota.checkpoint.reader import Checkpoint
from flota.communicator.remote import Job
from flota.errors import CheckpointError, DeadlineExceeded, InvalidArgument
from flota.fleet import Fleet
from flota.nn.naming import reset_names

OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "Momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, dampening=0.5),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1, initial_accumulator_value=0.5),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.1, momentum=0.9, centered=True),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.1, amsgrad=True),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.1),
    "Adamax": lambda parameters: torch.optim.Adamax(parameters, lr=0.1),
    "Ftrl": lambda parameters: flota.optim.Ftrl(parameters, lr=0.1, l1=0.01, initial_accumulator_value=0.5),
}


class Model(torch.nn.Module):
    def __init__(self, names=("rows",)):
        super().__init__()
        torch.manual_seed(0)
        init = flota.initializer.Uniform(-1, 1)
        self.rows = torch.nn.ModuleList([flota.nn.Embedding(None, 3, name=name, init=init) for name in names])
        self.deep = torch.nn.Linear(3, 1)

    def forward(self, ids):
        return self.deep(sum(rows(ids) for rows in self.rows)).squeeze(1)


def worker(optimizer="SGD", client=None, names=("rows",), moved=0.0, mode=None):
    """A process's part: its fleet, model and optimizer; alone, or as the only worker of the client's servers."""
    reset_names()
    fleet = Fleet()
    if client is None:
        fleet.init(flota.LocalRoleMaker())
    else:
        endpoints = [server.endpoint for server in client.statistics()]
        fleet.init(flota.UserDefinedRoleMaker(0, flota.Role.WORKER, 1, endpoints))
    model = Model(names)
    with torch.no_grad():
        model.deep.weight.add_(moved)
    stepper = fleet.distributed_optimizer(OPTIMIZERS[optimizer](model.named_parameters()), mode or flota.Sync())
    fleet.init_worker()
    return SimpleNamespace(fleet=fleet, model=model, stepper=stepper)


def train(worker, first, last):
    for step in range(first, last):
        ids = torch.randint(10, (8,), generator=torch.Generator().manual_seed(step))
        worker.stepper.zero_grad()
        (worker.model(ids) - ids).square().mean().backward()
        worker.stepper.step()


def result(worker):
    rows = [table.pull(torch.arange(10)).numpy().copy() for table in worker.model.rows]
    return [*rows, *(parameter.detach().numpy().copy() for parameter in worker.model.deep.parameters())]


def assert_close(one, other):
    for mine, yours in zip(one, other, strict=True):
        np.testing.assert_allclose(mine, yours, rtol=1e-5, atol=1e-6)


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv("FLOTA_SECRET", SECRET)
    monkeypatch.setenv("FLOTA_TIMEOUT", "10")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("before", [0, 6])
def test_every_optimizer_goes_on_alone_and_on_servers(tmp_path, optimizer, before):
    straight = worker(optimizer)
    train(straight, 0, 12)
    begun = worker(optimizer)
    train(begun, 0, before)
    begun.fleet.save_persistables(tmp_path / "saved")
    rest = worker(optimizer, moved=1.0)
    rest.fleet.load_model(tmp_path / "saved")
    assert rest.stepper.steps == before
    train(rest, before, 12)
    for mine, yours in zip(result(rest), result(straight), strict=True):
        assert np.array_equal(mine, yours), "alone, bit for bit"
    with servers(2, tmp_path / "saved") as client:
        remote = worker(optimizer, client, moved=1.0)
        train(remote, before, 9)
        remote.fleet.save_persistables(tmp_path / "again")
        remote.fleet.stop_worker()
    back = worker(optimizer, moved=1.0)
    back.fleet.load_model(tmp_path / "again")
    train(back, 9, 12)
    assert_close(result(back), result(straight))


@pytest.mark.parametrize("mode", [flota.Sync(), flota.Async(), flota.Geo(k_steps=2)])
def test_every_mode_loads_in_the_middle_of_training(tmp_path, mode):
    with servers(2) as client:
        job = worker("SGD", client, mode=mode)
        train(job, 0, 5)
        job.fleet.save_persistables(tmp_path / "saved")
        job.fleet.barrier_worker()  # in async mode, a model's dense parameters may be a step behind
        saved = result(job)
        train(job, 5, 10)
        job.fleet.load_model(tmp_path / "saved")
        assert_close(result(job), saved)
        train(job, 5, 10)
        after = result(job)
        job.fleet.stop_worker()
    with servers(3, tmp_path / "saved") as client:
        job = worker("SGD", client, mode=mode, moved=1.0)
        assert_close(result(job), saved)
        train(job, 5, 10)
        if not isinstance(mode, flota.Async):  # which gives no order
            assert_close(result(job), after)
        job.fleet.stop_worker()


def test_an_optimizer_without_a_rule_is_refused_alone(tmp_path):
    reset_names()
    fleet = Fleet()
    fleet.init(flota.LocalRoleMaker())
    model = Model()
    fleet.distributed_optimizer(torch.optim.NAdam(model.parameters()), flota.Geo(k_steps=1))
    fleet.init_worker()
    with pytest.raises(InvalidArgument, match="NAdam has no server rule"):
        fleet.save_persistables(tmp_path / "saved")


def test_other_workers_write_nothing(tmp_path):
    alone = worker()
    alone.fleet._placement = flota.UserDefinedRoleMaker(1, flota.Role.WORKER, 2, ["127.0.0.1:1"]).placement()
    alone.fleet.save_persistables(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_the_manifest_says_where_it_came_from(tmp_path):
    with servers(2) as client:
        job = worker("Adam", client)
        train(job, 0, 3)
        job.fleet.save_persistables(tmp_path / "saved")
        train(job, 3, 5)  # the worker is still in its group
        job.fleet.stop_worker()
    manifest = Checkpoint(tmp_path / "saved").manifest
    assert manifest.step == 3
    assert manifest.source == {"mode": "sync", "servers": 2, "workers": 1}
    assert set(manifest.tables) == {"rows", "dense/deep.weight", "dense/deep.bias"}


def test_a_table_that_was_not_saved_is_named(tmp_path):
    one = worker()
    one.fleet.save_persistables(tmp_path / "saved")
    with pytest.raises(CheckpointError, match="saved has no table 'more', which the model has"):
        worker(names=("rows", "more")).fleet.load_model(tmp_path / "saved")
    with (
        servers(1, tmp_path / "saved") as client,
        pytest.raises(CheckpointError, match="the servers' checkpoint has no table 'more'"),
    ):
        worker(client=client, names=("rows", "more"))


def test_a_table_that_the_model_has_not_is_told(tmp_path):
    one = worker(names=("rows", "more"))
    train(one, 0, 1)
    one.fleet.save_persistables(tmp_path / "saved")
    fewer = worker(moved=1.0)
    with pytest.warns(UserWarning, match="saved has tables that the model has not: more"):
        fewer.fleet.load_model(tmp_path / "saved")
    assert np.array_equal(result(fewer)[0], result(one)[0])
    with servers(2, tmp_path / "saved") as client:
        with pytest.warns(UserWarning, match="the servers' checkpoint.*: more"):
            fewer = worker(client=client, moved=1.0)
        assert np.array_equal(result(fewer)[-1], result(one)[-1])


def test_another_rule_is_refused_before_anything_changes(tmp_path):
    one = worker("SGD")
    train(one, 0, 2)
    one.fleet.save_persistables(tmp_path / "saved")
    other = worker("Adagrad")
    train(other, 0, 3)
    before = result(other)
    with pytest.raises(CheckpointError, match="rule is SGD there and Adagrad here"):
        other.fleet.load_model(tmp_path / "saved")
    for mine, yours in zip(result(other), before, strict=True):
        assert np.array_equal(mine, yours)


@pytest.mark.parametrize("part", ["sparse", "dense"])
def test_a_damaged_file_is_refused_before_anything_changes_alone_and_on_servers(tmp_path, part):
    one = worker()
    train(one, 0, 2)
    one.fleet.save_persistables(tmp_path / "saved")
    file = tmp_path / "saved" / f"{part}-00000.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    with servers(2) as client:
        for other in (worker(), worker(client=client)):
            train(other, 0, 3)
            before = result(other)
            with pytest.raises(CheckpointError, match=f"{file.name} is damaged"):
                other.fleet.load_model(tmp_path / "saved")
            for mine, yours in zip(result(other), before, strict=True):
                assert np.array_equal(mine, yours)
            other.fleet.stop_worker()


def test_servers_with_different_checkpoints_are_refused(tmp_path):
    one = worker()
    one.fleet.save_persistables(tmp_path / "saved")
    client = SimpleNamespace(
        statistics=lambda: [
            SimpleNamespace(endpoint="a:1", values={"checkpoint": 5}, tables={}),
            SimpleNamespace(endpoint="b:2", values={"checkpoint": 0}, tables={}),
        ]
    )
    with pytest.raises(CheckpointError, match="the servers did not all begin with the same checkpoint: b:2 began"):
        saving.restored(client)


def test_loading_waits_for_all_workers_and_names_who_is_missing(tmp_path):
    one = worker()
    with servers(1) as client:
        client._session.timeout = 0.5
        with pytest.raises(DeadlineExceeded, match=r"barrier 'flota/load'.*\b1\b"):
            saving.load_remote(one.stepper, Job(client, 0, 2), tmp_path / "saved")


def test_all_workers_hear_why_worker_0_could_not_load(tmp_path):
    one = worker()
    heard = []

    def other(client):
        try:
            saving.load_remote(one.stepper, Job(client, 1, 2), tmp_path / "nowhere")
        except CheckpointError as error:
            heard.append(str(error))

    with servers(1) as client:
        thread = threading.Thread(target=other, args=(client,))
        thread.start()
        with pytest.raises(CheckpointError, match="there is no checkpoint"):
            saving.load_remote(one.stepper, Job(client, 0, 2), tmp_path / "nowhere")
        thread.join(10)
    assert "worker 0 could not load the checkpoint: there is no checkpoint at" in heard[0]


def test_saving_comes_after_init_worker(tmp_path):
    fleet = Fleet()
    fleet.init(flota.LocalRoleMaker())
    for call in (fleet.save_persistables, fleet.load_model):
        with pytest.raises(InvalidArgument, match=r"call flota.init_worker\(\) first"):
            call(tmp_path / "saved")


def test_a_job_with_servers_is_served_without(tmp_path):
    with servers(3) as client:
        job = worker("Adam", client)
        train(job, 0, 5)
        job.model.eval()
        job.fleet.save_inference_model(tmp_path / "served", job.model, (torch.arange(4),))
        expected = job.model(torch.arange(10))
        job.fleet.stop_worker()
    served = flota.load_inference_model(tmp_path / "served")
    torch.testing.assert_close(served(torch.arange(10)), expected, rtol=0, atol=1e-6)
