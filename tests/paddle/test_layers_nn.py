"""Layers against the reference's numbers (make_layer_goldens.py), eager and in programs."""

import copy
import inspect
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import flota.paddle.mode as mode
import flota.paddle.nn as nn
from flota.paddle.attributes import ParamAttr
from flota.paddle.graph import names
from flota.paddle.graph.building import data
from flota.paddle.graph.executor import Executor
from flota.paddle.graph.program import Program, default_startup_program, program_guard
from flota.paddle.graph.scope import Scope, global_scope, scope_guard
from flota.paddle.ops.registry import call
from flota.paddle.optimizer import SGD
from flota.paddle.tensor import Tensor, to_tensor

GOLDEN = Path(__file__).parent / "golden"
ABOUT = json.loads((GOLDEN / "layers.json").read_text())
CASES = ABOUT["cases"]

# The layer draws, multiplies and sums in float32 in another order than the reference.
CLOSE = {"rtol": 1e-5, "atol": 2e-6}


@pytest.fixture(scope="module")
def arrays():
    with np.load(GOLDEN / "layers.npz") as file:
        return dict(file)


@pytest.fixture(autouse=True)
def eager():
    mode.disable_static()
    with names.guard():
        yield
    mode.disable_static()


@pytest.fixture
def static():
    mode.enable_static()
    with program_guard(Program(), Program()), scope_guard(Scope()):
        yield
    mode.disable_static()


def part(arrays, case, kind):
    """Those of a case's arrays that are of this kind, by the rest of their names."""
    return {key.split("/", 2)[2]: value for key, value in arrays.items() if key.startswith(f"{case}/{kind}/")}


def build(case, as_argument):
    spec = CASES[case]
    arguments = {
        key: as_argument(key) if isinstance(value, dict) else value for key, value in spec["arguments"].items()
    }
    layer = getattr(nn, spec["layer"])(**arguments)
    if spec["evaluate"]:
        layer.eval()
    return layer


def flat(outputs):
    if isinstance(outputs, (list, tuple)):
        return [each for output in outputs for each in flat(output)]
    return [outputs]


def weights_of(output):
    return np.cos(np.arange(output.size)).astype("float32").reshape(output.shape)


def assert_like(found, wanted, what):
    assert list(np.shape(found)) == list(wanted.shape), what
    np.testing.assert_allclose(found, wanted, err_msg=what, **CLOSE)


@pytest.mark.parametrize("case", CASES)
def test_an_eager_layer_computes_what_the_reference_does(case, arrays):
    layer = build(case, lambda key: to_tensor(arrays[f"{case}/argument/{key}"]))
    assert layer.full_name() == CASES[case]["name"]
    assert {path: each.name for path, each in layer.named_parameters()} == CASES[case]["parameters"]
    assert list(layer.state_dict()) == CASES[case]["state"]
    assert repr(layer) == CASES[case]["text"]
    parameters = dict(layer.named_parameters())
    for path, value in part(arrays, case, "parameter").items():
        parameters[path].set_value(value)
    moved = part(arrays, case, "input_gradient")
    inputs = [to_tensor(value, stop_gradient=key not in moved) for key, value in part(arrays, case, "input").items()]
    keywords = {key: to_tensor(value) for key, value in part(arrays, case, "keyword").items()}

    outputs = flat(layer(*inputs, **keywords))
    total = sum(
        (output.value * to_tensor(weights_of(wanted)).value).sum()
        for output, wanted in zip(outputs, part(arrays, case, "output").values(), strict=True)
    )
    Tensor(total).backward()

    for number, wanted in part(arrays, case, "output").items():
        assert_like(outputs[int(number)].numpy(), wanted, f"output {number}")
    for number, wanted in moved.items():
        assert_like(inputs[int(number)].grad.numpy(), wanted, f"gradient of input {number}")
    gradients = part(arrays, case, "gradient")
    for path, wanted in gradients.items():
        assert_like(parameters[path].grad.numpy(), wanted, f"gradient of {path}")
    assert [path for path, each in parameters.items() if each.grad is not None] == list(gradients)
    for path, wanted in part(arrays, case, "after").items():
        assert_like(parameters[path].numpy(), wanted, f"{path} afterwards")


