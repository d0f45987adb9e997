"""What an async job's workers see of others that come and go."""

import threading

import pytest
import torch

import flota
from flota import workers
from flota._core import TeamPart
from flota.communicator.async_ import AsyncCommunicator
from flota.communicator.membership import Membership
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import Job, RemoteTables
from flota.data import InMemoryDataset, QueueDataset, Slot
from flota.errors import InvalidArgument
from flota.strategy import Async, DistributedStrategy
from flota.testing import LocalCluster

TIME = 30_000


@pytest.fixture
def fresh():
    with LocalCluster(2) as cluster:
        yield cluster


class Worker:
    """One of an async job, with a model of one table."""

    def __init__(self, cluster, rank, world):
        self.client = cluster.client(worker=rank + 1, epoch=1, timeout=30)
        self.member = Membership(self.client, rank, world)
        self.job = Job(self.client, rank, 0, self.member)
        rejoined = self.job.rejoin()
        self.embedding = flota.nn.Embedding(None, 1, name="rows", init=flota.initializer.Constant(0.0))
        self.optimizer = DistributedOptimizer(torch.optim.SGD(self.embedding.parameters(), lr=1.0))
        mode = Async(launch_barrier=False)
        tables = RemoteTables(self.job, self.optimizer, DistributedStrategy(mode))
        self.optimizer.communicator = AsyncCommunicator(tables, mode, self.optimizer, rejoined)

    def step(self, key=1):
        self.optimizer.zero_grad()
        self.embedding(torch.tensor([key])).sum().backward()
        self.optimizer.step()

    def meet(self, name, said=b"", timeout=None):
        return self.client.gather(name, said, rank=self.job.rank, world=0, timeout=timeout)

    def scale(self, workers):
        return self.client.native.team(TeamPart.scale, TIME, workers=workers)


def test_a_worker_by_hand_joins_when_it_may(fresh):
    first = Worker(fresh, 0, 1)
    with pytest.raises(InvalidArgument, match=r"worker 1 is none of this job's 1 worker: `flota scale --workers 2`"):
        Worker(fresh, 1, 2)
    first.scale(2)
    second = Worker(fresh, 1, 2)
    assert second.member.late
    assert second.member.workers == 2
    second.step()
    second.optimizer.communicator.settle()
    # What servers have counted tells a push that was not made from one that was taken for another.
    assert first.client.table("rows").pull([1]).tolist() == [[-1.0]], first.client.statistics()


def test_others_wait_for_a_worker_that_is_still_on_its_way(fresh):
    first = Worker(fresh, 0, 1)
    for number in range(3):
        assert first.meet("meet", b"%d" % number) == [b"%d" % number]
    first.scale(2)
    second = Worker(fresh, 1, 2)
    found = []
    waits = threading.Thread(target=lambda: found.append(first.meet("meet", b"3", timeout=1.0)))
    waits.start()
    # It comes by what was held before, later than the other's deadline; its steps show that it lives.
    for number in range(3):
        waits.join(0.7)
        second.optimizer.communicator._way._heard = 0.0  # not in two seconds
        second.step()
        assert second.meet("meet", b"late") == [b"%d" % number]
    assert second.meet("meet", b"too") == [b"3", b"too"]
    waits.join(30)
    assert found == [[b"3", b"too"]]


def test_a_worker_that_has_left_is_not_waited_for_and_its_number_begins_anew(fresh):
    first, second = Worker(fresh, 0, 2), Worker(fresh, 1, 2)
    second.step()
    second.optimizer.communicator.settle()
    first.scale(1)
    second.member._heard = 0.0  # it asks once a second
    assert second.member.look()
    second.member.leave()
    assert first.meet("meet", b"alone") == [b"alone"]
    with pytest.raises(InvalidArgument, match="worker 1 is none of this job's: it has not joined it, or has left"):
        second.meet("another")
    first.scale(2)
    again = Worker(fresh, 1, 2)
    assert again.member.late
    assert again.optimizer.communicator._way.made == 0
    assert first.client.table("rows").pull([1]).tolist() == [[-1.0]]


def test_a_worker_leaves_after_a_step_and_not_in_the_middle_of_a_data_set(fresh, tmp_path):
    first, second = Worker(fresh, 0, 2), Worker(fresh, 1, 2)
    gone = []
    second.member.when_asked(lambda: gone.append(second.optimizer.steps))
    first.scale(1)
    second.member._heard = 0.0
    (tmp_path / "part").write_text("1 7 1 0.5\n" * 30)
    dataset = QueueDataset()
    dataset.init(10, 1, use_var=[Slot("key", (1,)), Slot("label", (1,), "float32")])
    dataset.set_filelist([str(tmp_path / "part")])
    batches = iter(dataset)
    next(batches)
    second.step()
    assert not gone
    batches.close()
    second.step()
    assert gone == [2]


class Team(workers.Alone):
    """A worker of several, whose data sets say what they depend on."""

    count = 2

    def __init__(self):
        self.fixed = []

    def fixed_by(self, what):
        self.fixed.append(what)


def test_data_that_is_shared_by_number_says_so(tmp_path):
    (tmp_path / "part").write_text("1 7 1 0.5\n" * 30)
    team = Team()
    before = workers.current()
    workers.meet(team)
    try:
        for kind, sharing, fixes in (
            (QueueDataset, "static", True),
            (QueueDataset, "none", False),
            (InMemoryDataset, None, True),
            (InMemoryDataset, "none", False),
        ):
            team.fixed.clear()
            dataset = kind()
            dataset.init(10, 1, use_var=[Slot("key", (1,)), Slot("label", (1,), "float32")], sharing=sharing)
            dataset.set_filelist([str(tmp_path / "part")])
            if kind is InMemoryDataset:
                dataset.load_into_memory()
            for _ in dataset:
                pass
            assert bool(team.fixed) == fixes, (kind, sharing)
    finally:
        workers.meet(before)
