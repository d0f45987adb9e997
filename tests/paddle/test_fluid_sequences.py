"""1.x's layers over sequences, and its losses of many classes: as release 2.6.2 computes them, and in programs."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import flota.paddle as paddle
from flota.errors import InvalidArgument
from flota.paddle import fluid
from flota.paddle.fluid import layers, nets
from flota.paddle.jagged import Jagged
from flota.paddle.ops.registry import OPERATIONS
from flota.paddle.tensor import Tensor

GOLDEN = json.loads((Path(__file__).parent / "golden" / "fluid.json").read_text())


pytestmark = pytest.mark.usefixtures("program")


def sequences(values, lengths):
    return Jagged(torch.as_tensor(values), torch.tensor([0, *np.cumsum(lengths)]))


def kernel(which, *args, **kwargs):
    return OPERATIONS[which].kernel(*args, **kwargs)


def nce(inputs, x):
    classes = torch.tensor([[label, 4, 6] for (label,) in inputs["Label"]])
    return kernel("nce_loss", x["Input"], classes, x["Weight"][classes], x["Bias"][classes], 1, 8, 2, "uniform")


def tree(inputs, x):
    nodes, right, there = kernel("hsigmoid_path", torch.tensor(inputs["Label"]), 8)
    return kernel("hsigmoid_of_path", x["X"], x["W"][nodes], x["Bias"][nodes], right, there)


def gru(s, x, reverse, origin):
    return kernel("dynamic_gru", s(x["Input"]), x["Weight"], x["Bias"], x["H0"], reverse, origin_mode=origin)


def lstm(s, x, peepholes, reverse):
    return kernel("dynamic_lstm", s(x["Input"]), x["Weight"], x["Bias"], x["H0"], x["C0"], peepholes, reverse)


COMPUTED = {
    "gru reverse=False origin=False": lambda s, x, given: gru(s, x, False, False),
    "gru reverse=True origin=True": lambda s, x, given: gru(s, x, True, True),
    "lstm peepholes=True reverse=False": lambda s, x, given: lstm(s, x, True, False),
    "lstm peepholes=False reverse=True": lambda s, x, given: lstm(s, x, False, True),
    "conv start=-1": lambda s, x, given: kernel("sequence_conv", s(x["X"]), x["Filter"], -1, 3),
    "conv start=0": lambda s, x, given: kernel("sequence_conv", s(x["X"]), x["Filter"], 0, 3),
    "slice": lambda s, x, given: kernel("sequence_slice", s(x["X"]), x["Offset"], x["Length"]),
    "reshape": lambda s, x, given: kernel("sequence_reshape", s(x["X"]), 4),
    "reset": lambda s, x, given: kernel("lod_reset", s(x["X"]), target_lod=[0, 4, 6]),
    "taught": lambda s, x, given: kernel("teacher_student_sigmoid_loss", x["X"], x["Label"]),
    "nce": lambda s, x, given: nce(given, x),
    "tree": lambda s, x, given: tree(given, x),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_values_and_gradients_are_the_references(name):
    case = GOLDEN[name]
    tensors = {slot: torch.tensor(values, dtype=_type(values)) for slot, values in case["inputs"].items()}
    for slot in case["gradients"]:
        tensors[slot].requires_grad_()
    found = COMPUTED[name](lambda values: sequences(values, case["lengths"]), tensors, case["inputs"])
    results = list(found) if isinstance(found, tuple) else [found]
    if case["lod"]:
        assert results[0].offsets.tolist() == case["lod"][0]
    values = [each.values if isinstance(each, Jagged) else each for each in results]
    for own, wanted in zip(values, case["outputs"], strict=True):
        np.testing.assert_allclose(own.detach().numpy(), wanted, rtol=1e-4, atol=1e-6)
    values[0].sum().backward()
    for slot, wanted in case["gradients"].items():
        np.testing.assert_allclose(tensors[slot].grad.numpy(), wanted, rtol=1e-4, atol=1e-6, err_msg=slot)


def _type(values):
    return torch.float32 if isinstance(np.array(values).flat[0], np.floating) else torch.int64


@pytest.mark.parametrize("lengths", [[0, 2, 0], [0, 0], [], [4]])
def test_sequences_may_be_empty(lengths):
    values = torch.rand(sum(lengths), 3)
    x = sequences(values, lengths)
    hidden = kernel("dynamic_gru", x, torch.rand(1, 3))
    assert hidden.offsets.tolist() == x.offsets.tolist()
    assert list(hidden.values.shape) == [sum(lengths), 1]
    assert list(kernel("sequence_conv", x, torch.rand(9, 2), -1, 3).values.shape) == [sum(lengths), 2]
    ids = x.with_values(torch.ones(sum(lengths), 1, dtype=torch.int64))
    assert list(kernel("sequence_enumerate", ids, 2).values.shape) == [sum(lengths), 2]


def test_numbers_are_enumerated_within_their_sequence():
    found = kernel("sequence_enumerate", sequences(torch.tensor([[1], [2], [3], [4]]), [3, 1]), 2, 9)
    assert found.values.tolist() == [[1, 2], [2, 3], [3, 9], [4, 9]]


def test_lengths_count_squares_when_near_and_are_weighted():
    x, y = torch.tensor([[0.1, 3.0], [0.0, 0.0]]), torch.zeros(2, 2)
    found = kernel("smooth_l1", x, y, sigma=2.0)
    # Near is below 1/4: 0.5 · 4 · 0.01, and 3 - 0.5 / 4.
    np.testing.assert_allclose(found.numpy(), [[0.02 + 2.875], [0.0]], rtol=1e-6)
    half = torch.full((2, 2), 0.5)
    np.testing.assert_allclose(
        kernel("smooth_l1", x, y, half, half).numpy(), [[0.5 * (0.00125 + 1.0)], [0.0]], rtol=1e-5
    )


def test_classes_are_drawn_as_often_as_their_chances_say():
    label = torch.zeros(40_000, 1, dtype=torch.int64)
    torch.manual_seed(1)
    for sampler, dist, wanted in (
        ("uniform", None, [0.25] * 4),
        ("log_uniform", None, np.log((np.arange(4) + 2) / (np.arange(4) + 1)) / np.log(5)),
        ("custom_dist", [0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4]),
    ):
        drawn = kernel("nce_classes", label, 4, 1, sampler, dist)
        assert (drawn[:, 0] == 0).all()
        np.testing.assert_allclose(drawn[:, 1].bincount(minlength=4) / 40_000, wanted, atol=0.01)
    once, again = (kernel("nce_classes", label, 4, 2, "uniform", None, 7) for _ in range(2))
    assert once.tolist() == again.tolist()


# --- in programs ---


def trained(loss, feeds, steps=30, rate=0.1):
    """The losses of so many steps."""
    fluid.optimizer.Adam(rate).minimize(loss)
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    return [float(executor.run(feed=feeds, fetch_list=[loss])[0]) for _ in range(steps)]


SESSIONS = Tensor(Jagged(torch.tensor([[1], [2], [3], [2], [1], [4]]), torch.tensor([0, 3, 4, 6])))
NEXT = Tensor(Jagged(torch.tensor([[2], [3], [4], [1], [4], [0]]), torch.tensor([0, 3, 4, 6])))


def test_sessions_are_learnt_by_a_recurrent_model(program):
    items = layers.data("items", [1], dtype="int64", lod_level=1)
    wanted = layers.data("wanted", [1], dtype="int64", lod_level=1)
    rows = layers.fc(layers.embedding(items, [5, 8]), 24)
    hidden = layers.dynamic_gru(rows, size=8)
    cell, _ = layers.dynamic_lstm(layers.fc(hidden, 32), size=32, is_reverse=True)
    scores = layers.fc([hidden, cell], 5, act="softmax")
    assert [each.shape for each in program.all_parameters() if each.name.startswith(("gru", "lstm"))] == [
        (8, 24), (1, 24), (8, 32), (1, 56),
    ]  # fmt: skip
    losses = trained(layers.mean(layers.cross_entropy(scores, wanted)), {"items": SESSIONS, "wanted": NEXT})
    assert losses[-1] < losses[0] / 5


def test_titles_are_convolved_and_pooled():
    words = layers.data("words", [1], dtype="int64", lod_level=1)
    label = layers.data("label", [1], dtype="int64")
    titles = nets.sequence_conv_pool(layers.embedding(words, [5, 8]), 6, 3, act="tanh", pool_type="sum")
    assert titles.shape == (-1, 6)
    loss = layers.mean(layers.cross_entropy(layers.fc(titles, 2, act="softmax"), label))
    losses = trained(loss, {"words": SESSIONS, "label": np.array([[0], [1], [0]])})
    assert losses[-1] < losses[0] / 3


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("sampler", ["uniform", "log_uniform", "custom_dist"])
def test_classes_are_told_from_drawn_ones(program, is_sparse, sampler):
    x, label = layers.data("x", [4]), layers.data("label", [1], dtype="int64")
    dist = [0.125] * 8 if sampler == "custom_dist" else None
    cost = layers.nce(x, label, 8, num_neg_samples=4, sampler=sampler, custom_dist=dist, is_sparse=is_sparse)
    assert cost.shape == (-1, 1)
    assert [(each.name, each.shape) for each in program.all_parameters()] == [
        ("nce_0.w_0", (8, 4)),
        ("nce_0.b_0", (8, 1)),
    ]
    paddle.seed(3)
    losses = trained(layers.mean(cost), {"x": np.eye(4, dtype="float32"), "label": np.array([[1], [3], [5], [7]])}, 80)
    assert np.mean(losses[-10:]) < np.mean(losses[:5]) / 2


@pytest.mark.parametrize("classes", [2, 5, 8])
def test_the_leaves_of_a_tree_share_a_probability_of_one(classes):
    nodes, right, there = kernel("hsigmoid_path", torch.arange(classes).reshape(-1, 1), classes)
    weights, biases = torch.rand(classes - 1, 3), torch.rand(classes - 1, 1)
    x = torch.rand(1, 3).expand(classes, 3)
    losses = kernel("hsigmoid_of_path", x, weights[nodes], biases[nodes], right, there)
    assert float(torch.exp(-losses).sum()) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_classes_are_learnt_as_leaves_of_a_tree(program, is_sparse):
    x, label = layers.data("x", [4]), layers.data("label", [1], dtype="int64")
    cost = layers.hsigmoid(x, label, num_classes=6, is_sparse=is_sparse)
    assert [each.shape for each in program.all_parameters()] == [(5, 4), (5, 1)]
    feed = {"x": np.eye(4, dtype="float32"), "label": np.array([[0], [2], [3], [5]])}
    losses = trained(layers.mean(cost), feed, 60, 0.3)
    assert losses[-1] < losses[0] / 5


def test_sequences_that_a_script_changes_go_on_as_sequences():
    x = layers.data("x", [2], lod_level=1)
    begin, count = layers.data("begin", [1], dtype="int64"), layers.data("count", [1], dtype="int64")
    parts = layers.sequence_pool(layers.sequence_slice(x, begin, count), "sum")
    others = layers.sequence_pool(layers.lod_reset(x, target_lod=[0, 1, 4]), "sum")
    values = torch.arange(8.0).reshape(4, 2)
    feed = {"x": Tensor(Jagged(values, torch.tensor([0, 3, 4]))), "begin": [[1], [0]], "count": [[2], [1]]}
    found = fluid.Executor().run(feed=feed, fetch_list=[parts, others])
    assert found[0].tolist() == [[6, 8], [6, 7]]
    assert found[1].tolist() == [[0, 1], [12, 15]]


@pytest.mark.parametrize(
    "make",
    [
        lambda x, label: layers.dynamic_gru(x, 5),
        lambda x, label: layers.dynamic_gru(label, 1),
        lambda x, label: layers.dynamic_gru(x, 2, gate_activation="softmax"),
        lambda x, label: layers.dynamic_gru(x, 2, param_attr=False),
        lambda x, label: layers.dynamic_lstm(x, 6),
        lambda x, label: layers.dynamic_lstm(x, 8, h_0=label),
        lambda x, label: layers.dynamic_lstm(x, 8, bias_attr=False),
        lambda x, label: layers.sequence_conv(x, 2, filter_stride=2),
        lambda x, label: layers.sequence_conv(x, 2, padding=False),
        lambda x, label: layers.lod_reset(x),
        lambda x, label: layers.hsigmoid(label, label, 1),
        lambda x, label: layers.hsigmoid(label, label, 4, is_custom=True),
        lambda x, label: layers.nce(label, label, 8, sampler="zipf"),
        lambda x, label: layers.nce(label, label, 8, custom_dist=[0.125] * 8),
        lambda x, label: layers.nce(label, label, 8, sampler="custom_dist", custom_dist=[1.0]),
    ],
)
def test_what_cannot_be_is_refused(make):
    with pytest.raises(InvalidArgument):
        make(layers.data("x", [6], lod_level=1), layers.data("label", [1], dtype="int64"))
