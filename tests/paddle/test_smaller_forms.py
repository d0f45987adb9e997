"""Functions of 1.x that 2.x has in another form."""

import numpy as np
import pytest

from flota.errors import InvalidArgument
from flota.paddle import fluid
from flota.paddle.fluid import layers

X = np.array([[-4.0, 0.5, 30.0], [1.0, -0.25, 2.0]], np.float32)


pytestmark = pytest.mark.usefixtures("program")


def run(*variables, **feed):
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    return executor.run(feed=feed, fetch_list=list(variables))


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda x: layers.brelu(x, 0.0, 24.0), np.clip(X, 0, 24)),
        (lambda x: layers.soft_relu(x, 2.0), np.log1p(np.exp(np.clip(X, -2, 2)))),
        (lambda x: layers.hard_swish(x), X * np.clip(X + 3, 0, 6) / 6),
        (lambda x: layers.hard_swish(x, 4.0, 2.0, 1.0), X * np.clip(X + 1, 0, 4) / 2),
        (lambda x: layers.hard_shrink(x), np.where(np.abs(X) > 0.5, X, 0)),
        (lambda x: layers.softshrink(x, alpha=1.0), np.sign(X) * np.maximum(np.abs(X) - 1, 0)),
        (lambda x: layers.tanh_shrink(x), X - np.tanh(X)),
        (lambda x: layers.log_softmax(x), X - np.log(np.exp(X).sum(1, keepdims=True))),
        (lambda x: layers.tril(x, diagonal=0), np.tril(X)),
        (lambda x: layers.triu(x, diagonal=1), np.triu(X, 1)),
        (lambda x: layers.clip_by_norm(x, 1.0), X / np.linalg.norm(X)),
        (lambda x: layers.clip_by_norm(x, 100.0), X),
        (lambda x: layers.cast(layers.has_nan(x), "float32"), [0.0]),
        (lambda x: layers.cast(layers.has_inf(x / 0.0), "float32"), [1.0]),
        (lambda x: layers.rank(x), [2]),
        (lambda x: layers.stanh(x), 1.7159 * np.tanh(0.67 * X)),
    ],
)
def test_a_form_computes(make, wanted):
    (found,) = run(make(layers.data("x", [3])), x=X)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"pool_size": 2, "pool_stride": 2}, [[[[5, 7], [13, 15]]]]),
        ({"pool_size": 2, "pool_stride": 2, "pool_type": "avg"}, [[[[2.5, 4.5], [10.5, 12.5]]]]),
        ({"pool_size": 3, "pool_padding": 1, "pool_stride": 3, "pool_type": "avg"}, [[[[2.5, 4.5], [10.5, 12.5]]]]),
        (
            {"pool_size": 3, "pool_padding": 1, "pool_stride": 3, "pool_type": "avg", "exclusive": False},
            np.array([[[[10, 18], [42, 50]]]]) / 9,
        ),
        ({"global_pooling": True}, [[[[15]]]]),
        ({"global_pooling": True, "pool_type": "avg"}, [[[[7.5]]]]),
    ],
)
def test_windows_are_pooled(options, wanted):
    (found,) = run(
        layers.pool2d(layers.data("x", [1, 4, 4]), **options), x=np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_two_inputs_are_multiplied_by_a_tensor():
    x, y = layers.data("x", [3]), layers.data("y", [2])
    made = layers.bilinear_tensor_product(x, y, 4, param_attr=fluid.ParamAttr(name="w"))
    found, weight = run(made, "w", x=X, y=X[:, :2])
    np.testing.assert_allclose(found, np.einsum("ni,sij,nj->ns", X, weight, X[:, :2]), rtol=1e-4)


def test_overlaps_are_measured():
    p, label = layers.data("p", [2]), layers.data("label", [1], dtype="int64")
    (found,) = run(
        layers.dice_loss(p, label, epsilon=0.0), p=np.array([[1, 0], [0.5, 0.5]], "float32"), label=[[0], [1]]
    )
    assert float(found) == pytest.approx((0.0 + 0.5) / 2)


def test_numbers_are_drawn_in_the_batchs_shape_and_by_chances():
    x = layers.data("x", [3])
    chances = layers.data("chances", [3])
    drawn = layers.gaussian_random_batch_size_like(x, [-1, 5], mean=100.0)
    feed = {"x": X, "chances": np.array([[0, 1, 0], [0, 0, 1]], "float32")}
    found = run(drawn, layers.sampling_id(chances), **feed)
    assert found[0].shape == (2, 5)
    assert found[0].min() > 80
    assert found[1].tolist() == [1, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda x: layers.pool2d(x, 2, "sum"),
        lambda x: layers.pool2d(x),
        lambda x: layers.sampling_id(x, seed=3),
        lambda x: layers.bilinear_tensor_product(x, x, 2, param_attr=False),
    ],
)
def test_what_does_not_act_is_refused(make):
    with pytest.raises(InvalidArgument):
        make(layers.data("x", [3]))
