"""A row is a function of its history: not of the number of servers, of the order of first pulls, or of the run.

The same training runs on 1, 2 and 5 servers, and every bit of weights, state and counters must come out the same.
"""

import numpy as np
import pytest
import torch

from flota.initializer import Constant, Normal, TruncatedNormal, Uniform, XavierUniform
from flota.rules import (
    FTRL,
    SGD,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Lamb,
    LazyAdam,
    Momentum,
    PaddleAdamax,
    PaddleRMSProp,
    RMSProp,
)
from table_contents import assert_same_bits, rows_of

SERVERS = (1, 2, 5)
DIM = 9

SPARSE_RULES = {
    "sgd": SGD(lr=0.1, weight_decay=0.01),
    "momentum": Momentum(lr=0.1, momentum=0.9, nesterov=True),
    "adagrad": Adagrad(lr=0.1, lr_decay=0.01),
    "rmsprop": RMSProp(lr=0.01, momentum=0.5, centered=True),
    "adam": Adam(lr=0.01, amsgrad=True),
    "adam-push": Adam(lr=0.01, steps="push"),
    "adamw": AdamW(lr=0.01),
    "adamax": Adamax(lr=0.01),
    "ftrl": FTRL(lr=0.1, l1=0.1),
    "paddle-rmsprop": PaddleRMSProp(lr=0.01, momentum=0.5, centered=True),
    "paddle-adamax": PaddleAdamax(lr=0.01),
    "lazy-adam": LazyAdam(lr=0.01),
}
DENSE_RULES = {**SPARSE_RULES, "lamb": Lamb(lr=0.01)}

INITIALIZERS = {
    "constant": Constant(0.25),
    "uniform": Uniform(-0.1, 0.1),
    "normal": Normal(0.5, 2.0),
    "truncated-normal": TruncatedNormal(0.0, 1.0, -0.5, 1.5),
    "xavier": XavierUniform(fan_in=100, fan_out=DIM),
}

# Any int64 is a key: small ones, as from a vocabulary, and hashes.
KEYS = np.concatenate([np.arange(-20, 100), [2**63 - 1, -(2**63), 2**32, -(2**40) - 1]]).astype(np.int64)


@pytest.fixture(scope="module")
def clients(start_cluster):
    """By number of servers."""
    return {servers: start_cluster(servers).client() for servers in SERVERS}


def train_rows(table, rule, steps=40):
    """Random pushes with duplicates; the order in which rows first appear is random, too."""
    rng = np.random.default_rng(7)
    for step in range(1, steps + 1):
        keys = rng.choice(KEYS, size=60)
        table.push(keys, rng.standard_normal((60, DIM), dtype=np.float32), lr=rule.lr / step, scale=0.3)
        if step % 5 == 0:
            table.pull(rng.choice(KEYS, size=10))


@pytest.mark.parametrize("rule", SPARSE_RULES.values(), ids=SPARSE_RULES)
def test_rows_do_not_depend_on_the_number_of_servers(clients, name, rule):
    results = []
    for client in clients.values():
        table = client.create_sparse_table(name, dim=DIM, rule=rule, init=Normal(0, 0.1), seed=5)
        train_rows(table, rule)
        results.append(rows_of(table))
    assert len(results[0][0]) > 100
    assert_same_bits(*results)


@pytest.mark.parametrize("storage", ["float16", "bfloat16"])
def test_rows_in_half_storage_do_not_depend_on_the_number_of_servers(clients, name, storage):
    rule, results = Adagrad(lr=0.1), []
    for client in clients.values():
        table = client.create_sparse_table(name, dim=DIM, rule=rule, init=Normal(0, 0.1), storage=storage)
        train_rows(table, rule)
        results.append(rows_of(table))
    assert_same_bits(*results)


@pytest.mark.parametrize("rule", SPARSE_RULES.values(), ids=SPARSE_RULES)
def test_the_same_run_again_gives_the_same_rows(clients, name, rule):
    results = []
    for run in range(2):
        table = clients[2].create_sparse_table(f"{name}-{run}", dim=DIM, rule=rule, init=Uniform(-1, 1), seed=5)
        train_rows(table, rule)
        results.append(rows_of(table))
    assert_same_bits(*results)


def dense_state(table):
    """The blocks' state put together, one row a slot."""
    pages = list(table.export())
    return np.concatenate([page.state.reshape(-1, page.weights.size) for page in pages], axis=1)


