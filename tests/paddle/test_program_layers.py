"""Layers of programs by the names that scripts and checkpoints know, and what scripts do to variables."""

import numpy as np
import pytest

import flota.paddle as paddle
from flota.errors import InvalidArgument


@pytest.fixture(autouse=True)
def program():
    """A program, names and a scope of the test's own."""
    paddle.enable_static()
    guard = paddle.static.program_guard(paddle.static.Program(), paddle.static.Program())
    with paddle.utils.unique_name.guard(), paddle.static.scope_guard(paddle.static.Scope()), guard:
        yield
    paddle.disable_static()


def names():
    return {each.name: list(each.shape) for each in paddle.static.default_main_program().all_parameters()}


def run(*fetches, **feed):
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    return executor.run(feed=feed, fetch_list=list(fetches))


def test_parameters_of_static_layers_have_the_references_names_and_shapes():
    x = paddle.static.data("x", [None, 4])
    normal = paddle.static.nn.layer_norm(x, begin_norm_axis=1)
    paddle.static.nn.prelu(paddle.static.nn.batch_norm(normal), "all")
    paddle.static.nn.conv2d(x.reshape([-1, 1, 2, 2]), 3, 1)
    assert names() == {
        "layer_norm_0.w_0": [4], "layer_norm_0.b_0": [4], "batch_norm_0.w_0": [4], "batch_norm_0.b_0": [4],
        "batch_norm_0.w_1": [4], "batch_norm_0.w_2": [4], "prelu_0.w_0": [1], "conv2d_0.w_0": [3, 1, 1, 1],
        "conv2d_0.b_0": [3],
    }  # fmt: skip


def test_a_layer_made_after_another_was_called_counts_the_call():
    x = paddle.static.data("x", [None, 3])
    first = paddle.nn.Linear(3, 3)
    first(x)
    assert paddle.nn.Linear(3, 3).weight.name == "linear_2.w_0"


def test_results_have_the_names_that_scripts_fetch():
    x = paddle.static.data("x", [None, 2])
    hidden = paddle.static.nn.fc(x, 2, activation="relu")
    area, recent, _ = paddle.static.auc(hidden, paddle.static.data("y", [None, 1], "int64"))
    found = [each.name for each in (hidden, paddle.mean(hidden), area, recent)]
    assert found == ["fc_0.tmp_2", "mean_0.tmp_0", "auc_0.tmp_0", "auc_0.tmp_1"]


def test_a_kept_variable_becomes_what_is_assigned_to_it():
    x = paddle.static.data("x", [None, 1])
    total = paddle.static.create_global_var([1], 0.0, "float32", persistable=True)
    steps = paddle.static.create_global_var([1], 5, "int64", persistable=True, name="steps")
    paddle.assign(total + paddle.sum(x), total)
    paddle.increment(steps)
    executor = paddle.static.Executor()
    executor.run(paddle.static.default_startup_program())
    for _ in range(3):
        executor.run(feed={"x": np.ones((2, 1), "float32")}, fetch_list=[])
    scope = paddle.static.global_scope()
    assert [float(np.array(scope.find_var(each.name).get_tensor())[0]) for each in (total, steps)] == [6.0, 8.0]


def test_accuracy_says_how_many_there_were():
    scores, label = paddle.static.data("scores", [None, 2]), paddle.static.data("label", [None, 1], "int64")
    correct, total = (paddle.static.create_global_var([1], 0, "int32", persistable=True) for _ in range(2))
    part = paddle.static.accuracy(scores, label, correct=correct, total=total)
    values = run(
        part, correct, total, scores=np.array([[0, 1], [1, 0], [0, 1]], "float32"), label=np.array([[1], [1], [1]])
    )
    assert [round(float(value), 4) for value in values] == [0.6667, 2, 3]


def test_constants_detached_values_and_truth_in_a_program():
    x = paddle.static.data("x", [None, 2])
    constant = paddle.to_tensor([1.0, 2.0])
    inside = (x > 0) & ~(x > constant)
    fed = np.array([[0.5, 3.0], [-1.0, 1.0]], "float32")
    values = run(inside, x.detach() * constant, x != 1.0, x.T, x=fed)
    assert values[0].tolist() == [[True, False], [False, True]]
    assert values[1].tolist() == (fed * [1, 2]).tolist()
    assert values[2].tolist() == (fed != 1).tolist()
    assert values[3].tolist() == fed.T.tolist()


def test_a_parameter_is_read_and_set_through_its_variable():
    layer = paddle.nn.Linear(2, 1)
    with pytest.raises(InvalidArgument, match="startup program"):
        layer.weight.get_value()
    paddle.static.Executor().run(paddle.static.default_startup_program())
    layer.weight.set_value(np.ones((2, 1), "float32"))
    assert np.array(layer.weight.get_value()).tolist() == [[1.0], [1.0]]


def test_in_place_methods_change_the_tensor_itself():
    paddle.disable_static()
    x = paddle.to_tensor([[1.0, -2.0]])
    assert x.add_(paddle.to_tensor(1.0)) is x
    x.clip_(0.0, 1.5)
    x.squeeze_(0)
    assert x.tolist() == [1.5, 0.0]


def test_other_devices_are_refused():
    assert not paddle.is_compiled_with_cuda()
    assert repr(paddle.set_device("cpu")) == "Place(cpu)"
    with pytest.raises(InvalidArgument, match="CPU"):
        paddle.set_device("gpu:0")
    with pytest.raises(InvalidArgument, match="more workers"):
        paddle.static.cpu_places(4)


class Gated(paddle.nn.RNNCellBase):
    """A cell of a script's own, as those for attention over sequences are."""

    def __init__(self, width):
        super().__init__()
        self.width = width
        self.weight = self.create_parameter([width, width], default_initializer=paddle.nn.initializer.Constant(0.5))

    @property
    def state_shape(self):
        return (self.width,)

    def forward(self, inputs, states):
        state = paddle.tanh(inputs + paddle.matmul(states, self.weight))
        return state, state


def test_a_cell_of_a_script_s_own_begins_with_zeros():
    x = paddle.static.data("x", [None, 3, 2])
    outputs, last = paddle.nn.RNN(Gated(2))(x)
    fed = np.random.RandomState(0).randn(4, 3, 2).astype("float32")
    values = run(outputs, last, x=fed)
    state = np.zeros((4, 2), "float32")
    for step in range(3):
        state = np.tanh(fed[:, step] + state @ np.full((2, 2), 0.5, "float32"))
        np.testing.assert_allclose(values[0][:, step], state, rtol=1e-5)
    np.testing.assert_allclose(values[1], state, rtol=1e-5)
