"""What a script saves and loads itself, and gradients that it asks for, eagerly."""

import io

import numpy as np
import pytest

import flota.paddle.mode as mode
import flota.paddle.nn as nn
from flota.errors import CheckpointError, InvalidArgument
from flota.paddle.nn.gradients import grad, no_grad
from flota.paddle.nn.saving import load, save
from flota.paddle.tensor import Tensor, to_tensor


@pytest.fixture(autouse=True)
def eager():
    mode.disable_static()
    yield
    mode.disable_static()


def test_what_is_saved_is_loaded(tmp_path):
    layer = nn.Linear(2, 2)
    given = {
        "model": layer.state_dict(),
        "epoch": 3,
        "rates": [0.1, float("inf"), None, True, "text", (1, 2)],
        7: np.arange(3),
        "scheduler": {"last": np.float32(0.5)},
    }
    save(given, tmp_path / "folder" / "model.pdparams")
    found = load(str(tmp_path / "folder" / "model.pdparams"))
    assert isinstance(found["model"]["weight"], Tensor)
    assert found["model"]["weight"].tolist() == layer.weight.tolist()
    assert (found["epoch"], found["rates"]) == (3, given["rates"])
    assert found[7].tolist() == [0, 1, 2]
    assert found["scheduler"] == {"last": np.float32(0.5)}
    arrays = load(tmp_path / "folder" / "model.pdparams", return_numpy=True)
    np.testing.assert_array_equal(arrays["model"]["bias"], layer.bias.numpy())
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["model.pdparams"]


def test_a_file_in_memory_is_one_too():
    file = io.BytesIO()
    save([to_tensor([1.0]), "text"], file)
    file.seek(0)
    tensor, text = load(file)
    assert (tensor.tolist(), text) == ([1.0], "text")


def test_what_cannot_be_saved_or_loaded_is_an_error(tmp_path):
    with pytest.raises(InvalidArgument, match="save its state_dict"):
        save(nn.Linear(1, 1), tmp_path / "file")
    with pytest.raises(InvalidArgument, match="set cannot be saved"):
        save({"a": {1, 2}}, tmp_path / "file")
    with pytest.raises(InvalidArgument, match="there is no file"):
        load(tmp_path / "file")
    save({"a": to_tensor([1.0, 2.0])}, tmp_path / "file")
    whole = (tmp_path / "file").read_bytes()
    for bad in (b"", b"\x80\x04}q\x00.", whole[:-3], whole[:30]):
        (tmp_path / "bad").write_bytes(bad)
        with pytest.raises(CheckpointError, match="bad is no file of"):
            load(tmp_path / "bad")


def test_gradients_by_inputs():
    x, y = to_tensor([2.0], stop_gradient=False), to_tensor([3.0], stop_gradient=False)
    assert [each.tolist() for each in grad(x * x * y, [x, y])] == [[12.0], [4.0]]
    assert x.grad is None
    (first,) = grad(x * x * x, x, create_graph=True)
    assert grad(first, x)[0].tolist() == [12.0]
    assert grad(x * x, [y], allow_unused=True) == [None]
    assert grad([x * x], [x], grad_outputs=[to_tensor([10.0])])[0].tolist() == [40.0]
    with pytest.raises(InvalidArgument):
        grad(x * x, [y])


def test_nothing_is_remembered_without_gradients():
    x = to_tensor([2.0], stop_gradient=False)

    @no_grad()
    def doubled(x):
        return x * 2

    assert doubled(x).stop_gradient
    with no_grad():
        assert (x * 2).stop_gradient
    assert not (x * 2).stop_gradient