@pytest.mark.parametrize("case", CASES)
def test_a_layer_of_a_program_computes_and_trains_as_the_reference_does(case, arrays, static):
    by_batch = CASES[case]["batch"]
    feed = {}

    def fed(name, value):
        feed[name] = value
        return data(name, [-1, *value.shape[1:]] if by_batch else value.shape, value.dtype.name)

    def argument(key):
        value = arrays[f"{case}/argument/{key}"]
        feed[key] = value.reshape(1, -1) if value.ndim == 1 else value
        made = data(key, feed[key].shape if value.ndim == 1 else [-1, *value.shape[1:]])
        return call("reshape", made, [-1]) if value.ndim == 1 else made

    layer = build(case, argument)
    assert {path: each.name for path, each in layer.named_parameters()} == CASES[case]["parameters"]
    inputs = [fed(f"input{number}", value) for number, value in part(arrays, case, "input").items()]
    keywords = {key: fed(key, value) for key, value in part(arrays, case, "keyword").items()}
    outputs = flat(layer(*inputs, **keywords))
    wanted = list(part(arrays, case, "output").values())
    loss = None
    for number, (output, value) in enumerate(zip(outputs, wanted, strict=True)):
        if value.ndim:
            feed[f"weights{number}"] = weights_of(value)
            output = call("multiply", output, data(f"weights{number}", output.shape))
        each = call("sum", output)
        loss = each if loss is None else call("add", loss, each)
    gradients = part(arrays, case, "gradient")
    if gradients:
        SGD(learning_rate=1.0).minimize(loss)

    executor = Executor()
    executor.run(default_startup_program())
    before = part(arrays, case, "parameter")
    held = {path: parameter.name for path, parameter in layer.named_parameters()}
    for path, value in before.items():
        global_scope().find_var(held[path]).get_tensor().set(value)
    found = executor.run(loss.program, feed=feed, fetch_list=outputs)

    for number, (value, each) in enumerate(zip(wanted, found, strict=True)):
        assert_like(each.reshape(value.shape), value, f"output {number}")
    for path in before:
        after = global_scope().find_var(held[path]).get_tensor().numpy()
        moved = before[path] - gradients[path] if path in gradients else arrays[f"{case}/after/{path}"]
        np.testing.assert_allclose(after, moved, err_msg=path, **CLOSE)


@pytest.mark.parametrize("layer", ABOUT["signatures"])
def test_a_layer_takes_the_same_arguments_with_the_same_defaults(layer):
    parameters = list(inspect.signature(getattr(nn, layer).__init__).parameters.values())[1:]
    found = [[each.name, None if each.default is each.empty else repr(each.default)] for each in parameters]
    assert found == ABOUT["signatures"][layer]


@pytest.mark.parametrize("layer", ABOUT["initial"])
def test_first_values_are_drawn_from_the_same_distribution(layer):
    about = ABOUT["initial"][layer]
    torch.manual_seed(0)
    made = getattr(nn, layer)(**about["arguments"])
    for path, parameter in made.named_parameters():
        shape, mean, std, low, high = about["drawn"][path]
        value = parameter.numpy().astype("float64")
        assert list(value.shape) == shape
        room = 6 * std / np.sqrt(value.size)
        assert value.mean() == pytest.approx(mean, abs=2 * room + 1e-12), path
        assert value.std() == pytest.approx(std, abs=room + 1e-12), path
        # Uniform values come close to their bounds, the closer the more there are; normal ones have none.
        bounded = abs(high) < 2.5 * std or std == 0
        assert value.min() == pytest.approx(low, rel=40 / value.size if bounded else 0.4), path
        assert value.max() == pytest.approx(high, rel=40 / value.size if bounded else 0.4), path


# --- where the reference does not do what it documents ---


def test_positive_samples_are_weighed_as_documented():
    logits, labels = np.array([[-2.0, 1.0], [0.5, -0.3]], "float32"), np.array([[1, 0], [1, 1]], "float32")
    weights = np.array([3.0, 0.2], "float32")
    loss = nn.BCEWithLogitsLoss(reduction="none", pos_weight=to_tensor(weights))(to_tensor(logits), to_tensor(labels))
    p = 1 / (1 + np.exp(-logits))
    np.testing.assert_allclose(loss.numpy(), -weights * labels * np.log(p) - (1 - labels) * np.log(1 - p), rtol=1e-5)


