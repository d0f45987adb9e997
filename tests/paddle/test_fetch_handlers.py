"""Handlers that look at values while a data set is trained."""

import threading

import numpy as np
import pytest
import torch

from flota.errors import InvalidArgument
from flota.paddle import fluid
from flota.paddle.fluid import layers
from flota.paddle.graph import fetching
from flota.paddle.graph.fetching import FetchHandler, watch

pytestmark = pytest.mark.usefixtures("program")


class Kept(FetchHandler):
    """Keeps what it is told, and says when that is so far as a test waits for."""

    def __init__(self, *args, until=lambda seen: True, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen, self.there, self.until = [], threading.Event(), until

    def handler(self, res_dict):
        self.seen.append(res_dict)
        if self.until(res_dict):
            self.there.set()


def test_a_handler_is_told_the_last_batch_and_what_stays():
    x = layers.data("x", [2])
    count = layers.create_global_var([1], 0.0, "float32", persistable=True, name="count")
    scope = fluid.global_scope()
    kept = Kept({"first": x, "second": count}, 0.01, until=lambda seen: seen["first"] is not None)
    with watch(kept, scope) as watching:
        assert watching.names == ["x"]
        scope.var("count").get_tensor().set(np.array([3.0], "float32"))
        watching.saw([torch.tensor([[1.0, 2.0]])])
        assert kept.there.wait(20)
    assert kept.seen[-1]["first"].tolist() == [[1, 2]]
    assert kept.seen[-1]["second"].tolist() == [3]


def test_values_that_are_not_there_yet_are_none():
    kept = Kept({"x": layers.data("x", [2]), "w": layers.create_parameter([1], "float32", name="w")}, 0.01)
    with watch(kept, fluid.global_scope()):
        assert kept.there.wait(20)
    assert kept.seen[0] == {"x": None, "w": None}


def test_what_a_handler_raises_is_raised_at_the_end():
    class Wrong(FetchHandler):
        def handler(self, res_dict):
            raise RuntimeError("in the handler")

    handler = Wrong({"x": layers.data("x", [2])}, 0.01)
    with pytest.raises(RuntimeError, match="in the handler"), watch(handler, fluid.global_scope()) as watching:
        watching._thread.join(20)
    with pytest.raises(KeyError), watch(handler, fluid.global_scope()):
        raise KeyError("the training's own")


def test_a_handler_that_does_not_return_is_not_waited_for(monkeypatch):
    inside, goes_on = threading.Event(), threading.Event()

    class Slow(FetchHandler):
        def handler(self, res_dict):
            inside.set()
            goes_on.wait(60)

    monkeypatch.setattr(fetching, "_LAST_WAIT", 0.05)
    handler = Slow({"x": layers.data("x", [2])}, 0.01)
    with pytest.warns(UserWarning, match="Slow.handler has not returned"), watch(handler, fluid.global_scope()):
        assert inside.wait(20)
    goes_on.set()


def test_a_handler_says_what_it_is_told_unless_a_script_says_otherwise(capsys):
    FetchHandler({"x": layers.data("x", [2])}).handler({"x": np.array([[1.0, 2.0]]), "y": None})
    assert capsys.readouterr().out == "x[0]: [1. 2.]\n"
    FetchHandler.help()
    assert "fetch_handler=AucHandler" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [(), ({},), ({"x": "x"},), ([1], 3)])
def test_a_handler_needs_variables(arguments):
    with pytest.raises(InvalidArgument):
        FetchHandler(*arguments)


def test_periods_are_positive_and_handlers_are_handlers():
    with pytest.raises(InvalidArgument, match="above 0"):
        FetchHandler({"x": layers.data("x", [2])}, 0)
    with pytest.raises(InvalidArgument, match="a FetchHandler"):
        watch(print, fluid.global_scope())
    assert watch(None, fluid.global_scope()) is None


@pytest.mark.parametrize("trains", [True, False])
def test_a_data_set_is_watched(tmp_path, trains):
    """The second file comes when the handler has been told of the first."""
    x = layers.data("x", [1])
    weight = fluid.ParamAttr(name="w")
    loss = layers.mean(layers.fc(x, 1, param_attr=weight, bias_attr=False))
    if trains:
        fluid.optimizer.SGD(0.1).minimize(loss)
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    files = [tmp_path / "a", tmp_path / "b"]
    for path in files:
        path.write_text("1 2.0\n" * 3)
    flag, first = tmp_path / "flag", tmp_path / "first"
    waiting = f"if ! mkdir {first} 2>/dev/null; then until [ -e {flag} ]; do sleep 0.02; done; fi; cat"
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_filelist([str(path) for path in files])
    dataset.set_batch_size(3)
    dataset.set_pipe_command(waiting)
    dataset.set_use_var([x])

    class Flag(FetchHandler):
        def handler(self, res_dict):
            if res_dict["loss"] is not None and not flag.exists():
                self.told = res_dict
                flag.touch()

    handler = Flag({"loss": loss, "w": fluid.default_main_program().global_block().var("w")}, 0.01)
    run = executor.train_from_dataset if trains else executor.infer_from_dataset
    run(fluid.default_main_program(), dataset, fetch_handler=handler)
    assert handler.told["loss"].shape == (1,)
    assert handler.told["w"].shape == (1, 1)
