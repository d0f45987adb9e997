"""Tables through a checkpoint: every rule's weights, state and counters, on any number of servers."""

import numpy as np
import pytest
from tables import RULES, all_contents, contents, make, push, servers

from flota import _core, rules
from flota.checkpoint.job import load_job, save_job
from flota.checkpoint.reader import Checkpoint
from flota.checkpoint.writer import CheckpointWriter
from flota.errors import CheckpointError, InvalidArgument, TableMismatch
from flota.initializer import INITIALIZERS, Constant, Uniform, from_native
from flota.pages import RowPage, ShardPage


def load(client, path):
    for _ in load_job(client, Checkpoint(path)):
        pass


@pytest.mark.parametrize(("one", "other"), [(1, 3), (3, 1), (2, 2)])
@pytest.mark.parametrize("how", ["servers", "workers"])
def test_tables_of_every_rule_go_on_as_if_nothing_had_happened(tmp_path, one, other, how):
    with servers(one) as client:
        tables = make(client)
        push(tables, 1)
        push(tables, 2)
        save_job(client, tmp_path / "saved", 2, {})
        saved = all_contents(tables)
        push(tables, 3)
        after = all_contents(tables)
    with servers(other, tmp_path / "saved" if how == "servers" else None) as client:
        tables = make(client, min_block_size=32)  # cut otherwise
        if how == "workers":
            load(client, tmp_path / "saved")
        assert all_contents(tables) == saved
        push(tables, 3)
        assert all_contents(tables) == after


def test_the_state_has_torchs_names(tmp_path):
    with servers(1) as client:
        push(make(client), 1)
        save_job(client, tmp_path / "saved", 1, {})
    manifest = Checkpoint(tmp_path / "saved").manifest
    assert {name: manifest.tables[f"dense/{name}"].rule.state for name in RULES} == {
        "SGD": (),
        "Momentum": ("momentum_buffer",),
        "Adagrad": ("sum",),
        "RMSProp": ("square_avg",),
        "RMSProp-all": ("square_avg", "grad_avg", "momentum_buffer"),
        "PaddleRMSProp-all": ("square_avg", "grad_avg", "momentum_buffer"),
        "Adam": ("exp_avg", "exp_avg_sq"),
        "LazyAdam": ("exp_avg", "exp_avg_sq"),
        "AdamW-amsgrad": ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
        "Adamax": ("exp_avg", "exp_inf"),
        "PaddleAdamax": ("exp_avg", "exp_inf"),
        "Lamb": ("exp_avg", "exp_avg_sq"),
        "FTRL": ("square", "linear"),
    }


def test_rules_and_initialisers_come_back_from_the_core():
    for rule in RULES.values():
        assert rules.from_native(rule.to_native()) == rule
    for kind in INITIALIZERS.values():
        init = kind(3, 4) if kind.__name__ == "XavierUniform" else kind()
        assert from_native(init.to_native()) == init


def test_rows_that_are_not_in_the_checkpoint_go(tmp_path):
    with servers(2) as client:
        table = client.create_sparse_table("rows", dim=2, rule=RULES["Adagrad"], init=Uniform(-1, 1))
        fresh = table.pull(np.array([5]), create=False)
        table.push(np.array([1]), np.ones((1, 2), dtype=np.float32))
        save_job(client, tmp_path / "saved", 1, {})
        saved = contents(table)
        table.push(np.array([1, 5]), np.ones((2, 2), dtype=np.float32))
        load(client, tmp_path / "saved")
        assert contents(table)[1] == saved[1]
        assert 5 not in contents(table)
        assert table.pull(np.array([5])).tobytes() == fresh.tobytes()
        updates, last_seen, weights, state = contents(table)[5]
        assert updates == bytes(8)
        assert int.from_bytes(last_seen, "little") == 2, "made after the load: in the era that it begins"
        assert weights == fresh.tobytes()
        assert state == np.full(2, 0.5, dtype=np.float32).tobytes(), "the initial accumulator"