@pytest.mark.parametrize("split_method", ["RoundRobin", "HashName"])
@pytest.mark.parametrize("rule", DENSE_RULES.values(), ids=DENSE_RULES)
def test_a_dense_parameter_does_not_depend_on_how_it_is_cut(clients, name, rule, split_method):
    results, blocks = [], []
    for client in clients.values():
        table = client.create_dense_table(
            name, shape=(301, 167), rule=rule, init=Uniform(-0.1, 0.1), seed=5, split_method=split_method
        )
        rng = np.random.default_rng(11)
        for step in range(1, 9):
            table.push(rng.standard_normal(table.shape, dtype=np.float32), lr=rule.lr / step, scale=0.3)
        blocks.append(table.blocks)
        results.append([table.pull().numpy(), dense_state(table)])
    assert blocks == ([1, 1, 1] if isinstance(rule, Lamb) else [1, 2, 5])
    assert_same_bits(*results)


@pytest.mark.parametrize("init", INITIALIZERS.values(), ids=INITIALIZERS)
def test_a_first_value_depends_on_seed_and_key_only(clients, name, rng, init):
    results = []
    for servers, client in clients.items():
        table = client.create_sparse_table(name, dim=DIM, rule=SGD(), init=init, seed=2**64 - 7)
        # Everybody asks in another order and in other portions.
        for portion in np.array_split(rng.permutation(KEYS), servers * 3):
            table.pull(portion)
        results.append([table.pull(KEYS)])
    assert_same_bits(*results)


def test_another_seed_gives_other_first_values(client, name):
    rows = [
        client.create_sparse_table(f"{name}-{seed}", dim=DIM, rule=SGD(), init=Normal(), seed=seed).pull(KEYS)
        for seed in (0, 1)
    ]
    assert np.all(rows[0] != rows[1])
    assert len(np.unique(rows[0])) == rows[0].size


@pytest.mark.parametrize("storage", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("init", INITIALIZERS.values(), ids=INITIALIZERS)
def test_a_row_that_is_not_made_shows_what_it_would_begin_with(client, name, init, storage):
    table = client.create_sparse_table(name, dim=DIM, rule=SGD(), init=init, seed=9, storage=storage)
    shown = table.pull(KEYS, create=False)
    assert table.rows() == 0
    assert np.array_equal(table.pull(KEYS), shown)
    assert table.rows() == len(KEYS)


def test_a_dense_parameters_first_value_does_not_depend_on_how_it_is_cut(clients, name):
    results = [
        [client.create_dense_table(name, shape=70_001, rule=SGD(), init=Normal(), seed=1).pull().numpy()]
        for client in clients.values()
    ]
    assert_same_bits(*results)


@pytest.mark.parametrize("kind", ["gradient", "delta"])
def test_values_of_equal_keys_are_summed_in_order(clients, name, kind):
    # The order shows: (1e8 + 1) - 1e8 is 0 in float32, (1e8 - 1e8) + 1 is 1.
    keys = [3, 5, 3, 5, 3, 5]
    values = [[1e8], [1e8], [1.0], [-1e8], [-1e8], [1.0]]
    for client in clients.values():
        table = client.create_sparse_table(name, dim=1, rule=SGD(lr=1.0))
        table.push(keys, values, kind=kind)
        sign = -1.0 if kind == "gradient" else 1.0
        assert table.pull([3, 5]).tolist() == [[0.0], [sign]]
        if kind == "gradient":
            assert rows_of(table)[1].tolist() == [1, 1], "equal keys are one update"


def test_many_duplicates_sum_as_one_by_one_float32_addition(client, name, rng):
    table = client.create_sparse_table(name, dim=DIM, rule=SGD(lr=1.0))
    keys = rng.integers(0, 10, size=5000)
    gradients = (rng.standard_normal((5000, DIM)) * 10.0 ** rng.integers(-3, 4, size=(5000, 1))).astype(np.float32)
    table.push(torch.from_numpy(keys), torch.from_numpy(gradients))
    expected = [np.add.accumulate(gradients[keys == key])[-1] for key in range(10)]
    assert np.array_equal(-table.pull(np.arange(10)), expected)


def test_of_equal_keys_the_last_assigned_value_counts(client, name):
    table = client.create_sparse_table(name, dim=2, rule=SGD())
    table.push([4, 9, 4], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], kind="assign")
    assert table.pull([4, 9]).tolist() == [[5.0, 6.0], [3.0, 4.0]]
