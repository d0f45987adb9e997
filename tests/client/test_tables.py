"""What a client does with tables: the three kinds of push, attaching, statistics, export and import, and options."""

import numpy as np
import pytest
import torch

from flota import Client, DenseTable, SparseTable, _core
from flota.initializer import Constant, Normal, Uniform
from flota.rules import SGD, Adagrad, Adam, Lamb, Momentum
from table_contents import assert_same_bits, rows_of


def test_the_three_kinds_of_push(client, name):
    table = client.create_sparse_table(name, dim=2, rule=SGD(lr=0.5), init=Constant(1.0))
    table.push([7], [[2.0, 4.0]])
    assert table.pull([7]).tolist() == [[0.0, -1.0]]
    table.push([7], [[2.0, 4.0]], kind="delta")
    assert table.pull([7]).tolist() == [[2.0, 3.0]]
    table.push([7], [[2.0, 4.0]], kind="assign")
    assert table.pull([7]).tolist() == [[2.0, 4.0]]


def test_the_three_kinds_of_dense_push(client, name):
    table = client.create_dense_table(name, shape=2, rule=SGD(lr=0.5), init=Constant(1.0))
    table.push([2.0, 4.0])
    assert table.pull().tolist() == [0.0, -1.0]
    table.push([2.0, 4.0], kind="delta")
    assert table.pull().tolist() == [2.0, 3.0]
    table.push([2.0, 4.0], kind="assign")
    assert table.pull().tolist() == [2.0, 4.0]


def test_scale_multiplies_gradients_and_deltas(client, name):
    table = client.create_sparse_table(name, dim=1, rule=SGD(lr=1.0))
    table.push([1], [[3.0]], scale=0.5)
    assert table.pull([1]).tolist() == [[-1.5]]
    table.push([1], [[3.0]], kind="delta", scale=-2.0)
    assert table.pull([1]).tolist() == [[-7.5]]


def test_a_push_without_a_learning_rate_uses_the_rules(client, name):
    table = client.create_sparse_table(name, dim=1, rule=SGD(lr=0.25))
    assert table.lr == 0.25
    table.push([1], [[1.0]])
    table.push([1], [[1.0]], lr=0.5)
    table.push([1], [[1.0]], lr=0.0)
    assert table.pull([1]).tolist() == [[-0.75]]


@pytest.mark.parametrize("kind", ["delta", "assign"])
def test_what_is_no_gradient_leaves_the_rules_count_and_state_alone(client, name, kind):
    """Adam's first gradient is its first, whatever was added or assigned before."""
    settings = {"dim": 4, "rule": Adam(lr=0.1), "init": Constant(0.0)}
    touched, plain = (client.create_sparse_table(f"{name}-{which}", **settings) for which in ("touched", "plain"))
    for _ in range(5):
        touched.push([1], torch.zeros(1, 4), kind=kind)
    for table in (touched, plain):
        table.push([1], torch.ones(1, 4))
    assert torch.equal(touched.pull([1]), plain.pull([1]))


def test_rows_carry_their_updates_and_their_last_step(client, name):
    table = client.create_sparse_table(name, dim=1, rule=SGD())
    table.push([1, 2], [[1.0], [1.0]], step=10)
    table.push([1], [[1.0]], step=11)
    table.pull([1, 2, 3])
    rows = {
        int(page.keys[i]): (page.updates[i], page.last_seen[i])
        for page in table.export()
        for i in range(len(page.keys))
    }
    assert rows == {1: (2, 11), 2: (1, 10), 3: (0, 0)}


def test_a_table_that_somebody_else_made_can_be_opened(cluster, client, name):
    made = client.create_sparse_table(name, dim=3, rule=Adagrad(lr=0.5), init=Normal())
    whole = client.create_dense_table(f"{name}-dense", shape=(7, 30), rule=SGD(lr=2.0), min_block_size=16)
    made.push(range(10), torch.ones(10, 3))
    with Client(cluster.endpoints, secret=cluster.secret) as another:
        table, parameter = another.table(name), another.table(f"{name}-dense")
        assert isinstance(table, SparseTable)
        assert (table.name, table.dim, table.lr) == (name, 3, 0.5)
        assert torch.equal(table.pull(range(10)), made.pull(range(10)))
        table.push([1], [[1.0, 1.0, 1.0]])
        assert torch.equal(table.pull([1]), made.pull([1]))
        assert isinstance(parameter, DenseTable)
        assert (parameter.shape, parameter.blocks, parameter.lr) == ((7, 30), whole.blocks, 2.0)
        parameter.push(torch.arange(210.0).reshape(7, 30), kind="assign")
        assert torch.equal(whole.pull().flatten(), torch.arange(210.0))


