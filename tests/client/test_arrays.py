"""What goes into a call and what comes out: torch tensors and numpy arrays, used where they lie."""

import numpy as np
import pytest
import torch

from flota import Client
from flota.arrays import address, as_keys, as_values, output_like
from flota.initializer import Uniform
from flota.rules import SGD


@pytest.fixture
def table(client, name):
    return client.create_sparse_table(name, dim=3, rule=SGD(lr=1.0), init=Uniform(-1, 1))


@pytest.fixture
def parameter(client, name):
    return client.create_dense_table(f"{name}-dense", shape=(6, 8), rule=SGD(lr=1.0), min_block_size=16)


def test_torch_keys_give_a_torch_tensor(table):
    rows = table.pull(torch.tensor([5, 6, 5]))
    assert isinstance(rows, torch.Tensor)
    assert rows.dtype == torch.float32
    assert rows.shape == (3, 3)
    assert torch.equal(rows[0], rows[2])


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_numpy_keys_give_a_numpy_array(table, dtype):
    rows = table.pull(np.array([5, 6, 5], dtype=dtype))
    assert isinstance(rows, np.ndarray)
    assert rows.dtype == np.float32
    assert np.array_equal(rows, table.pull(torch.tensor([5, 6, 5])))


@pytest.mark.parametrize("keys", [[5, 6, 5], (5, 6, 5), [np.int64(5), 6, 5]], ids=["list", "tuple", "numpy integers"])
def test_plain_numbers_are_keys_too(table, keys):
    assert torch.equal(table.pull(keys), table.pull(torch.tensor([5, 6, 5])))


def test_a_range_is_keys_too(table):
    assert torch.equal(table.pull(range(3, 6)), table.pull([3, 4, 5]))


@pytest.mark.parametrize("of", [torch.tensor, np.array, list], ids=["torch", "numpy", "list"])
def test_values_may_be_tensors_arrays_or_lists(table, parameter, of):
    values = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    table.push([1, 2], np.array(values, dtype=np.float32) if of is np.array else of(values), kind="assign")
    assert table.pull([1, 2]).tolist() == values
    whole = np.arange(48, dtype=np.float32).reshape(6, 8)
    parameter.push(
        whole.tolist() if of is list else torch.tensor(whole) if of is torch.tensor else whole, kind="assign"
    )
    assert np.array_equal(parameter.pull(), whole)


def test_a_tensor_with_a_gradient_history_can_be_pushed(table):
    values = torch.ones(1, 3, requires_grad=True) * 2
    table.push([1], values, kind="assign")
    assert table.pull([1]).tolist() == [[2.0, 2.0, 2.0]]


def test_arrays_need_not_be_contiguous(table, parameter, rng):
    keys = np.arange(20)
    values = rng.standard_normal((3, 20), dtype=np.float32).T
    assert not values.flags.c_contiguous
    table.push(keys[::2], values[::2], kind="assign")
    table.push(torch.from_numpy(keys)[1::2], torch.from_numpy(values)[1::2], kind="assign")
    assert np.array_equal(table.pull(keys), values)
    assert np.array_equal(table.pull(keys[::-3]), values[::-3])
    wide = rng.standard_normal((8, 6), dtype=np.float32).T
    parameter.push(wide, kind="assign")
    assert np.array_equal(parameter.pull(), wide)


@pytest.mark.parametrize("pull", ["pull", "pull_async"])
def test_rows_can_be_put_where_the_caller_wants_them(table, parameter, pull):
    expected = table.pull([1, 2, 3, 4])
    for room in (torch.full((4, 3), 9.0), np.full((4, 3), 9.0, dtype=np.float32)):
        rows = getattr(table, pull)([1, 2, 3, 4], out=room)
        rows = rows.result() if pull == "pull_async" else rows
        assert rows is room
        assert np.array_equal(room, expected)
    for room in (torch.full((6, 8), 9.0), np.full((6, 8), 9.0, dtype=np.float32)):
        values = getattr(parameter, pull)(out=room)
        values = values.result() if pull == "pull_async" else values
        assert values is room
        assert np.array_equal(room, np.zeros((6, 8)))


def test_an_output_that_is_a_part_of_a_larger_array_leaves_the_rest_alone(table):
    room = torch.full((10, 3), 9.0)
    table.pull([1, 2], out=room[4:6])
    assert torch.equal(room[4:6], table.pull([1, 2]))
    assert torch.all(room[:4] == 9)
    assert torch.all(room[6:] == 9)


def test_contiguous_arrays_are_used_where_they_lie(table):
    """No copy of keys, values or rows: the core gets the caller's own addresses."""
    keys, values, room = torch.arange(4), torch.ones(4, 3), torch.empty(4, 3)
    assert address(as_keys(keys)) == keys.data_ptr()
    assert address(as_values(values, (4, 3), "values")) == values.data_ptr()
    assert address(output_like(keys, (4, 3), room)) == room.data_ptr()
    arrays = keys.numpy(), values.numpy(), room.numpy()
    assert address(as_keys(arrays[0])) == keys.data_ptr()
    assert address(as_values(arrays[1], (4, 3), "values")) == values.data_ptr()
    assert address(output_like(arrays[0], (4, 3), arrays[2])) == room.data_ptr()
    before = room.data_ptr()
    assert table.pull(keys, out=room).data_ptr() == before


def test_large_batches_travel_in_several_messages(client, name, rng):
    """More than a message of 64 MB each way."""
    table = client.create_sparse_table(name, dim=1024, rule=SGD(lr=1.0))
    keys = rng.permutation(40_000)
    values = rng.standard_normal((40_000, 1024), dtype=np.float32)
    table.push(keys, values, kind="assign")
    room = np.empty_like(values)
    table.pull(keys, out=room)
    assert np.array_equal(room, values)


@pytest.mark.parametrize("dim", [1, 2, 3, 15, 16, 17, 4096, 65536])
@pytest.mark.parametrize("transport", ["tcp", "unix", "shared_memory"])
def test_every_dim_travels_by_every_transport(cluster, name, rng, dim, transport):
    with Client(cluster.endpoints, secret=cluster.secret, transport=transport) as client:
        table = client.create_sparse_table(name, dim=dim, rule=SGD(lr=1.0))
        values = rng.standard_normal((7, dim), dtype=np.float32)
        table.push(np.arange(7), values, kind="assign")
        assert np.array_equal(table.pull(np.array([6, 0, 3, 3])), values[[6, 0, 3, 3]])


@pytest.mark.parametrize("size", [1, 15, 17, 100_003])
@pytest.mark.parametrize("transport", ["tcp", "unix", "shared_memory"])
def test_every_size_of_parameter_travels_by_every_transport(cluster, name, rng, size, transport):
    with Client(cluster.endpoints, secret=cluster.secret, transport=transport) as client:
        parameter = client.create_dense_table(name, shape=size, rule=SGD(lr=1.0))
        values = rng.standard_normal(size, dtype=np.float32)
        parameter.push(values, kind="assign")
        assert np.array_equal(parameter.pull(), values)
