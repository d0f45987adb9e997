"""The parts of async training, in one process with real servers: the queue, merging, receiving, filling."""

import threading

import numpy as np
import pytest
import torch

from flota.communicator.async_ import AsyncCommunicator
from flota.communicator.merging import RowsGradient, StepGradients
from flota.communicator.optimizer import DistributedOptimizer
from flota.communicator.remote import Job, RemoteTables, Versions
from flota.communicator.sending import SendQueue
from flota.errors import DeadlineExceeded, FlotaError, NonFiniteValues
from flota.nn import Embedding
from flota.rules import SGD, Adagrad
from flota.strategy import Async, DistributedStrategy, Sync
from flota.tables import RowPage
from flota.testing import LocalCluster

FOR_EVER = 1 << 20  # times 10 ms


@pytest.fixture
def fresh(start_cluster):
    """Two servers of the test's own: what dense tables are called follows from the model."""
    with LocalCluster(2) as cluster:
        yield cluster


def gradients_of(table, step, keys, values, lr=1.0):
    batch = table.make_batch()
    keys = torch.tensor(keys)
    places = torch.empty(len(keys), dtype=torch.int32)
    batch.route(keys.data_ptr(), len(keys), places.data_ptr())
    ordered = torch.empty(len(keys), table.dim)
    ordered[places.long()] = torch.tensor(values)
    return StepGradients(step, [RowsGradient(table, batch, ordered, lr)], [], Versions(0, 0))


def statistic(client, table, what):
    return sum(server.tables[table][what] for server in client.statistics())


def test_steps_are_merged_into_one_push(client, name):
    """Rows of equal keys are summed, and the rule sees the sum once, with the newest learning rate."""
    table = client.create_sparse_table(name, dim=1, rule=Adagrad(lr=1.0, eps=0.0))
    queue = SendQueue(client, Async(max_merge_var_num=3, send_wait_times=FOR_EVER))
    queue.put(gradients_of(table, 1, [1, 2], [[1.0], [1.0]]))
    queue.put(gradients_of(table, 2, [2, 3], [[2.0], [2.0]]))
    queue.put(gradients_of(table, 3, [2], [[3.0]], lr=0.5))
    while queue.settle(3) > 0:  # the third completes the push: it goes out without being hurried
        pass
    # Adagrad's first step is the learning rate, whatever the gradient: six pushes of one would have gone further.
    assert torch.as_tensor(table.pull([1, 2, 3])).flatten().tolist() == [-0.5, -0.5, -0.5]
    rows = {int(key): page.state[i] for page in table.export() for i, key in enumerate(page.keys)}
    assert rows[2] == 36.0, "the square of the sum"
    assert statistic(client, name, "rows_pushed") == 3
    assert queue.gone_out() == 3


def test_merged_gradients_are_as_stale_as_the_oldest(client, name):
    table = client.create_sparse_table(name, dim=1, rule=SGD(lr=1.0))
    steps = [gradients_of(table, step, [7], [[1.0]]) for step in (1, 2)]
    out = torch.empty(1, 1)
    table.pull_batch(steps[0].rows[0].batch, out)
    table.push([7], [[1.0]])
    table.pull_batch(steps[1].rows[0].batch, out)
    queue = SendQueue(client, Async(max_merge_var_num=2, send_wait_times=FOR_EVER))
    for step in steps:
        queue.put(step)
    queue.settle(0)
    assert statistic(client, name, "staleness_count") == 1
    assert statistic(client, name, "staleness_sum") == 1


@pytest.mark.parametrize("threads", [1, 4])
def test_whoever_waits_does_not_wait_for_gradients_that_will_not_come(client, name, threads):
    """Sending would wait for ever for a fourth step."""
    table = client.create_sparse_table(name, dim=1, rule=SGD(lr=1.0))
    queue = SendQueue(client, Async(max_merge_var_num=4, send_wait_times=FOR_EVER, thread_pool_size=threads))
    for step in range(2):
        queue.put(gradients_of(table, step, [7], [[1.0]]))
    assert queue.settle(0) == 0
    assert torch.as_tensor(table.pull([7])).item() == -2.0


