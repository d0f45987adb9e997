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
        ({"entry": object()}, "entry is one of"),
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
    fleet = paddle.distributed.fleet
    with pytest.raises(InvalidArgument, match="the global scope"):
        fleet.init_worker(scopes=[])
    for call in (lambda: fleet.save_persistables(None, "x", mode=4), lambda: fleet.load_model("x", mode="1")):
        with pytest.raises(InvalidArgument, match=r"0 \(all\), 1 \(delta\), 2 \(base\)"):
            call()
