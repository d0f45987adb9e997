"""On a GPU: the same training as on the CPU. Tolerances are those of float32 sums in another order."""

import pytest
import torch

import flota
from flota.communicator.async_ import AsyncCommunicator
from flota.communicator.geo import GeoCommunicator
from flota.communicator.local import LocalCommunicator
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import Job, RemoteTables
from flota.communicator.sync import SyncCommunicator
from flota.initializer import Uniform
from flota.nn import Embedding, EmbeddingBag, EmbeddingCollection
from flota.nn.naming import reset_names
from flota.strategy import Async, DistributedStrategy, Geo, Sync
from flota.testing import LocalCluster

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

STEPS, KEYS = 20, 50


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        init = Uniform(-1, 1)
        self.user = Embedding(None, 4, init=init, name="user")
        self.bag = EmbeddingBag(None, 4, mode="mean", padding_idx=0, init=init, name="bag")
        self.item = EmbeddingCollection(3, 4, init=init, name="item")
        self.deep = torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))

    def forward(self, ids):
        rows = [self.user(ids[:, 0]), self.bag(ids[:, 1:2]), self.item(ids[:, 4:]).flatten(1)]
        return self.deep(torch.cat(rows, dim=1)).squeeze(1)


def batches():
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        ids = torch.randint(0, KEYS, (32, 7), generator=generator)
        yield ids, torch.sin(ids.sum(dim=1).float())


def connect(optimizer, client, mode):
    if mode is None:
        return LocalCommunicator(optimizer)
    tables = RemoteTables(Job(client, 0, 1), optimizer, DistributedStrategy(mode))
    if isinstance(mode, Geo):
        return GeoCommunicator(tables, mode, optimizer, tables.job.rejoin())
    if isinstance(mode, Sync):
        return SyncCommunicator(tables, optimizer, tables.job.rejoin())
    return AsyncCommunicator(tables, mode, optimizer, tables.job.rejoin())


def trained(device, mode, make, ahead):
    reset_names()
    model = Model().to(device)
    optimizer = DistributedOptimizer(make(model.parameters()))
    with LocalCluster(servers=2) as cluster:
        optimizer.communicator = connect(optimizer, cluster.client(), mode)
        loader = flota.prefetch(batches(), model, device=device) if ahead else batches()
        for ids, target in loader:
            loss = torch.nn.functional.mse_loss(model(ids.to(device)), target.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        optimizer.communicator.pause()
        optimizer.communicator.resume()
        keys = torch.arange(KEYS, device=device)
        rows = [module.pull(keys).cpu() for module in (model.user, model.bag, model.item)]
        assert model.user.pull(keys).device.type == device
    return [*rows, *(p.detach().cpu() for p in model.deep.parameters())]


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("mode", [None, Sync(), Geo(7)], ids=["local", "sync", "geo"])
@pytest.mark.parametrize(
    "make",
    [lambda p: torch.optim.SGD(p, lr=0.1), lambda p: torch.optim.Adam(p, lr=0.01)],
    ids=["SGD", "Adam"],
)
def test_a_gpu_trains_as_the_cpu_does(mode, make, ahead):
    for mine, theirs in zip(trained("cuda", mode, make, ahead), trained("cpu", mode, make, False), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


def test_an_optimizer_without_a_rule_trains_rows_on_a_gpu():
    def make(parameters):
        return torch.optim.NAdam(parameters, lr=0.01)

    for mine, theirs in zip(trained("cuda", Geo(7), make, True), trained("cpu", Geo(7), make, False), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


def test_async_trains_on_a_gpu():
    rows = trained("cuda", Async(), lambda p: torch.optim.Adagrad(p, lr=0.05), True)
    assert all(bool(values.isfinite().all()) for values in rows)
