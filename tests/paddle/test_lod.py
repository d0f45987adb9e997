"""1.x's LoD tensors: scripts cut arrays into sequences and feed them."""

import numpy as np
import pytest
import torch

from flota.errors import InvalidArgument
from flota.paddle import fluid
from flota.paddle.fluid import layers
from flota.paddle.jagged import Jagged
from flota.paddle.lod import LoDTensor, create_lod_tensor, create_random_int_lodtensor


def test_a_tensor_is_cut_into_sequences():
    made = LoDTensor()
    array = np.arange(10.0, dtype="float32").reshape(5, 2)
    made.set(array, fluid.CPUPlace())
    assert (made.lod(), made.recursive_sequence_lengths(), made.shape()) == ([], [], [5, 2])
    made.set_lod([[0, 2, 5]])
    assert made.recursive_sequence_lengths() == [[2, 3]]
    made.set_recursive_sequence_lengths([[1, 0, 4]])
    assert made.lod() == [[0, 1, 1, 5]]
    assert made.has_valid_recursive_sequence_lengths()
    array[:] = 0
    assert np.array(made)[4].tolist() == [8, 9], "it keeps what it was given"
    found = made.jagged()
    assert isinstance(found, Jagged)
    assert (found.offsets.tolist(), found.values.dtype) == ([0, 1, 1, 5], torch.float32)
    made.set_lod([])
    assert isinstance(made.jagged(), torch.Tensor)


def test_a_tensor_is_made_of_an_array_or_of_sequences():
    made = create_lod_tensor(np.ones((5, 3)), [[2, 3]], fluid.CPUPlace())
    assert (made.lod(), made.shape()) == ([[0, 2, 5]], [5, 3])
    made = create_lod_tensor([[1, 2], [3]], [[2, 1]], fluid.CPUPlace())
    assert (np.array(made).tolist(), np.array(made).dtype) == ([[1], [2], [3]], np.int64)
    again = create_lod_tensor(made, [[1, 2]], fluid.CPUPlace())
    assert again.lod() == [[0, 1, 3]]
    drawn = create_random_int_lodtensor([[2, 3]], [1], fluid.CPUPlace(), low=4, high=5)
    assert drawn.shape() == [5, 1]
    assert set(np.array(drawn).flat) <= {4, 5}


@pytest.mark.parametrize(
    "make",
    [
        lambda: LoDTensor().jagged(),
        lambda: LoDTensor().set_lod([[1, 2]]),
        lambda: LoDTensor().set_lod([[0, 3, 2]]),
        lambda: LoDTensor().set_lod([[0]]),
        lambda: LoDTensor().set_lod([[0, 1], [0, 2]]),
        lambda: LoDTensor().set_recursive_sequence_lengths([[-1]]),
        lambda: create_lod_tensor(np.ones((5, 3)), [[2, 2]], None),
        lambda: create_lod_tensor([[1, 2], [3]], [[1, 2]], None),
    ],
)
def test_sequences_that_cannot_be_are_refused(make):
    with pytest.raises(InvalidArgument):
        make()


def test_sequences_that_end_elsewhere_are_refused_when_they_are_fed():
    made = create_lod_tensor(np.ones((5, 3)), [[2, 3]], None)
    made.set(np.ones((4, 3)), None)
    with pytest.raises(InvalidArgument, match="4 rows, and its sequences end at 5"):
        made.jagged()


def test_a_program_is_fed_sequences_and_gives_them_back(program):
    words = fluid.layers.data("words", [1], dtype="int64", lod_level=1)
    x = fluid.layers.data("x", [2])
    rows = layers.embedding(words, [10, 4])
    pooled = layers.sequence_pool(rows, "sum")
    plain = fluid.LoDTensor()
    plain.set(np.ones((2, 2), "float32"), fluid.CPUPlace())
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    feed = {"words": fluid.create_lod_tensor([[1, 2], [3, 4, 5]], [[2, 3]], fluid.CPUPlace()), "x": plain}
    fetched = executor.run(feed=feed, fetch_list=[rows, pooled, x], return_numpy=False)
    assert fetched[0].recursive_sequence_lengths() == [[2, 3]]
    sums = np.add.reduceat(np.array(fetched[0]), [0, 2])
    np.testing.assert_allclose(np.array(fetched[1]), sums, rtol=1e-6)
    assert np.array(fetched[2]).tolist() == [[1, 1], [1, 1]]