def test_gradients_of_a_batch_normalised_by_itself_in_evaluation_are_those_of_training():
    value = np.random.RandomState(0).standard_normal((6, 3)).astype("float32")
    gradients = []
    for evaluate in (False, True):
        layer = nn.BatchNorm1D(3, use_global_stats=False)
        if evaluate:
            layer.eval()
        x = to_tensor(value, stop_gradient=False)
        (layer(x) * to_tensor(weights_of(value))).sum().backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_array_equal(*gradients)


# --- what belongs to a layer ---


class Model(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 2)
        self.tower = nn.LayerList([nn.Linear(2, 2), nn.ReLU()])
        self.scale = self.create_parameter([2], default_initializer=nn.initializer.Constant(2.0))
        self.add_sublayer("head", nn.Sequential(("linear", nn.Linear(2, 1)), ("sigmoid", nn.Sigmoid())))
        self.register_buffer("seen", to_tensor([0.0]))
        self.passing = to_tensor([1.0])

    def forward(self, x):
        x = self.first(x)
        for layer in self.tower:
            x = layer(x)
        return self.head(x * self.scale)


def test_attributes_belong_to_the_layer_under_their_paths():
    model = Model()
    paths = [path for path, _ in model.named_parameters()]
    assert paths == [
        "scale", "first.weight", "first.bias", "tower.0.weight", "tower.0.bias", "head.linear.weight",
        "head.linear.bias",
    ]  # fmt: skip
    assert [path for path, _ in model.named_buffers()] == ["seen", "passing"]
    assert list(model.state_dict()) == ["scale", "seen", *paths[1:]]
    assert [name for name, _ in model.named_children()] == ["first", "tower", "head"]
    assert [path for path, _ in model.named_sublayers()] == [
        "first", "tower", "tower.0", "tower.1", "head", "head.linear", "head.sigmoid"
    ]  # fmt: skip
    assert model.sublayers(include_self=True)[0] is model
    assert model.scale.name == "model_0.w_0"
    assert model.scale.optimize_attr == {"learning_rate": 1.0}


def test_training_and_evaluation_reach_every_layer():
    model = Model()
    model.eval()
    assert not any(layer.training for layer in model.sublayers(include_self=True))
    model.train()
    assert all(layer.training for layer in model.sublayers(include_self=True))


def test_an_attribute_keeps_its_kind():
    model = Model()
    with pytest.raises(TypeError, match="sublayer 'first'"):
        model.first = 3
    with pytest.raises(TypeError, match="buffer 'seen'"):
        model.seen = 3
    model.seen = to_tensor([5.0])
    assert "seen" in model.state_dict()
    model.first = None
    assert model.first is None
    with pytest.raises(AttributeError, match="'Model' object has no attribute 'second'"):
        _ = model.second


def test_attributes_before_the_constructor_are_an_error():
    class Hasty(nn.Layer):
        def __init__(self):
            self.linear = nn.Linear(1, 1)

    with pytest.raises(ValueError, match=r"super\(\).__init__\(\) should be called first"):
        Hasty()


def test_hooks_change_inputs_and_outputs_until_they_are_removed():
    layer = nn.Identity()
    before = layer.register_forward_pre_hook(lambda _, inputs: inputs[0] + 1)
    after = layer.register_forward_post_hook(lambda _, inputs, output: output * 10)
    assert layer(to_tensor([1.0])).tolist() == [20.0]
    before.remove()
    assert layer(to_tensor([1.0])).tolist() == [10.0]
    after.remove()
    assert layer(to_tensor([1.0])).tolist() == [1.0]


def test_state_goes_from_one_layer_to_another():
    one, other = Model(), Model()
    x = to_tensor(np.ones((4, 3), "float32"))
    assert other.set_state_dict(one.state_dict()) == ([], [])
    np.testing.assert_array_equal(one(x).numpy(), other(x).numpy())


