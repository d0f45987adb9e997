"""Programs' values and models to serve: saved, read back, damaged."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flota.paddle as paddle
from flota.errors import CheckpointError, InvalidArgument
from flota.paddle import mode
from flota.paddle.graph import names

ROWS, DIM = 40, 3


@pytest.fixture(autouse=True)
def programs() -> Iterator[None]:
    mode.enable_static()
    with names.guard():
        yield
    mode.disable_static()


class Model:
    """Sequences of ids and numbers, a normalised layer, a metric that keeps statistics."""

    def __init__(self, optimizer: Any = None, bounded: bool = True) -> None:
        self.main, self.startup, self.scope = paddle.static.Program(), paddle.static.Program(), paddle.static.Scope()
        with names.guard(), paddle.static.program_guard(self.main, self.startup):
            ids = paddle.static.data("ids", [-1, 1], "int64", lod_level=1)
            numbers = paddle.static.data("numbers", [-1, 4], "float32")
            label = paddle.static.data("label", [-1, 1], "int64")
            if bounded:
                rows = paddle.static.nn.embedding(ids, [ROWS, DIM], is_sparse=True)
            else:
                rows = paddle.static.nn.sparse_embedding(ids, [ROWS, DIM])
            pooled = paddle.reshape(paddle.static.nn.sequence_pool(rows, "sum"), [-1, DIM])
            joined = paddle.concat([pooled, numbers], axis=1)
            hidden = paddle.nn.BatchNorm1D(5)(paddle.static.nn.fc(joined, 5, activation="relu"))
            self.predict = paddle.static.nn.fc(paddle.nn.functional.dropout(hidden, 0.3), 2, activation="softmax")
            self.loss = paddle.mean(paddle.nn.functional.cross_entropy(self.predict, label, use_softmax=False))
            self.auc, *_ = paddle.static.auc(self.predict, label)
            self.test = self.main.clone(for_test=True)
            if optimizer is not None:
                optimizer().minimize(self.loss)
        self.executor = paddle.static.Executor(paddle.CPUPlace())
        self.within(lambda: self.executor.run(self.startup))

    def within(self, act: Any) -> Any:
        with paddle.static.scope_guard(self.scope):
            return act()

    def train(self, steps: int, first: int = 0) -> list[float]:
        def run() -> list[float]:
            return [
                float(self.executor.run(self.main, feed=batch(first + step), fetch_list=[self.loss])[0])
                for step in range(steps)
            ]

        return self.within(run)

    def scores(self) -> np.ndarray:
        def run() -> np.ndarray:
            return self.executor.run(self.test, feed=batch(99), fetch_list=[self.predict])[0]

        return self.within(run)


def batch(number: int) -> dict[str, Any]:
    random = np.random.RandomState(number)
    lengths = random.randint(0, 4, 16)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = random.randint(0, ROWS, (offsets[-1], 1))
    return {
        "ids": (ids, offsets),
        "numbers": random.normal(size=(16, 4)).astype("float32"),
        "label": random.randint(0, 2, (16, 1)),
    }


def adam() -> Any:
    return paddle.optimizer.Adam(0.05)


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("make", [adam, lambda: paddle.optimizer.Adagrad(0.1, initial_accumulator_value=0.5)])
def test_training_goes_on_where_it_was_saved(tmp_path: Path, bounded: bool, make: Any) -> None:
    trained = Model(make, bounded)
    trained.main.clone()
    trained.train(5)
    trained.within(lambda: paddle.static.save(trained.main, str(tmp_path / "out" / "model")))
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".pdparams", ".pdopt", ".pdmodel"}
    other = Model(make, bounded)
    other.train(2, first=50)
    other.within(lambda: paddle.static.load(other.main, str(tmp_path / "out" / "model"), other.executor))
    assert np.array_equal(trained.scores(), other.scores())
    # Rows that the other has made beyond the saved ones begin as they would; dropout draws alike.
    for model in (trained, other):
        paddle.seed(3)
        model.losses = model.train(4, first=5)
    assert trained.losses == other.losses


def test_a_parameter_file_is_one_of_paddle_load(tmp_path: Path) -> None:
    model = Model(adam)
    model.train(2)
    model.within(lambda: paddle.static.save(model.main, str(tmp_path / "model")))
    saved = paddle.load(str(tmp_path / "model.pdparams"), return_numpy=True)
    assert saved["embedding_0.w_0"].shape == (ROWS, DIM)
    held = model.within(lambda: np.array(paddle.static.global_scope().find_var("fc_0.w_0").get_tensor()))
    assert np.array_equal(saved["fc_0.w_0"], held)


def test_rows_are_read_and_set_by_the_scope() -> None:
    model = Model(adam)
    rows = np.random.RandomState(1).normal(size=(ROWS, DIM)).astype("float32")
    table = model.scope.find_var("embedding_0.w_0").get_tensor()
    assert np.abs(np.array(table)).max() > 0
    table.set(rows, paddle.CPUPlace())
    assert np.array_equal(np.array(table), rows)
    model.train(1)  # makes what trains them
    ids = batch(0)["ids"][0].ravel()
    moved = np.abs(np.array(table) - rows).max(axis=1)
    assert set(np.nonzero(moved)[0]) == set(ids)
    with pytest.raises(InvalidArgument, match=r"40 rows of 3.*\[41, 3\]"):
        table.set(np.zeros((ROWS + 1, DIM), "float32"))


def test_assign_gives_a_table_its_rows() -> None:
    main, startup, scope = paddle.static.Program(), paddle.static.Program(), paddle.static.Scope()
    rows = np.arange(12, dtype="float32").reshape(4, 3)
    with paddle.static.program_guard(main, startup), paddle.static.scope_guard(scope):
        attr = paddle.ParamAttr(name="e", initializer=paddle.nn.initializer.Assign(rows))
        ids = paddle.static.data("ids", [-1], "int64")
        found = paddle.static.nn.embedding(ids, [4, 3], is_sparse=True, param_attr=attr)
        paddle.optimizer.SGD(0.5).minimize(paddle.sum(found))
        executor = paddle.static.Executor()
        executor.run(startup)
        (seen,) = executor.run(main, feed={"ids": np.array([[1], [3]])}, fetch_list=[found])
        assert np.array_equal(seen.reshape(2, 3), rows[[1, 3]])
        assert np.array_equal(np.array(scope.find_var("e").get_tensor())[[1, 3]], rows[[1, 3]] - 0.5)


@pytest.mark.parametrize("bounded", [True, False])
def test_a_model_to_serve_scores_as_the_trained_one(tmp_path: Path, bounded: bool) -> None:
    model = Model(adam, bounded)
    model.train(40)  # by then there is a row for every id: unknown ones give a default
    feeds = [model.main.global_block().var(name) for name in ("ids", "numbers")]
    prefix = str(tmp_path / "deep" / "ctr")
    model.within(
        lambda: paddle.static.save_inference_model(prefix, feeds, [model.predict], model.executor, program=model.main)
    )
    with paddle.static.scope_guard(paddle.static.Scope()):
        executor = paddle.static.Executor(paddle.CPUPlace())
        program, fed, fetched = paddle.static.load_inference_model(prefix, executor)
        assert fed == ["ids", "numbers"]
        assert [each.name for each in fetched] == [model.predict.name]
        given = {name: value for name, value in batch(99).items() if name in fed}
        (scores,) = executor.run(program, feed=given, fetch_list=fetched)
        assert paddle.static.global_scope().find_var("fc_0.w_0") is not None
    assert np.array_equal(scores, model.scores())


def test_a_served_model_leaves_the_trained_one_alone(tmp_path: Path) -> None:
    model = Model(adam)
    model.train(2)
    feeds = [model.main.global_block().var(name) for name in ("ids", "numbers")]
    prefix = str(tmp_path / "ctr")

    def save_train_load() -> np.ndarray:
        paddle.static.save_inference_model(prefix, feeds, [model.predict], model.executor, program=model.main)
        before = model.scores()
        model.train(3)
        after = model.scores()
        program, fed, fetched = paddle.static.load_inference_model(prefix, model.executor)
        given = {name: value for name, value in batch(99).items() if name in fed}
        assert np.array_equal(model.executor.run(program, feed=given, fetch_list=fetched)[0], before)
        assert np.array_equal(model.scores(), after)
        return after

    model.within(save_train_load)


def test_what_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    model = Model(adam)
    prefix = str(tmp_path / "ctr")
    ids = model.main.global_block().var("ids")

    def save(feeds: Any, path: str = prefix) -> None:
        paddle.static.save_inference_model(path, feeds, [model.predict], model.executor, program=model.main)

    def load() -> Any:
        return paddle.static.load_inference_model(prefix, model.executor)

    with pytest.raises(InvalidArgument, match="needs 'numbers' too"):
        model.within(lambda: save([ids]))
    with pytest.raises(InvalidArgument, match="is a folder"):
        model.within(lambda: save([ids], f"{tmp_path}/"))
    with pytest.raises(CheckpointError, match=r"no model .*ctr\.pdmodel"):
        load()
    model.within(lambda: save([ids, model.main.global_block().var("numbers")]))
    for name in ("ctr.pdmodel", "ctr.pdiparams"):
        path = tmp_path / name
        whole = path.read_bytes()
        for damaged in (whole[:-9], whole[: len(whole) // 2] + b"?" + whole[len(whole) // 2 + 1 :], b""):
            path.write_bytes(damaged)
            with pytest.raises(CheckpointError, match=name):
                load()
        path.write_bytes(whole)
    load()
    with pytest.raises(CheckpointError, match=r"no file .*nothing\.pdparams"):
        paddle.static.load(model.main, str(tmp_path / "nothing"))
