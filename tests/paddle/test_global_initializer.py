"""An initialiser for all parameters that a script says nothing else of."""

import numpy as np
import pytest

import flota.paddle as paddle
from flota.errors import InvalidArgument

nn, static = paddle.nn, paddle.static
Constant = nn.initializer.Constant


@pytest.fixture(autouse=True)
def back():
    yield
    nn.initializer.set_global_initializer(None)
    paddle.disable_static()


def test_eager_parameters_begin_by_it():
    nn.initializer.set_global_initializer(Constant(2.0), Constant(3.0))
    layer = nn.Linear(2, 1)
    assert (layer.weight.numpy().tolist(), layer.bias.numpy().tolist()) == ([[2], [2]], [3])
    own = nn.Linear(2, 1, weight_attr=Constant(5.0))
    assert (own.weight.numpy().tolist(), own.bias.numpy().tolist()) == ([[5], [5]], [3])
    norm = nn.BatchNorm1D(1)
    assert (norm.weight.numpy().tolist(), norm.bias.numpy().tolist()) == ([2], [3])
    assert (norm._mean.numpy().tolist(), norm._variance.numpy().tolist()) == ([0], [1])
    nn.initializer.set_global_initializer(None)
    assert nn.Linear(2, 1).bias.numpy().tolist() == [0]


def test_a_programs_parameters_begin_by_it():
    paddle.enable_static()
    nn.initializer.set_global_initializer(Constant(2.0))
    with static.program_guard(static.Program(), static.Program()), static.scope_guard(static.Scope()):
        x = static.data("x", [None, 2])
        out = static.nn.batch_norm(static.nn.fc(x, 1), is_test=True)
        rows = static.nn.embedding(static.data("ids", [None, 1], "int64"), [5, 2], is_sparse=True)
        executor = static.Executor()
        executor.run(static.default_startup_program())
        feed = {"x": np.array([[1, 2]], "float32"), "ids": [[3]]}
        found = executor.run(feed=feed, fetch_list=[out, rows])
    # 2 + 4 from the layer, whose bias is its own; times the normalisation's weight, over the root of 1 + 1e-5.
    assert found[0].item() == pytest.approx(12.0, rel=1e-4)
    assert found[1].reshape(-1).tolist() == [2, 2]


def test_it_is_an_initialiser():
    with pytest.raises(InvalidArgument, match="weight_init"):
        nn.initializer.set_global_initializer(1.0)