def test_creating_a_table_again_opens_it(client, name):
    first = client.create_sparse_table(name, dim=2, rule=Adagrad(), init=Uniform(-1, 1), seed=4)
    first.push([1], [[1.0, 2.0]])
    again = client.create_sparse_table(name, dim=2, rule=Adagrad(), init=Uniform(-1, 1), seed=4)
    assert torch.equal(first.pull([1]), again.pull([1]))
    assert repr(again) == f"<SparseTable '{name}'>"


def test_statistics_count_what_was_done(cluster, client, name):
    table = client.create_sparse_table(name, dim=2, rule=Adagrad())
    parameter = client.create_dense_table(f"{name}-dense", shape=64, rule=SGD(), min_block_size=32)
    requests = sum(server.values["requests"] for server in client.statistics())
    table.pull(range(100))
    table.push(range(50), torch.ones(50, 2))
    table.push(range(50), torch.ones(50, 2))
    parameter.push(torch.ones(64))
    parameter.pull()
    statistics = client.statistics()
    assert [server.endpoint for server in statistics] == cluster.endpoints
    assert sum(server.values["requests"] for server in statistics) == requests + 2 * 6
    total = {
        key: sum(server.tables[name][key] for server in statistics) for key in ("rows", "rows_pulled", "rows_pushed")
    }
    assert total == {"rows": 100, "rows_pulled": 100, "rows_pushed": 100}
    assert [server.tables[name]["pushes"] for server in statistics] == [2, 2]
    assert table.rows() == 100
    assert all(
        server.tables[name]["bytes"] >= server.tables[name]["rows"] * (8 + 2 * 4 + 2 * 4) for server in statistics
    )
    dense = [server.tables[f"{name}-dense"] for server in statistics]
    assert [server["elements"] for server in dense] == [32, 32]
    assert [(server["pushes"], server["pulls"]) for server in dense] == [(1, 1), (1, 1)]


# --- export and import ---


@pytest.fixture
def trained(client, name, rng):
    table = client.create_sparse_table(name, dim=5, rule=Adam(amsgrad=True), init=Normal(), seed=3)
    for step in range(1, 11):
        table.push(rng.integers(-500, 500, size=400), rng.standard_normal((400, 5), dtype=np.float32), step=step)
    return table


@pytest.fixture(scope="module")
def three_servers(start_cluster):
    return start_cluster(servers=3).client()


def test_a_table_moves_to_another_number_of_servers_bit_for_bit(trained, three_servers, rng):
    moved = three_servers.create_sparse_table(trained.name, dim=5, rule=Adam(amsgrad=True), init=Normal(), seed=3)
    for page in trained.export(page_rows=37):
        moved.import_rows(page)
    assert moved.rows() == trained.rows() > 900
    assert_same_bits(rows_of(moved), rows_of(trained))
    # And it goes on as if it had never moved: counters and state came along.
    keys = np.arange(-500, 500)
    gradients = rng.standard_normal((1000, 5), dtype=np.float32)
    for table in (trained, moved):
        table.push(keys, gradients, step=11)
    assert_same_bits(rows_of(moved), rows_of(trained))


@pytest.mark.parametrize("page_rows", [1, 7, 10_000])
def test_pages_are_bounded_and_cover_every_row_once(trained, page_rows):
    pages = list(trained.export(page_rows=page_rows))
    # A line of the index is not cut.
    assert max(len(page.keys) for page in pages) <= page_rows + 8
    keys = np.concatenate([page.keys for page in pages])
    assert len(keys) == len(np.unique(keys)) == trained.rows()


