"""Loaders of what a script's generators yield, and feeds made of samples."""

import threading
import time

import numpy as np
import pytest

import flota.paddle as paddle
from flota.errors import InvalidArgument
from flota.paddle.core import EOFException
from flota.paddle.io.feeding import DataFeeder

from_generator = paddle.io.DataLoader.from_generator


@pytest.fixture(autouse=True)
def eagerly():
    """What imports 1.x leaves the process with programs."""
    paddle.disable_static()
    yield
    paddle.disable_static()


@pytest.fixture
def variables():
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        yield (
            paddle.static.data("x", [None, 2], "float32"),
            paddle.static.data("y", [None, 1], "int64"),
            paddle.static.data("ids", [None, 1], "int64", lod_level=1),
        )


def samples(count=5):
    return lambda: (([i, i + 0.5], i, list(range(i + 1))) for i in range(count))


def reading():
    return [thread for thread in threading.enumerate() if "reading ahead" in thread.name]


def until(true):
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_samples_become_feeds_of_each_variable_s_type_and_shape(variables):
    loader = from_generator(list(variables), capacity=4)
    loader.set_sample_generator(samples(), batch_size=2, drop_last=False, places=paddle.CPUPlace())
    for _ in range(2):  # each loop is a pass
        feeds = [feed for (feed,) in loader()]
        assert [feed["y"].tolist() for feed in feeds] == [[[0], [1]], [[2], [3]], [[4]]]
        assert feeds[0]["x"].tolist() == [[0.0, 0.5], [1.0, 1.5]]
        assert feeds[0]["ids"].value.values.tolist() == [[0], [0], [1]]
        assert feeds[0]["ids"].value.offsets.tolist() == [0, 1, 3]
    loader.set_sample_generator(samples(), batch_size=2)
    assert len(list(loader)) == 2


def test_lists_instead_of_mappings(variables):
    loader = from_generator(list(variables[:2]), capacity=1, return_list=True)
    loader.set_batch_generator(lambda: iter([(np.ones((3, 2)), np.ones((3, 1), "int32"))]))
    (((x, y),),) = list(loader)
    assert (x.shape, str(x.dtype), y.shape, str(y.dtype)) == ([3, 2], "torch.float32", [3, 1], "torch.int64")


def test_an_array_that_a_generator_fills_again_was_taken_as_it_was(variables):
    def batches():
        array = np.zeros((1, 2), "float32")
        for i in range(4):
            array[:] = i
            yield [array]

    loader = from_generator([variables[0]], capacity=4).set_batch_generator(batches)
    assert [feed["x"].tolist() for (feed,) in loader] == [[[i, i]] for i in range(4)]


def test_a_program_is_fed_between_start_and_the_end_of_the_pass(variables):
    x, y, ids = variables
    total = paddle.sum(x)
    loader = from_generator([x, y, ids], capacity=2, iterable=False)
    loader.decorate_sample_list_generator(paddle.batch(samples(4), 2))
    executor = paddle.static.Executor()
    with pytest.raises(InvalidArgument, match="was not started"):
        executor.run(fetch_list=[total])
    for _ in range(2):
        loader.start()
        seen = []
        with pytest.raises(EOFException):  # noqa: PT012 (as training loops are written)
            while True:
                seen.append(float(executor.run(fetch_list=[total])[0]))
        loader.reset()
        assert seen == [3.0, 11.0]
    assert not reading()


@pytest.mark.parametrize(("double", "ahead"), [(True, 4), (False, 3)])
def test_as_many_batches_are_read_ahead_as_were_asked_for(variables, double, ahead):
    made = []

    def batches():
        for i in range(100):
            made.append(i)
            yield [np.zeros((1, 2), "float32")]

    loader = from_generator([variables[0]], capacity=3, use_double_buffer=double, iterable=False)
    loader.set_batch_generator(batches)
    loader.start()
    until(lambda: len(made) == ahead)
    loader.next_batch()
    until(lambda: len(made) == ahead + 1)
    loader.reset()
    assert len(made) == ahead + 1
    assert not reading()


