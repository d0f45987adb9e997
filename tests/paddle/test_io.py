"""Data sets in Python, samplers and loaders: the structures and orders of release 2.6.2."""

import threading
from collections import namedtuple

import numpy as np
import pytest

import flota.paddle as paddle
from flota.errors import InvalidArgument
from flota.paddle.io import (
    BatchSampler,
    ChainDataset,
    ComposeDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedBatchSampler,
    IterableDataset,
    RandomSampler,
    SequenceSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
    random_split,
)

Pair = namedtuple("Pair", "first second")


@pytest.fixture(autouse=True)
def eagerly():
    """What imports 1.x leaves the process with programs."""
    paddle.disable_static()
    yield
    paddle.disable_static()


class Items(Dataset):
    def __init__(self, items):
        self.items = items

    def __getitem__(self, index):
        return self.items[index]

    def __len__(self):
        return len(self.items)


class Counting(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for number in range(first, self.count, step):
            yield np.full(2, number, "float32"), number


def shown(batch):
    """Its structure, with types and shapes for tensors."""
    if isinstance(batch, paddle.Tensor):
        return str(batch.dtype).removeprefix("torch."), batch.shape
    if isinstance(batch, dict):
        return {key: shown(each) for key, each in batch.items()}
    return [shown(each) for each in batch] if isinstance(batch, list) else batch


ROW = np.ones(2, "float32")


@pytest.mark.parametrize(
    ("sample", "batch"),
    [
        (1, ("int64", [3])),
        (1.5, ("float64", [3])),
        (True, ("bool", [3])),
        (np.int32(1), ("int32", [3])),
        (ROW, ("float32", [3, 2])),
        ((ROW,), [("float32", [3, 2])]),
        ((ROW, 1), [("float32", [3, 2]), ("int64", [3])]),
        (Pair(1, 2.0), [("int64", [3]), ("float64", [3])]),
        ({"x": ROW, "y": 1}, {"x": ("float32", [3, 2]), "y": ("int64", [3])}),
        ((1, "a"), [("int64", [3]), ["a", "a", "a"]]),
        ((1, {"z": [1, 2]}), [("int64", [3]), {"z": [("int64", [3]), ("int64", [3])]}]),
    ],
)
def test_a_batch_has_the_samples_structure(sample, batch):
    (found,) = DataLoader(Items([sample] * 3), batch_size=3)
    assert shown(found) == batch


def test_tensors_are_stacked_and_samples_without_batches_stay_as_they_are():
    (found,) = DataLoader(Items([paddle.to_tensor([1.0, 2.0])] * 2), batch_size=2)
    assert found.tolist() == [[1.0, 2.0], [1.0, 2.0]]
    assert [shown(each) for each in DataLoader(Items([(ROW, 1)]), batch_size=None)] == [[("float32", [2]), 1]]


def test_samples_that_make_no_batch_are_an_error_in_the_loop():
    with pytest.raises(InvalidArgument, match="from 1 to 2"):
        list(DataLoader(Items([[1, 2], [3]]), batch_size=2))
    with pytest.raises(InvalidArgument, match="collate_fn that pads"):
        list(DataLoader(Items([np.ones(2), np.ones(3)]), batch_size=2))


def test_the_loop_takes_what_collate_makes():
    loader = DataLoader(
        Items([1, 2, 3]), batch_size=2, collate_fn=lambda samples: {"sum": np.array(sum(samples)), "k": 7}
    )
    assert [(int(batch["sum"]), batch["k"]) for batch in loader] == [(3, 7), (3, 7)]


def test_numpy_s_seed_decides_the_order():
    np.random.seed(7)
    assert list(RandomSampler(Items(range(8)))) == [2, 5, 0, 6, 3, 1, 4, 7]
    np.random.seed(7)
    loader = DataLoader(Items(range(8)), batch_size=3, shuffle=True)
    batches = iter(loader)
    np.random.seed(99)  # the order is drawn already
    assert [batch.tolist() for batch in batches] == [[2, 5, 0], [6, 3, 1], [4, 7]]
    np.random.seed(7)
    assert list(RandomSampler(Items(range(8)), replacement=True, num_samples=5)) == [7, 4, 1, 6, 3]
    np.random.seed(7)
    assert list(WeightedRandomSampler([0.1, 0.3, 0.5, 0.7, 0.2], 5)) == [1, 3, 2, 3, 4]


def test_workers_take_batches_in_turn_by_an_order_of_the_epoch():
    def batches(rank, **settings):
        return list(DistributedBatchSampler(Items(range(10)), num_replicas=3, rank=rank, **settings))

    assert batches(2, batch_size=2) == [[4, 5], [0, 1]]
    assert batches(2, batch_size=3, drop_last=True) == [[6, 7, 8]]
    assert [batches(rank, batch_size=2, shuffle=True) for rank in range(3)] == [
        [[6, 1], [1, 7]],
        [[4, 0], [9, 3]],
        [[2, 8], [0, 5]],
    ]
    sampler = DistributedBatchSampler(Items(range(10)), 2, num_replicas=3, rank=0, shuffle=True)
    assert (list(sampler), list(sampler)) == ([[6, 1], [1, 7]], [[2, 3], [0, 7]])
    alone = DistributedBatchSampler(Items(range(3)), 2)
    assert (list(alone), len(alone)) == ([[0, 1], [2]], 2)


def test_a_batch_sampler_decides_what_a_batch_is():
    sampler = BatchSampler(sampler=SequenceSampler(range(5)), batch_size=2, drop_last=True)
    loader = DataLoader(Items(range(5)), batch_sampler=sampler)
    assert (len(loader), [batch.tolist() for batch in loader()]) == (2, [[0, 1], [2, 3]])


def test_data_sets_are_made_of_others():
    numbers, hundreds = Items([0, 1, 2]), Items([100, 101])
    joined = ConcatDataset([numbers, hundreds])
    assert ([joined[i] for i in range(5)], joined[-1]) == ([0, 1, 2, 100, 101], 101)
    assert [Subset(joined, [3, 0])[i] for i in range(2)] == [100, 0]
    assert ComposeDataset([Items([(1, 2)]), Items([3])])[0] == (1, 2, 3)
    assert [number for _, number in ChainDataset([Counting(2), Counting(1)])] == [0, 1, 0]
    rows = TensorDataset([paddle.to_tensor([[1.0], [2.0]]), paddle.to_tensor([3, 4])])
    assert [each.tolist() for each in rows[1]] == [[2.0], 4]
    parts = random_split(joined, [3, 2])
    assert sorted(part[i] for part in parts for i in range(len(part))) == [0, 1, 2, 100, 101]


@pytest.mark.parametrize("settings", [{}, {"use_shared_memory": False}, {"persistent_workers": True}])
def test_processes_make_the_same_batches(settings):
    loader = DataLoader(Items([(ROW * i, i) for i in range(6)]), batch_size=2, num_workers=2, **settings)
    for _ in range(2):
        assert [[each.tolist() for each in batch][1] for batch in loader] == [[0, 1], [2, 3], [4, 5]]


def test_processes_share_what_is_iterated_over():
    started = []
    loader = DataLoader(Counting(6), batch_size=2, num_workers=2, worker_init_fn=started.append, timeout=60)
    assert [batch[1].tolist() for batch in loader] == [[0, 2], [1, 3], [4], [5]]
    assert started == []  # it was called in the processes


def test_what_goes_wrong_in_a_data_set_is_raised_in_the_loop():
    class Broken(Items):
        def __getitem__(self, index):
            if index == 3:
                raise KeyError("no such sample")
            return index

    for settings in ({}, {"use_buffer_reader": False}, {"num_workers": 1}):
        seen = []
        with pytest.raises(KeyError, match="no such sample"):  # noqa: PT012 (what came before is seen)
            for batch in DataLoader(Broken(range(5)), batch_size=2, **settings):
                seen.append(batch.tolist())
        assert seen == [[0, 1]]


def test_a_loop_that_breaks_off_leaves_no_thread_behind():
    for _ in DataLoader(Items(range(100))):
        break
    assert not [thread for thread in threading.enumerate() if "reading ahead" in thread.name]


def test_programs_get_feeds():
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        x = paddle.static.data("x", [None, 2], "float32")
        y = paddle.static.data("y", [None, 1], "int64")
        total = paddle.sum(x) + paddle.cast(paddle.sum(y), "float32")
        samples = Items([(ROW, np.array([i])) for i in range(4)])
        loader = DataLoader(samples, feed_list=[x, y], batch_size=2, return_list=False, places=paddle.CPUPlace())
        executor = paddle.static.Executor()
        assert [float(executor.run(feed=feed, fetch_list=[total])[0]) for feed in loader] == [5.0, 9.0]
        with pytest.raises(InvalidArgument, match="give feed_list"):
            DataLoader(samples, return_list=False)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"batch_sampler": BatchSampler(range(3)), "batch_size": 2}, "batch_sampler decides"),
        ({"batch_size": None, "drop_last": True}, "makes none"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"timeout": 5}, "num_workers of 1"),
        ({"persistent_workers": True}, "num_workers of 1"),
        ({"places": paddle.CUDAPlace(0)}, "run on the CPU"),
        ({"places": [paddle.CPUPlace()] * 2}, "one device"),
    ],
)
def test_loaders_refuse_what_does_not_act(settings, says):
    with pytest.raises(InvalidArgument, match=says):
        DataLoader(Items(range(3)), **settings)


def test_what_is_iterated_over_has_neither_order_nor_length():
    with pytest.raises(InvalidArgument, match="decides its order"):
        DataLoader(Counting(3), shuffle=True)
    with pytest.raises(TypeError, match="no length"):
        len(DataLoader(Counting(3)))
