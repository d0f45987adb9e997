"""1.x's functions: their own arguments, and results that differ from 2.x's of the same name."""

import numpy as np
import pytest

from flota.errors import InvalidArgument
from flota.paddle import core, fluid, mode
from flota.paddle.fluid import initializer, layers
from flota.paddle.graph.executor import Executor
from flota.paddle.graph.program import Program, default_main_program, default_startup_program, program_guard
from flota.paddle.graph.scope import Scope, scope_guard

X = np.array([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]], np.float32)
IDS = np.array([[2], [0]], np.int64)


@pytest.fixture(autouse=True)
def _static():
    mode.enable_static()
    with program_guard(Program(), Program()), scope_guard(Scope()):
        yield
    mode.disable_static()


def run(*variables, **feed):
    executor = Executor()
    executor.run(default_startup_program())
    return executor.run(default_main_program(), feed=feed, fetch_list=list(variables))


def exclusive(values):
    return np.cumsum(values, 1) - values


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda x: layers.fill_constant_batch_size_like(x, [-1, 4], "float32", 7.0), np.full((2, 4), 7.0)),
        (lambda x: layers.l2_normalize(x, axis=1), X / np.linalg.norm(X, axis=1, keepdims=True)),
        (lambda x: layers.topk(x, k=2)[1], [[2, 0], [0, 1]]),
        (lambda x: layers.argsort(x, descending=True)[0], -np.sort(-X)),
        (lambda x: layers.argmax(x), [0, 1, 0]),
        (lambda x: layers.cumsum(x, axis=1, exclusive=True), exclusive(X)),
        (lambda x: layers.cumsum(x, axis=1, exclusive=True, reverse=True), exclusive(X[:, ::-1])[:, ::-1]),
        (lambda x: layers.expand(x, expand_times=[1, 2]), np.tile(X, (1, 2))),
        (lambda x: layers.split(x, num_or_sections=3)[1], X[:, 1:2]),
        (lambda x: layers.squeeze(layers.unsqueeze(x, axes=[1]), axes=[1]), X),
        (lambda x: layers.flatten(layers.unsqueeze(x, axes=[2]), axis=2), X.reshape(6, 1)),
        (lambda x: layers.softmax(x, use_cudnn=False), np.exp(X) / np.exp(X).sum(1, keepdims=True)),
        (lambda x: layers.swish(x, beta=2.0), X / (1 + np.exp(-2 * X))),
        (lambda x: layers.leaky_relu(x), np.where(X > 0, X, 0.02 * X)),
        (lambda x: layers.pow(x, factor=2.0), X**2),
        (lambda x: layers.dropout(x, 0.5, is_test=True), X / 2),
        (lambda x: layers.dropout(x, 0.5, is_test=True, dropout_implementation="upscale_in_train"), X),
        (lambda x: layers.elementwise_max(x, layers.zeros_like(x)), np.maximum(X, 0)),
        (lambda x: layers.reduce_prod(x, dim=1, keep_dim=True), X.prod(1, keepdims=True)),
        (lambda x: layers.sum([x, x]), 2 * X),
        (lambda x: layers.range(0, 6, 2, "int64"), [0, 2, 4]),
        (lambda x: layers.pad(x, paddings=[0, 0, 1, 0], pad_value=9.0), np.pad(X, ((0, 0), (1, 0)), constant_values=9)),
    ],
)
def test_a_function_of_1_x_computes(make, wanted):
    (found,) = run(make(layers.data("x", [3])), x=X)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_last_side_of_one_becomes_that_of_the_classes():
    (found,) = run(layers.one_hot(layers.data("ids", [1], dtype="int64"), depth=3), ids=IDS)
    assert found.tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize(
    ("make", "limits"),
    [
        (lambda: initializer.TruncatedNormal(loc=1.0, scale=0.1), (0.8, 1.2)),
        (lambda: initializer.UniformInitializer(-0.5, 0.5), (-0.5, 0.5)),
        (lambda: initializer.Xavier(uniform=True, fan_in=3, fan_out=3), (-1.0, 1.0)),
        (lambda: initializer.ConstantInitializer(value=0.25), (0.25, 0.25)),
        (lambda: initializer.NumpyArrayInitializer(np.full((4, 5), 2.0, np.float32)), (2.0, 2.0)),
    ],
)
def test_an_initialiser_of_1_x_gives_first_values(make, limits):
    weight = layers.create_parameter([4, 5], "float32", attr=fluid.ParamAttr(name="w", initializer=make()))
    (found,) = run(weight)
    assert limits[0] - 1e-6 <= found.min() <= found.max() <= limits[1] + 1e-6


def test_a_reader_has_the_inputs_of_its_program():
    reader = layers.py_reader(capacity=4, shapes=[[-1, 3], [-1, 1]], dtypes=["float32", "int64"])
    x, ids = layers.read_file(layers.double_buffer(reader))
    total = layers.reduce_sum(x, dim=1, keep_dim=True) + layers.cast(ids, "float32")
    reader.decorate_paddle_reader(lambda: iter([[(X[0], IDS[0]), (X[1], IDS[1])]]))
    executor = Executor()
    for _ in range(2):
        reader.start()
        (found,) = executor.run(fetch_list=[total])
        np.testing.assert_allclose(found, X.sum(1, keepdims=True) + IDS)
        with pytest.raises(core.EOFException):
            executor.run(fetch_list=[total])
        reader.reset()


def test_print_stops_after_the_first_times(capsys):
    x = layers.data("x", [3])
    shown = layers.Print(x, first_n=2, message="here", summarize=1)
    total = layers.reduce_sum(shown)
    for _ in range(3):
        run(total, x=X)
    assert capsys.readouterr().out.count("Variable: x here") == 2


def test_numbers_of_shapes_stand_beside_values():
    x = layers.data("x", [3])
    rows = layers.cast(layers.slice(layers.shape(x), axes=[0], starts=[0], ends=[1]), "float32")
    (found,) = run(layers.reduce_sum(x, dim=0) * rows, x=X)
    np.testing.assert_allclose(found, 2 * X.sum(0), rtol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: layers.dropout(x, 0.5, seed=3),
        lambda x: layers.dropout(x, 0.5, dropout_implementation="upscale"),
        lambda x: layers.one_hot(x, 3, allow_out_of_range=True),
        lambda x: initializer.Uniform(diag_num=2),
    ],
)
def test_what_does_not_act_is_refused(make):
    with pytest.raises(InvalidArgument):
        make(layers.data("x", [3]))
