"""Options that would have no effect are refused, with what to do instead."""

import pytest

import flota.paddle as paddle
from flota.errors import InvalidArgument
from flota.paddle.graph.program import Program, program_guard


@pytest.fixture
def ids():
    paddle.enable_static()
    with program_guard(Program(), Program()):
        yield paddle.static.data("ids", [None, 1], "int64")
    paddle.disable_static()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"entry": object()}, "every id gets a row"),
        ({"is_test": True}, "clone the program with for_test=True"),
        ({"table_class": "SSDSparseTable"}, "one kind of table"),
        ({"slot": 3}, "one kind of table"),
    ],
)
def test_sparse_embeddings_refuse_what_does_not_act(ids, settings, says):
    with pytest.raises(InvalidArgument, match=says):
        paddle.static.nn.sparse_embedding(ids, [10, 2], **settings)


def test_executors_refuse_what_they_cannot_do(ids):
    with pytest.raises(InvalidArgument, match=r"torch sees . GPUs here"):
        paddle.static.Executor(paddle.CUDAPlace(9))
    executor = paddle.static.Executor()
    with pytest.raises(InvalidArgument, match="thread=-1"):
        executor.infer_from_dataset(dataset=[], thread=-1)
    with pytest.raises(InvalidArgument, match="give dataset"):
        executor.infer_from_dataset()
    with pytest.raises(InvalidArgument, match="call minimize first"):
        executor.train_from_dataset(dataset=[])


def test_loaders_and_jobs_refuse_what_does_not_act(ids):
    with pytest.raises(InvalidArgument, match="use_multiprocess"):
        paddle.io.DataLoader.from_generator(feed_list=[ids], use_multiprocess=True)
    with pytest.raises(InvalidArgument, match="the global scope"):
        paddle.distributed.fleet.init_worker(scopes=[])
    with pytest.raises(InvalidArgument, match="its share of all tables"):
        paddle.distributed.fleet.init_server(var_names=["w"])
