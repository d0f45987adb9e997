"""A process that is a worker of one job after another, as a notebook is."""

import pytest
import torch

import flota
from flota.errors import InvalidArgument, ServerUnavailable
from flota.fleet import Fleet
from flota.testing import LocalCluster

MODES = [flota.Sync(), flota.Async(), flota.Geo(k_steps=2)]


def rows(dim=4):
    return flota.nn.Embedding(None, dim, name="several_jobs")


def begin(fleet, model, mode, cluster=None):
    servers = cluster and flota.UserDefinedRoleMaker(0, flota.Role.WORKER, 1, cluster.endpoints)
    fleet.init(servers or flota.LocalRoleMaker())
    optimizer = fleet.distributed_optimizer(torch.optim.Adagrad(model.parameters(), lr=0.1), mode)
    fleet.init_worker(timeout=1.0 if cluster else None)
    return optimizer


def step(model, optimizer):
    loss = model(torch.arange(6)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_a_worker_whose_servers_are_gone_may_begin_another_job(monkeypatch, mode):
    fleet, model = Fleet(), rows()
    with LocalCluster(1) as cluster:
        monkeypatch.setenv("FLOTA_SECRET", cluster.secret)
        optimizer = begin(fleet, model, mode, cluster)
        step(model, optimizer)
        cluster.crash(0)
        with pytest.raises(ServerUnavailable):
            fleet.stop_worker()
    fleet.stop_worker()  # it has stopped
    with LocalCluster(1) as cluster:
        monkeypatch.setenv("FLOTA_SECRET", cluster.secret)
        optimizer = begin(fleet, model, mode, cluster)
        step(model, optimizer)
        fleet.stop_worker()


def test_a_model_may_be_made_anew_with_other_settings_when_its_job_is_over():
    fleet, model = Fleet(), rows(dim=4)
    step(model, begin(fleet, model, flota.Async()))
    with pytest.raises(InvalidArgument, match="other settings"):
        rows(dim=8)
    fleet.stop_worker()
    larger = rows(dim=8)
    step(larger, begin(fleet, larger, flota.Async()))
    assert larger(torch.arange(6)).shape == (6, 8)
    with pytest.raises(InvalidArgument, match="other settings"):
        rows(dim=4)
    fleet.stop_worker()


def test_a_model_that_trains_again_keeps_its_name():
    fleet, model = Fleet(), rows(dim=4)
    for _ in range(2):
        step(model, begin(fleet, model, flota.Async()))
        with pytest.raises(InvalidArgument, match="other settings"):
            rows(dim=8)
        fleet.stop_worker()