@pytest.mark.parametrize("mode", [Async(send_queue_size=2), Async(max_merge_var_num=2, send_queue_size=2)])
def test_a_full_queue_makes_the_step_wait(fresh, mode):
    client = fresh.client(timeout=1.0)
    table = client.create_sparse_table("rows", dim=1, rule=SGD(lr=1.0))
    queue = SendQueue(client, mode)
    for server in range(2):
        fresh.pause(server)
    put = []

    def put_many():
        for step in range(9):
            queue.put(gradients_of(table, step, [1, 2, 3, 4], [[1.0]] * 4))
            put.append(step)

    with pytest.raises(DeadlineExceeded, match=r"the gradients of step \d were lost: push to table 'rows'"):
        put_many()
    assert len(put) < 9, "it waited for one of the steps before"
    for server in range(2):
        fresh.resume(server)


@pytest.mark.parametrize("mode", [Async(), Async(max_merge_var_num=2)])
def test_a_push_that_fails_is_told_at_the_latest_when_all_is_settled(client, name, mode):
    table = client.create_sparse_table(name, dim=1, rule=SGD(lr=1.0))
    queue = SendQueue(client, mode)
    queue.put(gradients_of(table, 41, [7], [[float("nan")]]))
    with pytest.raises(NonFiniteValues, match=f"the gradients of step 41 were lost: push to table '{name}'.*key 7"):
        queue.settle(0)
    queue.put(gradients_of(table, 42, [7], [[1.0]]))
    queue.settle(0)
    assert torch.as_tensor(table.pull([7])).item() == -1.0


class Worker:
    """A worker of a job, in this process."""

    def __init__(self, cluster, rank, world, strategy, start=0.0, timeout=30.0):
        torch.manual_seed(1)
        self.table = Embedding(None, 2, name="rows")
        self.layer = torch.nn.Linear(2, 3)
        torch.nn.init.constant_(self.layer.weight, start)
        parameters = [*self.table.parameters(), *self.layer.parameters()]
        self.optimizer = DistributedOptimizer(torch.optim.SGD(parameters, lr=0.1))
        self.client = cluster.client(worker=rank + 1, timeout=timeout)
        self.strategy = strategy
        self.tables = RemoteTables(Job(self.client, rank, world), self.optimizer, strategy)

    def begin(self):
        self.optimizer.communicator = AsyncCommunicator(
            self.tables, self.strategy.mode, self.optimizer, self.tables.job.rejoin()
        )

    def step(self):
        loss = self.layer(self.table(torch.tensor([1, 2, 3]))).sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


NO_BARRIER = DistributedStrategy(Async(launch_barrier=False))


def test_without_a_barrier_workers_wait_only_until_parameters_are_filled(fresh):
    impatient = Worker(fresh, 1, 3, NO_BARRIER, start=1.0, timeout=0.3)
    with pytest.raises(
        DeadlineExceeded, match=r"worker 1 waited 0\.\d s for worker 0 to fill 'dense/0\.1', 'dense/0\.2'"
    ):
        impatient.begin()
    second = Worker(fresh, 1, 3, NO_BARRIER, start=1.0)
    waiting = threading.Thread(target=second.begin)
    waiting.start()
    first = Worker(fresh, 0, 3, NO_BARRIER, start=5.0)
    first.begin()  # nobody waits for worker 2
    waiting.join()
    assert second.layer.weight.tolist() == first.layer.weight.tolist() == [[5.0, 5.0]] * 3


def test_filled_parameters_are_not_filled_again(fresh):
    """A server that has loaded a checkpoint keeps what it loaded."""
    earlier = Worker(fresh, 0, 1, NO_BARRIER)
    weight, bias = (dense.table for dense in earlier.tables.dense)
    loaded = np.arange(6, dtype=np.float32)
    one = np.ones(1, dtype=np.uint64)
    weight.import_rows(RowPage(np.zeros(1, np.int64), one, one, loaded.reshape(1, 6), np.zeros((1, 0), np.float32)))
    worker = Worker(fresh, 0, 1, NO_BARRIER, start=5.0)
    mine = worker.layer.bias.tolist()
    worker.begin()
    assert worker.layer.weight.flatten().tolist() == loaded.tolist()
    assert torch.as_tensor(bias.pull()).tolist() == mine, "what nobody has loaded is filled"