def test_what_goes_wrong_in_a_generator_is_raised_in_the_loop(variables):
    def broken():
        yield [1, 2], 3
        raise OSError("the disk is gone")

    loader = from_generator(list(variables[:2]), capacity=4).set_sample_generator(broken, 1)
    seen = []
    with pytest.raises(OSError, match="the disk is gone"):  # noqa: PT012 (what came before is seen)
        for (feed,) in loader:
            seen.append(feed["y"].tolist())
    assert seen == [[[3]]]
    assert not reading()


def test_a_loop_that_breaks_off_ends_the_generator(variables):
    ended = threading.Event()

    def endless():
        try:
            while True:
                yield [1, 2], 3
        finally:
            ended.set()

    for _ in from_generator(list(variables[:2]), capacity=2).set_sample_generator(endless, 4):
        break
    assert ended.wait(10)
    assert not reading()


def test_py_reader_is_the_same_by_its_older_name(variables):
    reader = paddle.fluid.io.PyReader(feed_list=list(variables), capacity=2, iterable=True)
    reader.decorate_sample_list_generator(paddle.batch(samples(3), 3), places=[paddle.CPUPlace()])
    assert [feed["y"].tolist() for (feed,) in reader()] == [[[0], [1], [2]]]


def test_without_programs_a_loader_gives_lists_of_tensors():
    loader = from_generator(capacity=2).set_sample_generator(
        lambda: ((np.ones(2, "float32"), i) for i in range(3)), batch_size=2, drop_last=False
    )
    assert [[each.shape for each in batch] for batch in loader] == [[[2, 2], [2]], [[1, 2], [1]]]


def test_feeders_take_arrays_lists_and_names(variables):
    x, y, ids = variables
    fed = DataFeeder([x, y, ids]).feed([([1, 2], 3, [4, 5]), ([3, 4], 5, [])])
    assert (fed["y"].tolist(), fed["ids"].offsets.tolist()) == ([[3], [5]], [0, 2, 2])
    fed = DataFeeder(["x", "ids"]).feed([(np.ones((1, 2)), np.array([[4], [5]])), (np.ones((1, 2)), np.array([[6]]))])
    assert (list(fed["x"].shape), fed["ids"].values.tolist()) == ([2, 2], [[4], [5], [6]])
    assert DataFeeder([ids]).feed([(7,), (8,)])["ids"].offsets.tolist() == [0, 1, 2]
    pairs = paddle.static.data("pairs", [None, 2], "float32", lod_level=1)
    for first, second in (([[1, 2], [3, 4]], [[5, 6]]), ([1, 2, 3, 4], [5, 6])):
        fed = DataFeeder([pairs]).feed([(first,), (second,)])
        assert (fed["pairs"].values.tolist(), fed["pairs"].offsets.tolist()) == ([[1, 2], [3, 4], [5, 6]], [0, 2, 3])


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        ([([1, 2],)], "samples have 1 values, and the feed 2 variables"),
        ([([1, 2], 3), ([1, 2],)], "different numbers of values"),
        ([([1, 2, 3], 4)], "'x' was fed the shape"),
        ([([1, 2], [1]), ([1, 2], [1, 2])], "'y': .*lod_level=1"),
    ],
)
def test_samples_that_do_not_fit_are_named(variables, batch, says):
    with pytest.raises(InvalidArgument, match=says):
        DataFeeder(list(variables[:2])).feed(batch)


def test_loaders_refuse_what_they_cannot_do(variables):
    with pytest.raises(InvalidArgument, match="capacity"):
        from_generator(list(variables))
    with pytest.raises(InvalidArgument, match="feed_list"):
        from_generator(capacity=1)
    with pytest.raises(InvalidArgument, match="nothing to read"):
        list(from_generator(list(variables), capacity=1))
    with pytest.raises(InvalidArgument, match="run on the CPU"):
        from_generator(list(variables), capacity=1).set_batch_generator(samples(), places=paddle.CUDAPlace(0))
