"""Programs on a GPU: the same numbers as on the CPU."""

import numpy as np
import pytest
import torch

import flota.paddle as paddle
from flota.paddle import mode
from flota.paddle.graph import names

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def train(place):
    mode.enable_static()
    try:
        main, startup, scope = paddle.static.Program(), paddle.static.Program(), paddle.static.Scope()
        with names.guard(), paddle.static.program_guard(main, startup), paddle.static.scope_guard(scope):
            ids = [paddle.static.data(f"C{i}", [-1, 1], "int64", lod_level=1) for i in range(3)]
            dense, label = paddle.static.data("dense", [-1, 4]), paddle.static.data("label", [-1, 1], "int64")
            attr = paddle.ParamAttr(name="table", initializer=paddle.nn.initializer.Uniform(-0.1, 0.1))
            rows = [paddle.static.nn.embedding(each, [100, 8], is_sparse=True, param_attr=attr) for each in ids]
            pooled = [paddle.reshape(paddle.static.nn.sequence_pool(each, "sum"), [-1, 8]) for each in rows]
            constant = paddle.nn.initializer.Constant(0.05)
            hidden = paddle.concat([*pooled, dense], axis=1)
            for _ in range(2):
                hidden = paddle.static.nn.fc(hidden, 16, weight_attr=constant, activation="relu")
            predict = paddle.static.nn.fc(
                hidden, 2, weight_attr=paddle.nn.initializer.Assign(START), activation="softmax"
            )
            loss = paddle.mean(paddle.nn.functional.cross_entropy(predict, label, use_softmax=False))
            area, *_ = paddle.static.auc(predict, label)
            paddle.optimizer.Adam(0.01).minimize(loss)
            executor = paddle.static.Executor(place)
            executor.run(startup)
            found = []
            random = np.random.RandomState(5)
            for _ in range(6):
                lengths = random.randint(0, 3, (3, 32))
                feed = {"dense": random.normal(size=(32, 4)).astype("float32"), "label": random.randint(0, 2, (32, 1))}
                for i, each in enumerate(lengths):
                    feed[f"C{i}"] = (
                        random.randint(0, 100, (each.sum(), 1)), np.concatenate([[0], np.cumsum(each)])
                    )  # fmt: skip
                found.append([float(each[0]) for each in executor.run(main, feed=feed, fetch_list=[loss, area])])
            return (
                found,
                np.array(scope.find_var("table").get_tensor()),
                np.array(scope.find_var("fc_0.b_0").get_tensor()),
            )
    finally:
        mode.disable_static()


START = np.random.RandomState(2).normal(size=(16, 2)).astype("float32") / 4


def test_a_program_trains_on_a_gpu_as_on_the_cpu():
    for one, other in zip(train(paddle.CPUPlace()), train(paddle.CUDAPlace(0)), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)