def test_what_the_state_lacks_is_told():
    layer = nn.Linear(2, 2)
    with pytest.warns(UserWarning, match="bias is not set"):
        assert layer.set_state_dict({"weight": np.ones((2, 2), "float32"), "other": 1}) == (["bias"], ["other"])
    with pytest.warns(UserWarning, match=r"weight is not set: it is \[2, 2\], and was given \[3, 2\]"):
        assert layer.set_state_dict({"weight": np.ones((3, 2)), "bias": np.ones(2)}) == (["weight"], ["weight"])
    assert layer.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_layer_becomes_one_of_doubles_and_keeps_its_tensors():
    layer = nn.Linear(2, 2)
    held = layer.weight.value
    layer.to(dtype="float64")
    assert layer.weight.value is held
    assert layer.weight.numpy().dtype == np.float64
    assert layer(to_tensor(np.ones((1, 2)))).numpy().dtype == np.float64


def test_gradients_are_cleared():
    model = Model()
    model(to_tensor(np.ones((4, 3), "float32"))).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.clear_gradients()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_parameter_can_be_frozen():
    layer = nn.Linear(2, 1, weight_attr=ParamAttr(name="own", learning_rate=0.1, trainable=False))
    layer(to_tensor(np.ones((1, 2), "float32"))).sum().backward()
    assert (layer.weight.name, layer.weight.trainable, layer.weight.grad) == ("own", False, None)
    assert layer.weight.attributes.attr.learning_rate == 0.1
    layer.weight.trainable = True
    assert not layer.weight.stop_gradient


def test_a_copy_has_parameters_of_its_own():
    layer = nn.GRU(2, 3)
    other = copy.deepcopy(layer)
    assert other.weight_ih_l0.name == "gru_cell_0.w_0_deepcopy_0"
    assert other.weight_ih_l0 is other[0].cell.weight_ih
    other.weight_ih_l0.set_value(np.zeros((9, 2), "float32"))
    assert layer.weight_ih_l0.numpy().any()


def test_lists_of_layers_are_lists():
    layers = nn.LayerList([nn.ReLU(), nn.Tanh()])
    layers.insert(0, nn.Sigmoid())
    layers.append(nn.Identity())
    del layers[1]
    assert [type(layer).__name__ for layer in layers] == ["Sigmoid", "Tanh", "Identity"]
    assert isinstance(layers[0:2], nn.LayerList)
    assert layers[-1] is layers[2]
    parameters = nn.ParameterList([nn.Linear(1, 1).weight])
    assert [path for path, _ in parameters.named_parameters()] == ["0"]
    sequence = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    assert (len(sequence), sequence["1"]) == (2, sequence[1])
    assert nn.LayerDict({"a": nn.ReLU()}).keys() == {"a"}


def test_the_row_of_padding_is_zero_and_stays():
    layer = nn.Embedding(4, 2, padding_idx=-1)
    assert layer.weight.tolist()[3] == [0.0, 0.0]
    layer(to_tensor([[3, 0]])).sum().backward()
    assert layer.weight.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]


def test_dropout_drops_in_training_alone():
    layer = nn.Dropout(0.5)
    x = to_tensor(np.ones((100, 10), "float32"))
    assert set(np.unique(layer(x).numpy())) == {0.0, 2.0}
    layer.eval()
    assert set(np.unique(layer(x).numpy())) == {1.0}


def test_an_empty_sequence_has_no_outputs_and_keeps_its_state():
    layer = nn.GRU(2, 3)
    x = to_tensor(np.ones((2, 4, 2), "float32"))
    state = to_tensor(np.full((1, 2, 3), 0.5, "float32"))
    outputs, last = layer(x, state, sequence_length=to_tensor([0, 4]))
    assert not outputs.numpy()[0].any()
    assert last.tolist()[0][0] == [0.5, 0.5, 0.5]
    np.testing.assert_allclose(last.numpy()[0, 1], outputs.numpy()[1, 3])


def test_a_cell_backwards_reads_each_sequence_from_its_end():
    layer = nn.RNN(nn.LSTMCell(2, 3), is_reverse=True)
    x = np.random.RandomState(0).standard_normal((2, 4, 2)).astype("float32")
    outputs, (last, _) = layer(to_tensor(x), sequence_length=to_tensor([4, 2]))
    alone, _ = layer(to_tensor(x[1:, :2]))
    np.testing.assert_allclose(outputs.numpy()[1, :2], alone.numpy()[0], rtol=1e-6)
    np.testing.assert_allclose(last.numpy()[1], alone.numpy()[0, 0], rtol=1e-6)


