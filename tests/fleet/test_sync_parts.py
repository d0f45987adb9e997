"""Sync mode in one process: two workers, each in a thread of its own."""

import threading

import pytest
import torch

from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import Job, RemoteTables
from flota.communicator.sync import SyncCommunicator
from flota.errors import FlotaError, InvalidArgument, NonFiniteValues
from flota.initializer import Constant
from flota.nn import Embedding
from flota.nn.naming import reset_names
from flota.strategy import DistributedStrategy, Sync
from flota.testing import LocalCluster


class Worker:
    def __init__(self, cluster, rank, world, **strategy):
        reset_names()
        self.table = Embedding(None, 1, init=Constant(0.0), name="rows")
        self.layers = [torch.nn.Linear(1, 1, bias=False) for _ in range(2)]
        groups = [{"params": layer.named_parameters()} for layer in self.layers]
        groups.append({"params": self.table.named_parameters()})
        self.optimizer = DistributedOptimizer(torch.optim.SGD(groups, lr=1.0))
        self.job = Job(cluster.client(), rank, world)
        self.strategy = DistributedStrategy(Sync(), **strategy)

    def connect(self):
        tables = RemoteTables(self.job, self.optimizer, self.strategy)
        self.optimizer.communicator = SyncCommunicator(tables, self.optimizer, self.job.rejoin())

    def rows(self):
        return self.table.pull(torch.arange(4)).reshape(-1).tolist()


@pytest.fixture
def cluster():
    with LocalCluster(servers=2) as servers:
        yield servers


def together(workers, act):
    failures = []

    def run(worker):
        try:
            act(worker)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_a_worker_without_a_gradient_weighs_nothing(cluster):
    workers = [Worker(cluster, rank, 2) for rank in range(2)]
    together(workers, Worker.connect)
    workers[0].table(torch.tensor([1])).sum().backward()
    together(workers, lambda worker: worker.optimizer.step())
    assert workers[1].rows() == [0, -1, 0, 0]


def test_a_script_may_say_how_many_samples_a_gradient_is_of(cluster):
    """One sample each, of one id and of three: the mean of both sums."""
    workers = [Worker(cluster, rank, 2) for rank in range(2)]
    together(workers, Worker.connect)
    workers[0].table(torch.tensor([1])).sum().backward()
    workers[1].table(torch.tensor([1, 2, 3])).sum().backward()
    together(workers, lambda worker: worker.optimizer.step(samples=1))
    assert workers[0].rows() == [0, -1, -0.5, -0.5]


def test_parameters_of_one_name_in_two_groups_are_two(cluster):
    worker = Worker(cluster, 0, 1)
    first, second = (layer.weight.detach().clone() for layer in worker.layers)
    worker.connect()
    assert torch.equal(worker.layers[0].weight, first)
    assert torch.equal(worker.layers[1].weight, second)


def test_a_parameter_that_was_frozen_at_the_start_cannot_learn_silently(cluster):
    worker = Worker(cluster, 0, 1)
    worker.layers[0].requires_grad_(False)
    worker.connect()
    worker.layers[0].requires_grad_(True)
    worker.layers[0](torch.ones(1, 1)).sum().backward()
    with pytest.raises(InvalidArgument, match=r"parameter '0\.weight' had requires_grad=False"):
        worker.optimizer.step()


def test_a_step_that_is_refused_leaves_no_part_behind(cluster):
    worker = Worker(cluster, 0, 1, dense_dtype="float16")
    worker.connect()
    worker.table(torch.tensor([1])).sum().backward()
    (worker.layers[0](torch.ones(1, 1)) * 1e6).sum().backward()
    with pytest.raises(NonFiniteValues, match="float16 cannot hold"):
        worker.optimizer.step()
    worker.optimizer.zero_grad()
    worker.table(torch.tensor([2])).sum().backward()
    worker.optimizer.step()
    assert worker.rows() == [0, 0, -1, 0]


def test_after_a_step_that_was_sent_in_part_training_does_not_go_on(cluster):
    worker = Worker(cluster, 0, 1)
    worker.connect()
    worker.table(torch.tensor([1])).sum().backward()
    push = worker.optimizer.communicator._push

    def interrupted(optimizer):
        push(optimizer)
        raise KeyboardInterrupt

    worker.optimizer.communicator._push = interrupted
    with pytest.raises(KeyboardInterrupt):
        worker.optimizer.step()
    worker.optimizer.communicator._push = push
    with pytest.raises(FlotaError, match="an earlier step failed after part of it was sent"):
        worker.optimizer.step()


def test_hooks_of_the_optimizer_run(cluster):
    worker = Worker(cluster, 0, 1)
    worker.connect()
    ran = []
    worker.optimizer.register_step_pre_hook(lambda *_: ran.append("before"))
    worker.optimizer.register_step_post_hook(lambda *_: ran.append("after"))
    worker.table(torch.tensor([1])).sum().backward()
    worker.optimizer.step()
    assert ran == ["before", "after"]
