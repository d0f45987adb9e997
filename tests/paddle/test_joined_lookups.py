"""Rows that are only put beside each other are looked up in that order: the same numbers as one by one."""

from collections.abc import Iterator

import numpy as np
import pytest

import flota.paddle as paddle
from flota.paddle import mode
from flota.paddle.graph import names

SLOTS, DIM = 3, 4


@pytest.fixture(autouse=True)
def programs() -> Iterator[None]:
    mode.enable_static()
    yield
    mode.disable_static()


class Model:
    def __init__(self, sequences: bool, padding: int | None = None) -> None:
        self.main, self.startup, self.scope = paddle.static.Program(), paddle.static.Program(), paddle.static.Scope()
        with names.guard(), paddle.static.program_guard(self.main, self.startup):
            self.sequences = sequences
            self.rows = []
            for slot in range(SLOTS):
                ids = paddle.static.data(f"C{slot}", [-1, 1], "int64", lod_level=int(sequences))
                rows = paddle.static.nn.embedding(
                    ids, [50, DIM], is_sparse=True, padding_idx=padding, param_attr=paddle.ParamAttr(name="table")
                )
                pooled = paddle.static.nn.sequence_pool(rows, "sum") if sequences else rows
                self.rows.append(paddle.reshape(pooled, [-1, DIM]))
            dense = paddle.static.data("dense", [-1, 2])
            self.wide = paddle.concat([dense, *self.rows], axis=1)
            self.loss = paddle.mean(paddle.square(paddle.static.nn.fc(self.wide, 2) - 1.0))
            paddle.optimizer.SGD(0.5).minimize(self.loss)
        self.executor = paddle.static.Executor()
        with paddle.static.scope_guard(self.scope):
            paddle.seed(1)
            self.executor.run(self.startup)

    def source(self, *wanted: str) -> str:
        return self.executor.compiled(self.main, [*wanted, self.loss.name]).source

    def train(self, most: int, *more: paddle.static.Variable) -> list[np.ndarray]:
        found = []
        random = np.random.RandomState(3)
        with paddle.static.scope_guard(self.scope):
            for _ in range(4):
                feed = {"dense": random.normal(size=(8, 2)).astype("float32")}
                for slot in range(SLOTS):
                    lengths = random.randint(1, most + 1, 8) if self.sequences else np.ones(8, "int64")
                    ids = random.randint(0, 50, (lengths.sum(), 1))
                    feed[f"C{slot}"] = (ids, np.concatenate([[0], np.cumsum(lengths)])) if self.sequences else ids
                found += self.executor.run(self.main, feed=feed, fetch_list=[self.loss, self.wide, *more])[:2]
        return [*found, np.array(self.scope.find_var("table").get_tensor())]


@pytest.mark.parametrize("padding", [None, 7])
@pytest.mark.parametrize(("sequences", "most"), [(False, 1), (True, 1), (True, 3)])
def test_joined_rows_are_those_of_single_lookups(sequences: bool, most: int, padding: int | None) -> None:
    joined, single = Model(sequences, padding), Model(sequences, padding)
    assert "look_up_joined" in joined.source()
    # Who asks for one of them has it looked up as it stands.
    assert "look_up_joined" not in single.source(single.rows[1].name)
    for one, other in zip(joined.train(most), single.train(most, single.rows[1]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
