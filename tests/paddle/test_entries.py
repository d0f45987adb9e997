"""Which ids of a sparse embedding get rows, and which rows go, in programs as the reference's users write them."""

import numpy as np
import pytest

import flota.paddle as paddle
from flota.errors import InvalidArgument
from flota.paddle import static
from flota.paddle.distributed import CountFilterEntry, ProbabilityEntry, ShowClickEntry, fleet

IDS = 50


@pytest.fixture
def train(program):
    """A step of a program with this entry: give ids, and what else is fed."""

    def make(entry, **inputs):
        ids = static.data("ids", [None, 2], "int64")
        label = static.data("label", [None, 1], "float32")
        for name in inputs.get("inputs", ()):
            static.data(name, [None, 1], "float32")
        rows = static.nn.sparse_embedding(ids, [IDS, 3], entry=entry, param_attr=paddle.ParamAttr(name="entries"))
        logit = paddle.sum(rows, axis=[1, 2], keepdim=False).reshape([-1, 1])
        loss = paddle.mean(paddle.nn.functional.binary_cross_entropy_with_logits(logit, label))
        fleet.init()
        fleet.distributed_optimizer(paddle.optimizer.SGD(0.5), fleet.DistributedStrategy()).minimize(loss)
        executor = static.Executor()
        executor.run(static.default_startup_program())
        fleet.init_worker()

        def step(numbers, **fed):
            numbers = np.asarray(numbers).reshape(-1, 2)
            fed = {name: np.asarray(value, "float32").reshape(-1, 1) for name, value in fed.items()}
            feed = {"ids": numbers, "label": np.ones((len(numbers), 1), "float32"), **fed}
            return executor.run(feed=feed, fetch_list=[rows])[0]

        return step

    return make


def test_an_id_gets_its_row_when_it_was_seen_often_enough(train):
    step = train(CountFilterEntry(3))
    assert (step([1, 1]) == 0).all()
    assert (step([1, 2]) == 0).all()
    found = step([1, 2])[0]
    assert (found[0] != 0).all()
    assert (found[1] == 0).all()


def test_few_ids_get_rows_by_a_small_probability(train):
    step = train(ProbabilityEntry(0.2))
    everybody = np.arange(IDS)
    for _ in range(2):
        step(everybody)
    found = (step(everybody).reshape(IDS, 3) != 0).any(axis=1).sum()
    assert 5 < found < 35


@pytest.mark.parametrize("entry", [None, ProbabilityEntry(1.0), CountFilterEntry(0), CountFilterEntry(1)])
def test_entries_that_leave_nobody_out(train, entry):
    assert (train(entry)([1, 2]) != 0).all()


def test_shows_and_clicks_decide_what_goes(train):
    step = train(ShowClickEntry("show", "click"), inputs=("show", "click"))
    for _ in range(5):
        found = step([[1, 2], [3, 4]], show=[1, 1], click=[1, 0])
    assert (found != 0).all()
    # Scores: 5 of 1 and 2, 0.5 of 3 and 4, which are below 0.8.
    table = static.global_scope().values["entries"].bound().table
    fleet.shrink()
    assert table.rows == 2
    step([1, 2], show=[1], click=[0])


def test_a_program_without_these_inputs_is_told(train):
    step = train(ShowClickEntry("show", "click"))
    with pytest.warns(UserWarning, match="no input show, click"):
        step([1, 2])


def test_rows_that_were_not_trained_for_long_go(train):
    step = train(None)
    step([1, 2])
    table = static.global_scope().values["entries"].bound().table
    fleet.shrink(2)
    step([3, 4])
    fleet.shrink(2)
    assert table.rows == 4
    fleet.shrink(2)
    assert table.rows == 2


def test_other_things_are_no_entries(program):
    ids = static.data("ids", [None, 1], "int64")
    with pytest.raises(InvalidArgument, match="entry is one of"):
        static.nn.sparse_embedding(ids, [10, 2], entry="count")