def test_a_cell_of_a_scripts_own_is_called_at_each_step():
    class Sum(nn.Layer):
        def forward(self, inputs, states=None):
            total = inputs if states is None else inputs + states
            return total, total

    outputs, last = nn.RNN(Sum())(to_tensor([[[1.0], [2.0], [3.0]]]))
    assert outputs.tolist() == [[[1.0], [3.0], [6.0]]]
    assert last.tolist() == [[6.0]]


# --- in programs ---


def test_a_sparse_embedding_of_a_program_is_a_table(static):
    layer = nn.Embedding(1000, 4, sparse=True, weight_attr=ParamAttr(initializer=nn.initializer.Constant(0.5)))
    rows = layer(data("ids", [-1, 2], "int64"))
    assert layer.weight.attributes.table
    loss = call("sum", rows)
    SGD(learning_rate=0.1).minimize(loss)
    executor = Executor()
    executor.run(default_startup_program())
    feed = {"ids": np.array([[3, 7], [3, 9]])}
    executor.run(loss.program, feed=feed, fetch_list=[loss])
    (found,) = executor.run(loss.program, feed=feed, fetch_list=[rows])
    np.testing.assert_allclose(found[:, :, 0], [[0.3, 0.4], [0.3, 0.4]], rtol=1e-6)


def test_a_program_for_testing_leaves_dropout_and_statistics_alone(static):
    x = data("x", [-1, 3])
    norm = nn.BatchNorm1D(3)
    result = nn.Dropout(0.5)(norm(x))
    executor = Executor()
    executor.run(default_startup_program())
    feed = {"x": np.random.RandomState(0).standard_normal((8, 3)).astype("float32")}
    test = result.program.clone(for_test=True)
    (before,) = executor.run(test, feed=feed, fetch_list=[result])
    np.testing.assert_allclose(before, feed["x"] / np.sqrt(1 + 1e-5), rtol=1e-5)
    executor.run(result.program, feed=feed, fetch_list=[result])
    mean = global_scope().find_var(norm._mean.name).get_tensor().numpy()
    np.testing.assert_allclose(mean, 0.1 * feed["x"].mean(0), rtol=1e-4)
    executor.run(test, feed=feed, fetch_list=[result])
    np.testing.assert_array_equal(global_scope().find_var(norm._mean.name).get_tensor().numpy(), mean)


def test_a_layer_in_evaluation_is_recorded_so(static):
    model = nn.Sequential(nn.BatchNorm1D(3), nn.Dropout(0.5))
    model.eval()
    result = model(data("x", [-1, 3]))
    executor = Executor()
    executor.run(default_startup_program())
    feed = {"x": np.ones((8, 3), "float32")}
    (found,) = executor.run(result.program, feed=feed, fetch_list=[result])
    np.testing.assert_allclose(found, feed["x"] / np.sqrt(1 + 1e-5), rtol=1e-5)


def test_the_state_of_a_programs_layer_is_set_in_the_scope(static):
    layer = nn.Linear(3, 2)
    result = layer(data("x", [-1, 3]))
    executor = Executor()
    executor.run(default_startup_program())
    layer.set_state_dict({"weight": np.ones((3, 2), "float32"), "bias": np.zeros(2, "float32")})
    (found,) = executor.run(result.program, feed={"x": np.ones((1, 3), "float32")}, fetch_list=[result])
    assert found.tolist() == [[3.0, 3.0]]


def test_an_encoder_has_layers_like_the_first_one(static):
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0), 3, nn.LayerNorm(6))
    result = encoder(data("x", [-1, 5, 6]))
    assert result.shape == (-1, 5, 6)
    assert len(encoder.parameters()) == 3 * 16 + 2
    assert [layer.full_name() for layer in encoder.layers] == [f"transformer_encoder_layer_{i}" for i in range(3)]


def test_a_recurrent_layer_of_unknown_length_is_built_from_one_step(static):
    outputs, last = nn.GRU(3, 5, num_layers=2, direction="bidirect")(data("x", [-1, -1, 3]))
    assert outputs.shape == (-1, -1, 10)
    assert last.shape == (4, -1, 5)