def test_some_shards_can_be_exported_alone(trained):
    shards = [3, 700, 1023]
    keys = {int(key) for page in trained.export(shards=shards) for key in page.keys}
    everything = {int(key) for page in trained.export() for key in page.keys}
    assert keys == {key for key in everything if _core.shard_of(key) in shards}


def test_training_goes_on_while_rows_are_exported(trained):
    """Each row that was there comes once, whole, while the table grows to many times its size."""
    before = {int(key) for page in trained.export() for key in page.keys}
    seen = []
    for turn, page in enumerate(trained.export(page_rows=2)):
        seen.extend(page.keys.tolist())
        if turn % 20 == 0:
            keys = np.arange(10_000 + 500 * turn, 10_500 + 500 * turn)
            trained.push(keys, np.ones((500, 5), dtype=np.float32))
    assert len(seen) == len(set(seen))
    assert before <= set(seen)


def test_importing_overwrites_whole_rows(trained, client, name):
    pages = list(trained.export())
    before = rows_of(trained)
    keys = before[0]
    trained.push(keys, np.ones((len(keys), 5), dtype=np.float32))
    for page in pages:
        trained.import_rows(page)
    assert_same_bits(rows_of(trained), before)


@pytest.mark.parametrize("storage", ["float16", "bfloat16"])
def test_half_rows_move_without_loss(client, three_servers, name, rng, storage):
    settings = {"dim": 3, "rule": Adagrad(), "init": Normal(), "storage": storage}
    table, moved = (each.create_sparse_table(name, **settings) for each in (client, three_servers))
    table.push(np.arange(100), rng.standard_normal((100, 3), dtype=np.float32))
    for page in table.export():
        moved.import_rows(page)
    assert_same_bits(rows_of(moved), rows_of(table))


def test_a_dense_parameter_is_exported_block_by_block(client, name, rng):
    settings = {"shape": (10, 10), "rule": Momentum(momentum=0.5), "min_block_size": 32}
    table, copy = (client.create_dense_table(f"{name}-{which}", **settings) for which in ("table", "copy"))
    for _ in range(3):
        table.push(rng.standard_normal((10, 10), dtype=np.float32))
    pages = list(table.export())
    assert len(pages) == table.blocks == 2
    assert [page.keys.tolist() for page in pages] == [[0], [1]]
    assert [page.updates.tolist() for page in pages] == [[3], [3]]
    for page in pages:
        copy.import_rows(page)
    gradient = rng.standard_normal((10, 10), dtype=np.float32)
    for each in (table, copy):
        each.push(gradient)
    assert torch.equal(table.pull(), copy.pull())


# --- every option acts ---


def elements_by_server(client, name):
    return [server.tables[name]["elements"] for server in client.statistics()]


def test_a_parameter_is_cut_as_asked(client, name):
    def blocks(which, size, rule=SGD(), **options):  # noqa: B008
        return client.create_dense_table(f"{name}-{which}", shape=size, rule=rule, **options).blocks

    assert blocks("small", 2 * 8192 - 1) == 1
    assert blocks("large", 2 * 8192) == 2
    assert blocks("fine", 64, min_block_size=32) == 2
    assert blocks("whole", 2 * 8192, slice_var_up=False) == 1
    assert blocks("lamb", 2 * 8192, rule=Lamb()) == 1
    assert elements_by_server(client, f"{name}-large") == [8192, 8192]


def test_small_parameters_are_spread_over_servers_by_either_method(client, name):
    for method in ("RoundRobin", "HashName"):
        homes = set()
        for number in range(12):
            table = client.create_dense_table(f"{name}-{method}-{number}", shape=3, rule=SGD(), split_method=method)
            homes.add(tuple(elements_by_server(client, table.name)))
        assert homes == {(3, 0), (0, 3)}


def test_rows_of_half_storage_take_less_memory(client, name):
    bytes_of = {}
    for storage in ("float32", "float16", "bfloat16"):
        table = client.create_sparse_table(f"{name}-{storage}", dim=64, rule=SGD(), storage=storage)
        table.pull(np.arange(100_000))
        bytes_of[storage] = sum(server.tables[table.name]["bytes"] for server in client.statistics())
    assert bytes_of["float16"] == bytes_of["bfloat16"] < 0.7 * bytes_of["float32"]