def test_many_small_files_hold_the_same_as_one(tmp_path):
    with servers(1) as client:
        table = client.create_sparse_table("rows", dim=2, rule=RULES["Adam"], init=Uniform(-1, 1))
        table.push(np.arange(5000), np.ones((5000, 2), dtype=np.float32))
        with CheckpointWriter(tmp_path / "saved", file_bytes=10_000) as writer:
            writer.add_rows(table.spec, table.export_shards(page_rows=10))
            writer.publish()
        before = contents(table)
    checkpoint = Checkpoint(tmp_path / "saved")
    assert len(checkpoint.manifest.files) > 10
    for entry in checkpoint.manifest.files.values():
        first, last = entry.shards
        assert 0 <= first <= last < _core.SHARDS
        assert entry.bytes < 40_000, "files are bounded"
    for name, entry in checkpoint.manifest.files.items():
        shards = [_core.shard_of(int(key)) for key in checkpoint.tensors(name)["keys"]]
        assert entry.shards[0] <= min(shards) <= max(shards) <= entry.shards[1]
    with servers(3, tmp_path / "saved") as client:
        assert contents(client.table("rows")) == before


def test_another_learning_rate_is_no_other_table(tmp_path):
    with servers(1) as client:
        client.create_sparse_table("rows", dim=2, rule=rules.SGD(lr=0.5)).pull([1])
        client.create_dense_table("whole", shape=4, rule=rules.SGD(lr=0.5))
        save_job(client, tmp_path / "saved", 1, {})
        assert client.create_sparse_table("rows", dim=2, rule=rules.SGD(lr=0.1)).lr == 0.1
    with servers(2, tmp_path / "saved") as client:
        assert client.create_sparse_table("rows", dim=2, rule=rules.SGD(lr=0.1)).lr == 0.1
        assert client.create_dense_table("whole", shape=4, rule=rules.SGD(lr=0.1)).lr == 0.1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rule": RULES["Adam"]}, "rule is SGD there and Adam here"),
        ({"shape": (4, 2)}, r"shape is \[2, 4\] there and \[4, 2\] here"),
        ({"rule": rules.SGD(weight_decay=0.1)}, "weight_decay is 0 there and 0.1 here"),
    ],
)
def test_a_restored_parameter_with_other_settings_says_which(tmp_path, change, says):
    with servers(1) as client:
        client.create_dense_table("whole", shape=(2, 4), rule=RULES["SGD"])
        save_job(client, tmp_path / "saved", 1, {})
    settings = {"shape": (2, 4), "rule": RULES["SGD"], **change}
    with servers(2, tmp_path / "saved") as client, pytest.raises(TableMismatch, match=says):
        client.create_dense_table("whole", **settings)
    with servers(2) as client:
        client.create_dense_table("whole", init=Constant(7.0), **settings)
        with pytest.raises(CheckpointError, match=f"table 'whole' of .*saved has other settings.*{says}"):
            load(client, tmp_path / "saved")


def test_nan_does_not_come_in_through_a_checkpoint(tmp_path):
    spec = _core.TableSpec()
    spec.name, spec.dim = "rows", 1
    page = RowPage(
        np.array([3]),
        np.ones(1, np.uint64),
        np.ones(1, np.uint64),
        np.full((1, 1), np.nan, np.float32),
        np.empty((1, 0), np.float32),
    )
    with CheckpointWriter(tmp_path / "saved") as writer:
        writer.add_rows(spec, [ShardPage((0, 1023), page)])
        writer.publish()
    with (
        pytest.raises(CheckpointError, match="table 'rows': the values for key 3 hold a NaN"),
        servers(1, tmp_path / "saved"),
    ):
        pass


def test_a_server_that_listens_is_not_restored(tmp_path):
    options = _core.ServerOptions()
    options.secret = "a secret for one server of the tests"
    server = _core.Server.start(options)
    try:
        with pytest.raises(InvalidArgument, match="listens already"):
            server.restored(1, 1)
        with pytest.raises(InvalidArgument, match="listens already"):
            server.listen()
    finally:
        server.stop()
