"""What a worker says when training cannot begin or go on."""

import re
import socket
import time
from contextlib import ExitStack

import pytest
import torch

import flota
from flota.errors import InvalidArgument, NonFiniteValues, ServerUnavailable
from flota.fleet import Fleet
from flota.testing import LocalCluster

MODES = {"sync": flota.Sync(), "async": flota.Async(), "geo": flota.Geo(k_steps=2)}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ids = flota.nn.Embedding(None, 4, name="ids")
        self.last = torch.nn.Linear(4, 1)

    def forward(self, ids):
        return self.last(self.ids(ids)).squeeze(1)


@pytest.fixture
def begin(monkeypatch):
    """Makes this process a worker, as a script would: alone, or the one worker of a job with a server of its own."""
    with ExitStack() as stack:

        def begin(mode, optimizer=torch.optim.Adagrad, endpoints=None, named=False, **settings):
            role = flota.LocalRoleMaker()
            if mode != "local":
                if endpoints is None:
                    cluster = stack.enter_context(LocalCluster(1))
                    monkeypatch.setenv("FLOTA_SECRET", cluster.secret)
                    endpoints = cluster.endpoints
                role = flota.UserDefinedRoleMaker(0, flota.Role.WORKER, 1, endpoints)
            fleet = Fleet()
            fleet.init(role)
            model = Model()
            parameters = model.named_parameters() if named else model.parameters()
            stepper = fleet.distributed_optimizer(optimizer(parameters, lr=0.1), MODES.get(mode))
            stack.callback(lambda: fleet._client and fleet._client.close())
            fleet.init_worker(**settings)
            return model, stepper

        yield begin


def train(model, stepper, steps):
    for _ in range(steps):
        loss = model(torch.arange(6)).square().mean()
        stepper.zero_grad()
        loss.backward()
        stepper.step()


@pytest.fixture
def nobody():
    """The endpoint of a port at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("by", ["argument", "environment"])
def test_a_server_that_is_missing_is_named_when_the_deadline_is_over(begin, nobody, monkeypatch, by):
    monkeypatch.setenv("FLOTA_SECRET", "x" * 32)
    if by == "environment":
        monkeypatch.setenv("FLOTA_TIMEOUT", "0.5")
    settings = {"timeout": 0.5} if by == "argument" else {}
    began = time.monotonic()
    with pytest.raises(ServerUnavailable, match=nobody):
        begin("sync", endpoints=[nobody], **settings)
    assert 0.4 < time.monotonic() - began < 10, "not at once, and not after the usual 30 s"


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_an_optimizer_without_a_server_rule_is_refused_by_name(begin, mode):
    with pytest.raises(InvalidArgument, match=r"NAdam has no server rule; use one of SGD, Adagrad, .* or Geo mode"):
        begin(mode, torch.optim.NAdam)


@pytest.mark.parametrize("mode", ["local", "sync", "async", "geo"])
def test_a_nan_is_reported_with_worker_step_and_table_and_changes_nothing(begin, mode):
    model, stepper = begin(mode)
    train(model, stepper, 3)
    keys = torch.arange(6)
    stepper.communicator.settle()
    before = model.ids.pull(keys)
    loss = (model(keys) * torch.nan).mean()
    stepper.zero_grad()
    loss.backward()
    with pytest.raises(NonFiniteValues, match=r"worker 0, step 4: the gradient of table 'ids' holds a NaN"):
        stepper.step()
    assert torch.equal(model.ids.pull(keys), before)
    # The loop that skips such a batch goes on.
    train(model, stepper, 2)
    assert stepper.steps == 5


@pytest.mark.parametrize("mode", ["local", "sync", "async", "geo"])
@pytest.mark.parametrize(
    ("named", "says"), [(True, r"parameter 'last\.bias'"), (False, r"parameter 2 of group 0 \(shape \[1\]\)")]
)
def test_an_infinite_gradient_of_a_dense_parameter_names_it(begin, mode, named, says):
    model, stepper = begin(mode, named=named)
    before = model.last.bias.detach().clone()
    model(torch.arange(6)).mean().backward()
    model.last.bias.grad.fill_(torch.inf)
    with pytest.raises(NonFiniteValues, match=says):
        stepper.step()
    assert torch.equal(model.last.bias, before)


def test_gradients_whose_sum_overflows_are_finite_all_the_same(begin):
    model, stepper = begin("local", torch.optim.SGD)
    model(torch.arange(6)).mean().backward()
    model.last.weight.grad.fill_(3e38)
    stepper.step()
    assert torch.isfinite(model.last.weight).all()


def test_the_effective_configuration_is_printed_by_the_first_worker(begin, capsys):
    begin("async", timeout=12)
    servers, settings = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"flota: 1 workers, servers 127\.0\.0\.1:\d+, Adagrad, timeout 12 s", servers)
    assert settings.startswith("flota: mode=async ")
    assert "send_queue_size=16" in settings
    assert "split_method=RoundRobin" in settings


def test_alone_there_is_nothing_to_print(begin, capsys):
    begin("local")
    assert capsys.readouterr().err == ""
