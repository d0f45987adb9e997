"""Tables, keys, values and settings that make no sense."""

import re

import numpy as np
import pytest
import torch

from flota import Client
from flota.errors import InvalidArgument, NonFiniteValues, TableMismatch, UnknownTable
from flota.initializer import Uniform
from flota.rules import SGD, Adam, Lamb
from flota.testing import LocalCluster
from table_contents import contents

NAN, INFINITY = float("nan"), float("inf")


# --- tables ---


def test_an_unknown_table_names_those_there_are(client, table):
    with pytest.raises(UnknownTable, match=rf"there is no table 'nothing'; there are: .*{re.escape(table.name)}"):
        client.table("nothing")


DIFFERENCES = {
    "dim": ({"dim": 3}, "dim is 2 there and 3 here"),
    "rule": ({"rule": Adam()}, "rule is SGD there and Adam here"),
    "weight_decay": ({"rule": SGD(lr=1.0, weight_decay=0.1)}, "weight_decay is 0 there and 0.1 here"),
    "seed": ({"seed": 1}, "seed is 0 there and 1 here"),
    "init": ({"init": Uniform(-1, 1)}, "initialiser is constant .* there and uniform -1 1 .* here"),
    "storage": ({"storage": "float16"}, "storage is float32 there and float16 here"),
    "allow_nonfinite": ({"allow_nonfinite": True}, "allow_nonfinite is false there and true here"),
}


