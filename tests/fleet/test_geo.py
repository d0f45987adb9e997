"""Geo mode: copies that workers train, and what they exchange."""

import threading

import numpy as np
import pytest
import torch
from test_modes import BATCH, STEPS, alone, run  # noqa: F401

from flota.communicator.geo import GeoCommunicator
from flota.communicator.local import LocalCommunicator
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import Job, RemoteTables
from flota.errors import InvalidArgument
from flota.initializer import Uniform
from flota.nn import Embedding
from flota.nn.naming import reset_names
from flota.strategy import DistributedStrategy, Geo
from flota.testing import LocalCluster

WORKERS, KEYS, DIM, K_STEPS = 2, 10, 3, 4


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "NAdam", "Rprop"])
def test_one_worker_trains_as_torch_does(tmp_path, alone, optimizer):  # noqa: F811
    """With nobody to average with, exchanges change nothing. NAdam and Rprop have no server rule."""
    trained = run(tmp_path, "geo", optimizer, servers=2, workers=1)
    for name, values in alone(optimizer).items():
        np.testing.assert_allclose(trained[name], values, rtol=1e-4, atol=1e-5, err_msg=name)


def test_training_alone_takes_any_optimizer_as_geo_does(tmp_path, alone):  # noqa: F811
    trained = run(tmp_path, "geo", "NAdam", servers=0, workers=1)
    for name, values in alone("NAdam").items():
        np.testing.assert_allclose(trained[name], values, rtol=1e-5, atol=1e-6, err_msg=name)


def test_two_workers_learn_and_uneven_data_hangs_nobody(tmp_path):
    trained = run(tmp_path, "uneven geo", "Adagrad", servers=2, workers=2, steps=200)
    assert trained["loss"][-20:].mean() < 0.7 * trained["loss"][:5].mean()


class Worker:
    """One of several workers in this process, each with a client of its own."""

    def __init__(self, cluster, rank, make, settings):
        torch.manual_seed(7)
        self.embedding = Embedding(None, DIM, init=Uniform(-1, 1), name="rows")
        self.linear = torch.nn.Linear(DIM, 1)
        parameters = [*self.embedding.parameters(), *self.linear.parameters()]
        self.optimizer = DistributedOptimizer(make(parameters, **settings))
        self.job = Job(cluster.client(), rank, WORKERS)

    def connect(self):
        tables = RemoteTables(self.job, self.optimizer, DistributedStrategy(Geo(K_STEPS)))
        self.optimizer.communicator = GeoCommunicator(tables, Geo(K_STEPS), self.optimizer, tables.job.rejoin())

    def step(self, keys):
        loss = self.linear(self.embedding(keys)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def rows(self):
        return self.embedding.pull(torch.arange(KEYS))


@pytest.fixture
def workers():
    with LocalCluster(servers=2) as cluster:
        made = []
        for rank in range(WORKERS):
            reset_names()  # as another process would
            made.append(Worker(cluster, rank, torch.optim.SGD, {"lr": 0.5}))
        threads = [threading.Thread(target=worker.connect) for worker in made]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        yield made


def test_an_exchange_sends_a_share_and_takes_over_what_servers_have(workers):
    """Against the definition, round by round: copies, differences by the number of workers, sums."""
    rows = workers[0].rows().clone()  # as servers should have them
    dense = [p.detach().clone() for p in workers[0].linear.parameters()]
    generator = torch.Generator().manual_seed(1)
    copies = [dict[int, torch.Tensor]() for _ in workers]
    dense_copies = [[p.clone() for p in dense] for _ in workers]
    for _ in range(6):
        for worker, copy, dense_copy in zip(workers, copies, dense_copies, strict=True):
            communicator = worker.optimizer.communicator
            communicator._k_steps = 1 << 30  # exchanges when it is told
            touched = set()
            for _ in range(K_STEPS):
                keys = torch.randint(0, KEYS, (4,), generator=generator)
                touched |= set(keys.tolist())
                worker.step(keys)
            now = worker.rows()
            for key in touched:
                rows[key] += (now[key] - copy.get(key, rows[key])) / WORKERS
            for total, p, was in zip(dense, worker.linear.parameters(), dense_copy, strict=True):
                total += (p.detach() - was) / WORKERS
            communicator.exchange()
            torch.testing.assert_close(worker.rows(), rows, rtol=0, atol=1e-5)
            torch.testing.assert_close([p.detach() for p in worker.linear.parameters()], dense, rtol=0, atol=1e-5)
            copy |= {key: rows[key].clone() for key in touched | set(copy)}
            dense_copy[:] = [p.clone() for p in dense]


def test_rows_pulled_ahead_of_an_exchange_are_not_older_than_what_it_told(workers):
    first, second = workers
    keys = first.embedding.weight.store.route(torch.tensor([3]))
    ahead = first.embedding.weight.store.pull_ahead(keys, True, torch.device("cpu"))
    second.step(torch.tensor([3]))
    second.optimizer.communicator.exchange()
    first.optimizer.communicator.exchange()
    torch.testing.assert_close(ahead.rows()[0], second.rows()[3], rtol=0, atol=1e-6)


def test_rows_that_are_looked_at_are_not_made(workers):
    first = workers[0]
    first.embedding.eval()
    first.rows()
    assert first.job.client.table("rows").rows() == 0


def test_a_row_keeps_its_state_between_the_steps_that_use_it():
    """Momentum is by row: a row that a step does not use neither moves nor forgets."""
    reset_names()
    embedding = Embedding(None, 2, init=Uniform(-1, 1))
    optimizer = DistributedOptimizer(torch.optim.NAdam(embedding.parameters(), lr=0.1))
    optimizer.communicator = LocalCommunicator(optimizer, any_optimizer=True)
    plain = torch.nn.Embedding(2, 2)
    with torch.no_grad():
        plain.weight.copy_(embedding.pull(torch.arange(2)))
    theirs = torch.optim.NAdam(plain.parameters(), lr=0.1)
    for step in range(6):
        keys = torch.tensor([0]) if step % 2 else torch.tensor([0, 1])
        before = embedding.pull(torch.arange(2))
        optimizer.zero_grad()
        embedding(keys).square().sum().backward()
        optimizer.step()
        if step % 2:
            assert torch.equal(embedding.pull(torch.arange(2))[1], before[1])
        theirs.zero_grad()
        plain(torch.tensor([0])).square().sum().backward()
        theirs.step()
    torch.testing.assert_close(embedding.pull(torch.tensor([0])), plain.weight[:1].detach())


def test_an_optimizer_that_cannot_train_rows_is_refused():
    reset_names()
    embedding = Embedding(None, 2)
    optimizer = DistributedOptimizer(torch.optim.LBFGS(embedding.parameters()))
    with pytest.raises(InvalidArgument, match="LBFGS cannot train the rows of table 'embedding_0'"):
        LocalCommunicator(optimizer, any_optimizer=True)