@pytest.mark.parametrize("every", [1, 4])
def test_dense_parameters_are_received_after_so_many_steps(fresh, every):
    worker = Worker(fresh, 0, 1, DistributedStrategy(Async(min_send_grad_num_before_recv=every)))
    worker.begin()
    before = statistic(worker.client, "dense/0.1", "pulls")
    for _ in range(12):
        worker.step()
    worker.optimizer.communicator.pause()
    assert statistic(worker.client, "dense/0.1", "pulls") - before == 12 // every + 1, "and once in the pause"


def test_a_parameter_that_nobody_changes_is_not_sent_again(fresh):
    worker = Worker(fresh, 0, 1, DistributedStrategy(Async()))
    worker.begin()
    name = worker.tables.dense[0].table.name
    before = statistic(worker.client, name, "elements_pulled")
    for _ in range(5):
        worker.optimizer.zero_grad()
        worker.layer.bias.sum().backward()
        worker.optimizer.step()
    worker.optimizer.communicator.pause()
    received = statistic(worker.client, name, "elements_pulled") - before
    assert received <= 2 * 6, "once by the first pull, once in the pause"
    bias = worker.tables.dense[1].table.name
    assert statistic(worker.client, bias, "elements_pulled") >= 5 * 3


def test_a_gradient_too_large_for_float16_is_refused(fresh):
    worker = Worker(fresh, 0, 1, DistributedStrategy(Async(), dense_dtype="float16"))
    worker.begin()
    before = worker.layer.bias.detach().clone()
    row = worker.table.pull(torch.tensor([1]))
    loss = worker.layer(worker.table(torch.tensor([1]))).sum() * 1e6
    loss.backward()
    with pytest.raises(NonFiniteValues, match=r"the gradients of step 1 were lost: .*which float16 cannot hold"):
        worker.optimizer.step()
    worker.optimizer.communicator.pause()
    assert torch.equal(worker.layer.bias, before)
    assert torch.equal(worker.table.pull(torch.tensor([1])), row), "nothing of the step was sent"


def test_a_worker_that_waits_too_long_names_the_slow_ones(fresh):
    strategy = DistributedStrategy(Async(max_staleness=2, launch_barrier=False))
    fast = Worker(fresh, 0, 2, strategy, timeout=1.0)
    fast.begin()
    slow = Worker(fresh, 1, 2, strategy)
    slow.begin()
    slow.step()
    for _ in range(3):
        fast.step()
    with pytest.raises(DeadlineExceeded, match=r"worker 0 waited 0\.9 s for step 2: worker 1 is at step 1"):
        fast.step()
    slow.optimizer.communicator.pause()  # who waits elsewhere holds nobody up


def test_zero_grad_leaves_gradients_under_way_alone(fresh):
    worker = Worker(fresh, 0, 1, DistributedStrategy(Async(independent_recv_thread=True)))
    worker.begin()
    table = worker.tables.sparse[0].store.table
    before = torch.as_tensor(table.pull([1])).clone()
    worker.table(torch.tensor([1])).sum().backward()
    for server in range(2):
        fresh.pause(server)
    worker.optimizer.step()
    worker.optimizer.zero_grad(set_to_none=False)
    for server in range(2):
        fresh.resume(server)
    worker.optimizer.communicator.pause()
    torch.testing.assert_close(torch.as_tensor(table.pull([1])), before - 0.1)


def test_sync_training_needs_no_barrier_to_begin(fresh):
    from flota.communicator.sync import SyncCommunicator

    strategy = DistributedStrategy(Sync(launch_barrier=False), dense_dtype="bfloat16")
    workers = [Worker(fresh, rank, 2, strategy, start=rank) for rank in range(2)]
    failures = []

    def train(worker):
        try:
            worker.optimizer.communicator = SyncCommunicator(
                worker.tables, worker.optimizer, worker.tables.job.rejoin()
            )
            for _ in range(3):
                worker.step()
        except FlotaError as error:
            failures.append(error)

    threads = [threading.Thread(target=train, args=(worker,)) for worker in workers]
    for thread in reversed(threads):
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert torch.equal(workers[0].layer.weight, workers[1].layer.weight)
    # What travelled has bfloat16's bits; what servers keep has more.
    assert not (workers[0].layer.weight.detach().numpy().view(np.uint32) & 0xFFFF).any()
