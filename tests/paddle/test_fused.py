"""Operations that are computed in one: the same numbers as one by one."""

import numpy as np
import pytest

import flota.paddle as paddle

static = paddle.static


pytestmark = pytest.mark.usefixtures("program")


def test_a_product_and_its_bias_are_one_unless_somebody_wants_the_product(program: static.Program) -> None:
    x = static.data("x", [None, 3])
    weight, bias = static.create_parameter([3, 2], "float32"), static.create_parameter([2], "float32", is_bias=True)
    product = paddle.matmul(x, weight)
    total = product + bias
    loss = paddle.mean(paddle.square(total))
    paddle.optimizer.SGD(0.1).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    assert "weight=" in executor.compiled(program, [loss.name]).source
    assert "weight=" not in executor.compiled(program, [loss.name, product.name]).source

    held = [static.global_scope().find_var(each.name).get_tensor() for each in (weight, bias)]
    before = [np.array(each) for each in held]
    feed = {"x": np.random.RandomState(0).rand(5, 3).astype("float32")}
    after = []
    for fetches in ([loss, total], [loss, total, product]):
        for tensor, value in zip(held, before, strict=True):
            tensor.set(value, paddle.CPUPlace())
        values = executor.run(feed=feed, fetch_list=fetches)
        after.append([*values[:2], *(np.array(each) for each in held)])
    for one, apart in zip(*after, strict=True):
        np.testing.assert_allclose(one, apart, rtol=1e-5, atol=1e-7)


def test_a_product_that_is_used_twice_stays(program: static.Program) -> None:
    x = static.data("x", [None, 3])
    product = paddle.matmul(x, static.create_parameter([3, 2], "float32"))
    both = (product + static.create_parameter([2], "float32")) * product
    assert "weight=" not in static.Executor().compiled(program, [both.name]).source