@pytest.mark.parametrize(("change", "says"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_a_table_that_exists_with_other_settings_says_which(cluster, client, table, change, says):
    before = contents(table)
    settings = {"dim": 2, "rule": SGD(lr=1.0), "seed": 0, **change}
    with (
        Client(cluster.endpoints, secret=cluster.secret) as another,
        pytest.raises(TableMismatch, match=f"table '{re.escape(table.name)}' exists with other settings: {says}"),
    ):
        another.create_sparse_table(table.name, **settings)
    assert contents(table) == before
    again = client.create_sparse_table(table.name, dim=2, rule=SGD(lr=1.0), seed=0)
    assert torch.equal(again.pull([1, 2]), table.pull([1, 2]))


def test_a_dense_table_of_that_name_is_another_table(client, table):
    with pytest.raises(TableMismatch, match="kind is sparse there and dense here"):
        client.create_dense_table(table.name, shape=2, rule=SGD(lr=1.0))


def test_a_parameter_of_another_shape_is_refused_even_with_as_many_elements(client, name):
    client.create_dense_table(name, shape=(3, 2), rule=SGD())
    with pytest.raises(TableMismatch, match=r"shape is \[3, 2\] there and \[2, 3\] here"):
        client.create_dense_table(name, shape=(2, 3), rule=SGD())


def test_a_mismatch_leaves_no_half_made_table(name):
    """A server that was restarted has lost the table: it must not get one of other settings than the rest has."""
    with LocalCluster(servers=3) as cluster:
        client = cluster.client()
        client.create_sparse_table(name, dim=2, rule=SGD())
        for server in (0, 2):
            cluster.crash(server)
            cluster.restart(server)
        with pytest.raises(TableMismatch, match="dim is 2 there and 5 here"):
            client.create_sparse_table(name, dim=5, rule=SGD())
        assert client.create_sparse_table(name, dim=2, rule=SGD()).pull([1, 2, 3, 4, 5]).shape == (5, 2)


REFUSED_TABLES = {
    "dim 0": ({"dim": 0}, "dim must be a whole number from 1"),
    "dim beyond the limit": ({"dim": 65537}, "dim .* 1 to 65536"),
    "dim of another type": ({"dim": 2.0}, "dim must be a whole number"),
    "empty name": ({"name": ""}, "a table needs a name"),
    "long name": ({"name": "x" * 256}, "at most 255"),
    "name that leaves its folder": ({"name": "../secrets"}, "empty, . or .."),
    "name with a space": ({"name": "a b"}, "letters, digits and"),
    "rule by name": ({"rule": "adam"}, r"flota\.rules, such as Adagrad"),
    "dense rule": ({"rule": Lamb()}, "Lamb is for dense tables only"),
    "negative lr": ({"rule": SGD(lr=-1.0)}, "lr is -1: it must not be negative"),
    "NaN": ({"rule": SGD(lr=NAN)}, "lr is nan: it must be a finite float32"),
    "betas": ({"rule": Adam(betas=(0.9, 1.0))}, "beta2 is 1: it must be at least 0 and below 1"),
    "unknown steps": ({"rule": Adam(steps="epoch")}, "steps must be one of row, push, not 'epoch'"),
    "init of another type": ({"init": 0.5}, r"init must be one of flota\.initializer, such as Uniform"),
    "empty range": ({"init": Uniform(1.0, 1.0)}, "must be below"),
    "unknown storage": ({"storage": "float8"}, "storage must be one of float32, float16, bfloat16, not 'float8'"),
    "seed out of range": ({"seed": 2**64}, "seed"),
    "seed of another type": ({"seed": 1.5}, "seed"),
    "timeout 0": ({"timeout": 0}, "a timeout must be a number of seconds above 0, not 0"),
    "NaN timeout": ({"timeout": NAN}, "a timeout must be a number of seconds above 0, not nan"),
}


@pytest.mark.parametrize(("change", "says"), REFUSED_TABLES.values(), ids=REFUSED_TABLES)
def test_settings_that_make_no_table_are_refused(client, name, change, says):
    settings = {"name": name, "dim": 2, "rule": SGD(), **change}
    with pytest.raises(InvalidArgument, match=says):
        client.create_sparse_table(**settings)
    with pytest.raises(UnknownTable):
        client.table(name)


REFUSED_PARAMETERS = {
    "no elements": ({"shape": (3, 0)}, "each side of shape must be a whole number from 1"),
    "negative shape": ({"shape": (-3, -2)}, "shape"),
    "shape of another type": ({"shape": (2.0, 3)}, "shape"),
    "blocks of nothing": ({"min_block_size": 0}, "min_block_size must be"),
    "unknown split": ({"split_method": "Random"}, "split_method must be one of RoundRobin, HashName, not 'Random'"),
}


@pytest.mark.parametrize(("change", "says"), REFUSED_PARAMETERS.values(), ids=REFUSED_PARAMETERS)
def test_settings_that_make_no_parameter_are_refused(client, name, change, says):
    with pytest.raises(InvalidArgument, match=says):
        client.create_dense_table(**{"name": name, "shape": (2, 3), "rule": SGD(), **change})
    with pytest.raises(UnknownTable):
        client.table(name)


# --- keys and values ---


REFUSED_KEYS = {
    "int32": (np.array([1, 2], dtype=np.int32), r"int64 or uint64, not int32; convert them with \.astype"),
    "torch int32": (torch.tensor([1, 2], dtype=torch.int32), r"torch\.int64, not torch\.int32; convert .*\.long"),
    "floats": (torch.tensor([1.0, 2.0]), r"torch\.int64, not torch\.float32"),
    "bools": (np.array([True]), "not bool"),
    "two dimensions": (torch.tensor([[1, 2]]), r"one dimension, not shape \[1, 2\]; flatten"),
    "no dimension": (np.array(3), r"one dimension, not shape \[\]"),
    "a list of lists": ([[1, 2]], "is not a whole number"),
    "a list of floats": ([1, 2.5], "2.5 is not a whole number"),
    "a list of strings": (["one"], "'one' is not a whole number"),
    "too large": ([2**64], "64 bits"),
    "a number": (5, "whole numbers"),
    "nothing": (None, "whole numbers"),
}


@pytest.mark.parametrize(("keys", "says"), REFUSED_KEYS.values(), ids=REFUSED_KEYS)
def test_keys_of_a_wrong_type_or_shape_are_refused(table, keys, says):
    before = contents(table)
    for call in (table.pull, table.pull_async):
        with pytest.raises(InvalidArgument, match=says):
            call(keys)
    for call in (table.push, table.push_async):
        with pytest.raises(InvalidArgument, match=says):
            call(keys, torch.ones(2, 2))
    assert contents(table) == before


REFUSED_VALUES = {
    "too few rows": (torch.ones(1, 2), r"values must have shape \[2, 2\], not \[1, 2\]"),
    "too wide": (torch.ones(2, 3), r"values must have shape \[2, 2\], not \[2, 3\]"),
    "flat": (np.ones(4, dtype=np.float32), r"values must have shape \[2, 2\], not \[4\]"),
    "float64": (np.ones((2, 2)), r"float32, not float64; convert them with \.astype"),
    "torch float64": (torch.ones(2, 2, dtype=torch.float64), r"torch\.float64; convert them with \.float"),
    "half": (torch.ones(2, 2, dtype=torch.float16), r"torch\.float16"),
    "ragged lists": ([[1.0], [1.0, 2.0]], "values must be numbers of shape"),
    "words": (["a", "b"], "values must be numbers of shape"),
}


@pytest.mark.parametrize(("values", "says"), REFUSED_VALUES.values(), ids=REFUSED_VALUES)
def test_values_of_a_wrong_type_or_shape_are_refused(client, name, table, values, says):
    before = contents(table)
    dense = client.create_dense_table(f"{name}-dense", shape=(2, 2), rule=SGD())
    for call in (table.push, table.push_async):
        with pytest.raises(InvalidArgument, match=says):
            call([1, 2], values)
    with pytest.raises(InvalidArgument, match=says):
        dense.push(values)
    assert contents(table) == before
    assert not dense.pull().any()


@pytest.mark.parametrize("keys", [[], (), np.array([], dtype=np.int64), torch.tensor([], dtype=torch.int64)], ids=type)
def test_no_keys_are_legal(table, keys):
    before = contents(table)
    assert tuple(table.pull(keys).shape) == (0, 2)
    assert tuple(table.pull_async(keys).result().shape) == (0, 2)
    table.push(keys, torch.ones(0, 2))
    table.push(keys, [])
    table.push_async(keys, np.ones((0, 2), dtype=np.float32)).result()
    assert contents(table) == before


@pytest.mark.parametrize("key", [-1, 0, 2**63 - 1, -(2**63)])
def test_any_int64_is_a_key(table, key):
    table.push([key], [[3.0, 4.0]], kind="assign")
    assert table.pull(np.array([key])).tolist() == [[3.0, 4.0]]
    unsigned = np.array([key % 2**64], dtype=np.uint64)
    assert table.pull(unsigned).tolist() == [[3.0, 4.0]]
    assert key in np.concatenate([page.keys for page in table.export()])


@pytest.mark.parametrize("kind", ["gradient", "delta", "assign"])
@pytest.mark.parametrize("bad", [NAN, INFINITY, -INFINITY])
def test_a_push_with_nan_or_infinity_is_refused_whole(table, kind, bad):
    before = contents(table)
    keys = list(range(100, 140))  # on both servers
    values = torch.ones(40, 2)
    values[23, 1] = bad
    for push in (table.push, lambda *args, **kwargs: table.push_async(*args, **kwargs).result()):
        with pytest.raises(NonFiniteValues, match=rf"table '{re.escape(table.name)}'.*key 123.*allow_nonfinite=True"):
            push(keys, values, kind=kind)
    assert contents(table) == before, "no server applied its part"


def test_the_first_key_with_nan_is_named(table):
    values = torch.ones(60, 2)
    values[41:, 0] = NAN
    with pytest.raises(NonFiniteValues, match="key 41 "):
        table.push(torch.arange(60), values)
    doubled = torch.arange(60).repeat(2)
    with pytest.raises(NonFiniteValues, match="key 41 "):
        table.push(doubled, values.repeat(2, 1))


def test_gradients_whose_sum_overflows_are_refused(table):
    before = contents(table)
    with pytest.raises(NonFiniteValues, match="key 5"):
        table.push([5, 5], [[3e38, 0.0], [3e38, 0.0]])
    assert contents(table) == before


def test_a_dense_push_with_nan_is_refused_whole(client, name):
    dense = client.create_dense_table(name, shape=(8, 8), rule=SGD(lr=1.0), min_block_size=16)
    assert dense.blocks == 2
    values = torch.ones(8, 8)
    values[7, 7] = NAN
    with pytest.raises(NonFiniteValues, match=rf"table '{re.escape(name)}'.*element 63"):
        dense.push(values)
    assert not dense.pull().any()


def test_a_table_can_allow_nan_and_infinity(client, name):
    table = client.create_sparse_table(name, dim=1, rule=SGD(lr=1.0), allow_nonfinite=True)
    table.push([1, 2, 3], [[NAN], [INFINITY], [1.0]])
    assert str(table.pull([1, 2, 3]).tolist()) == "[[nan], [-inf], [-1.0]]"
    dense = client.create_dense_table(f"{name}-dense", shape=2, rule=SGD(lr=1.0), allow_nonfinite=True)
    dense.push([NAN, 1.0])
    assert str(dense.pull().tolist()) == "[nan, -1.0]"


REFUSED_PUSHES = {
    "unknown kind": ({"kind": "sum"}, "kind must be one of gradient, delta, assign, not 'sum'"),
    "negative lr": ({"lr": -0.1}, "learning rate must be a finite number from 0 on"),
    "NaN lr": ({"lr": NAN}, "learning rate must be a finite number from 0 on"),
    "infinite scale": ({"scale": INFINITY}, "scale"),
    "scale beyond float32": ({"scale": 1e300}, "scale"),
    "negative step": ({"step": -1}, "step must be"),
    "step beyond 64 bits": ({"step": 2**64}, "step must be"),
    "timeout 0": ({"timeout": 0}, "a timeout must be a number of seconds above 0"),
}


@pytest.mark.parametrize(("change", "says"), REFUSED_PUSHES.values(), ids=REFUSED_PUSHES)
def test_settings_of_a_push_that_make_no_sense_are_refused(table, change, says):
    before = contents(table)
    with pytest.raises(InvalidArgument, match=says):
        table.push([1, 2, 3, 4], torch.ones(4, 2), **change)
    with pytest.raises(InvalidArgument, match=says):
        table.push_async([1, 2, 3, 4], torch.ones(4, 2), **change).result()
    assert contents(table) == before


REFUSED_OUTPUTS = {
    "float64": (torch.empty(2, 2, dtype=torch.float64), "float32"),
    "another shape": (torch.empty(3, 2), r"out must have shape \[2, 2\], not \[3, 2\]"),
    "not contiguous": (torch.empty(2, 2).t(), "contiguous"),
    "strided array": (np.empty((2, 4), dtype=np.float32)[:, ::2], "contiguous"),
    "requires a gradient": (torch.empty(2, 2, requires_grad=True), "no gradient"),
}


@pytest.mark.parametrize(("out", "says"), REFUSED_OUTPUTS.values(), ids=REFUSED_OUTPUTS)
def test_an_output_that_cannot_hold_the_rows_is_refused(client, name, table, out, says):
    with pytest.raises(InvalidArgument, match=says):
        table.pull([1, 2], out=out)
    dense = client.create_dense_table(f"{name}-dense", shape=(2, 2), rule=SGD())
    with pytest.raises(InvalidArgument, match=says):
        dense.pull(out=out)


def test_a_read_only_output_is_refused(table):
    out = np.zeros((2, 2), dtype=np.float32)
    out.flags.writeable = False
    with pytest.raises(InvalidArgument, match="writable"):
        table.pull([1, 2], out=out)


def test_rows_of_another_shape_are_not_imported(client, table, name):
    before = contents(table)
    wide = client.create_sparse_table(f"{name}-wide", dim=3, rule=SGD())
    wide.pull([1])
    stateful = client.create_sparse_table(f"{name}-stateful", dim=2, rule=Adam())
    stateful.pull([1])
    for other in (wide, stateful):
        (page,) = other.export()
        with pytest.raises(InvalidArgument, match=f"table '{re.escape(table.name)}'.*not this table's shape"):
            table.import_rows(page)
    assert contents(table) == before
