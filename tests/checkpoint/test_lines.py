"""A base and its deltas are together what a whole checkpoint is, rows that went and keys that wait included."""

import shutil

import numpy as np
import pytest
import torch
from tables import servers

import flota
from flota import _core
from flota.admission import Count, ShowClick
from flota.checkpoint.job import load_job, save_job
from flota.checkpoint.places import place_of
from flota.checkpoint.reader import Checkpoint
from flota.checkpoint.restore import restore_server
from flota.cli import main as command
from flota.eras import RowsOf, Shrinking, next_era
from flota.errors import CheckpointError, InvalidArgument
from flota.initializer import Uniform
from flota.nn.naming import reset_names
from flota.rules import Adagrad

DIM = 3


def make(client, admission=None):
    return client.create_sparse_table("rows", dim=DIM, rule=Adagrad(lr=0.1), init=Uniform(-1, 1), admission=admission)


def push(table, keys, step):
    keys = np.asarray(keys)
    values = np.random.default_rng(step).normal(size=(len(keys), DIM)).astype(np.float32)
    table.push(keys, values, step=step)


def contents(table):
    """All of a table, without when rows were seen: that a load counts as seen."""
    rows = {
        key: (updates, weights.tobytes(), state.tobytes())
        for page in table.export()
        for key, updates, weights, state in zip(
            page.keys.tolist(), page.updates.tolist(), page.weights, page.state, strict=True
        )
    }
    waiting = {
        key: tuple(counted)
        for part in table.export_shards(part=RowsOf.waiting)
        for key, counted in zip(part.page.keys.tolist(), part.page.weights.tolist(), strict=True)
    }
    return rows, waiting


def train_a_line(client, folder, admission=None):
    """Two days of training after a base: each saves a delta, and a whole checkpoint to compare with."""
    table = make(client, admission)
    push(table, range(200), 1)
    push(table, range(150), 2)
    save_job(client, folder / "base", 2, {}, mode="base")
    push(table, range(100, 300), 3)
    table.shrink(Shrinking(min_norm=0.4), next_era([table]))
    save_job(client, folder / "monday", 3, {}, mode="delta", before=place_of(folder / "base"))
    push(table, range(250, 320), 4)
    push(table, range(20), 5)
    table.shrink(Shrinking(max_age=1), next_era([table]))
    save_job(client, folder / "tuesday", 5, {}, mode="delta", before=place_of(folder / "monday"))
    save_job(client, folder / "all", 5, {}, mode="all")
    return contents(table)


@pytest.mark.parametrize("admission", [None, Count(2), ShowClick(threshold=0.15)])
def test_a_delta_loads_with_all_before_it(tmp_path, admission):
    with servers(2) as client:
        expected = train_a_line(client, tmp_path, admission)
        assert expected[0]
        assert bool(expected[1]) == (admission is not None)
    sizes = {name: Checkpoint(tmp_path / name).manifest.tables["rows"] for name in ("base", "monday", "tuesday")}
    assert sizes["tuesday"].rows < sizes["base"].rows or admission is not None
    assert sizes["monday"].removed > 0
    for name in ("tuesday", "all"):
        with servers(3) as client:
            table = make(client, admission)
            push(table, range(5000, 5100), 1)  # must go
            for _ in load_job(client, Checkpoint(tmp_path / name)):
                pass
            assert contents(table) == expected
        with servers(2, tmp_path / name) as client:
            table = make(client, admission)
            assert contents(table) == expected
            # Counts go on where they stood.
            push(table, range(280, 400), 9)


def test_servers_that_began_with_a_delta_go_on_with_the_line(tmp_path):
    with servers(1) as client:
        train_a_line(client, tmp_path)
    with servers(2, tmp_path / "tuesday") as client:
        table = make(client)
        push(table, [7, 9000], 6)
        save_job(client, tmp_path / "wednesday", 6, {}, mode="delta", before=place_of(tmp_path / "tuesday"))
        expected = contents(table)
    saved = Checkpoint(tmp_path / "wednesday").manifest
    assert saved.tables["rows"].rows < 60
    assert [entry["path"] for entry in saved.parents] == ["../base", "../monday", "../tuesday"]
    # All may be moved together.
    shutil.move(tmp_path, f"{tmp_path}-moved")
    with servers(1, f"{tmp_path}-moved/wednesday") as client:
        assert contents(make(client)) == expected


def delta(client, folder, name, before):
    save_job(client, folder / name, 9, {}, mode="delta", before=place_of(folder / before))


def test_a_delta_that_does_not_go_on_from_its_base_is_refused(tmp_path):
    with servers(1) as client:
        table = make(client)
        push(table, range(10), 1)
        save_job(client, tmp_path / "base", 1, {}, mode="base")
        save_job(client, tmp_path / "all", 1, {})
        with pytest.raises(InvalidArgument, match="no base and no delta"):
            delta(client, tmp_path, "delta", "all")
        # A base that could not be saved leaves the line as it is.
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "thesis.txt").write_text("years of work")
        with pytest.raises(InvalidArgument, match="is no checkpoint"):
            save_job(client, tmp_path / "full", 1, {}, mode="base")
        delta(client, tmp_path, "monday", "base")
        delta(client, tmp_path, "tuesday", "monday")
        # Which rows went before monday is no longer known.
        with pytest.raises(CheckpointError, match="no longer known which rows went"):
            delta(client, tmp_path, "other", "base")
        # Nor may what it is read with be replaced.
        for name in ("tuesday", "monday", "base"):
            with pytest.raises(InvalidArgument, match="place of its own"):
                delta(client, tmp_path, name, "tuesday")
    with servers(1) as client:
        make(client)
        with pytest.raises(CheckpointError, match="began anew without it"):
            delta(client, tmp_path, "delta", "tuesday")
    # Gone back to the base: what monday has is not what these tables have.
    with servers(1, tmp_path / "base") as client:
        push(make(client), range(5), 2)
        with pytest.raises(CheckpointError, match="from another save of the line"):
            delta(client, tmp_path, "delta", "monday")
        delta(client, tmp_path, "monday2", "base")
    with servers(1, tmp_path / "monday") as client:
        make(client)
        with pytest.raises(CheckpointError, match="from another save of the line"):
            delta(client, tmp_path, "delta", "base")


def test_loading_a_line_that_is_not_whole_changes_nothing(tmp_path):
    with servers(1) as client:
        train_a_line(client, tmp_path)
        shutil.rmtree(tmp_path / "base")
        table = make(client)
        before = contents(table)
        with pytest.raises(CheckpointError, match="is a delta and needs"):
            list(load_job(client, Checkpoint(tmp_path / "tuesday")))
        assert contents(table) == before


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damaged", ["base", "monday"])
def test_verify_reads_all_that_a_delta_is_read_with(tmp_path, capsys, damaged):
    with servers(1) as client:
        train_a_line(client, tmp_path)
    damage(tmp_path / damaged / "sparse-00000.safetensors")
    assert command(["checkpoint", "verify", str(tmp_path / "tuesday")]) == 1
    told = capsys.readouterr().out
    assert f"{tmp_path}/{damaged}/sparse-00000.safetensors is damaged: its checksum" in told
    good = {"base": "there is no other good checkpoint beside it", "monday": f"checkpoint: {tmp_path}/base"}
    assert told.endswith(good[damaged] + "\n")


@pytest.mark.parametrize("how", ["byte", "missing"])
def test_a_damaged_delta_is_told_with_the_one_before(tmp_path, capsys, how):
    with servers(1) as client:
        train_a_line(client, tmp_path)
    file = tmp_path / "tuesday" / "sparse-00000.safetensors"
    damage(file) if how == "byte" else file.unlink()
    before = f"the newest other checkpoint there is {tmp_path}/monday: name it"
    with servers(1) as client:
        make(client)
        with pytest.raises(CheckpointError, match=before):
            list(load_job(client, Checkpoint(tmp_path / "tuesday")))
    with pytest.raises(CheckpointError, match=before):
        restore_server(_core.Server.make(_options()), tmp_path / "tuesday")
    assert command(["checkpoint", "verify", str(tmp_path / "tuesday")]) == 1
    assert capsys.readouterr().out.endswith(f"the newest other good checkpoint: {tmp_path}/monday\n")


@pytest.mark.parametrize("damaged", ["base", "tuesday"])
def test_loading_a_line_with_a_damaged_file_changes_nothing(tmp_path, damaged):
    with servers(1) as client:
        train_a_line(client, tmp_path)
        damage(tmp_path / damaged / "sparse-00000.safetensors")
        table = make(client)
        before = contents(table)
        with pytest.raises(CheckpointError, match=rf"{damaged}/sparse-00000.safetensors is damaged"):
            list(load_job(client, Checkpoint(tmp_path / "tuesday")))
        assert contents(table) == before


def test_faded_scores_are_in_the_next_delta(tmp_path):
    with servers(1) as client:
        table = make(client, ShowClick())
        push(table, range(10), 1)
        save_job(client, tmp_path / "base", 1, {}, mode="base")
        table.shrink(Shrinking(decay=0.5), next_era([table]))
        delta(client, tmp_path, "delta", "base")
        expected = contents(table)
    with servers(1, tmp_path / "delta") as client:
        assert contents(make(client, ShowClick())) == expected


def test_ages_go_on_after_a_load(tmp_path):
    with servers(1) as client:
        table = make(client, Count(2))
        for step in range(1, 3):
            push(table, range(10), step)
        push(table, range(20, 30), 3)
        table.shrink(Shrinking(max_age=2), next_era([table]))
        save_job(client, tmp_path / "saved", 3, {})
    with servers(2) as client:
        table = make(client, Count(2))
        list(load_job(client, Checkpoint(tmp_path / "saved")))
        assert len(table.stand().shrinks) == 1
        table.shrink(Shrinking(max_age=2), next_era([table]))
        rows, waiting = contents(table)
        assert len(rows) == len(waiting) == 10
        assert table.shrink(Shrinking(max_age=2), next_era([table])) == 10
        assert contents(table) == ({}, {})


def test_keys_that_went_are_not_remembered_for_ever(tmp_path):
    with servers(1) as client:
        table = make(client)
        push(table, range(10), 1)
        save_job(client, tmp_path / "base", 1, {}, mode="base")
        for day in range(8):
            keys = np.arange(100_000) + day * 100_000
            table.push(keys, np.zeros((len(keys), DIM), dtype=np.float32))
            table.shrink(Shrinking(min_norm=100.0), next_era([table]))
        known = sum(len(part.page.keys) for part in table.export_shards(part=RowsOf.removed))
        assert known < 8 * 100_000
        with pytest.raises(CheckpointError, match="no longer known which rows went"):
            delta(client, tmp_path, "delta", "base")


def test_a_delta_without_its_base_is_told(tmp_path, capsys):
    with servers(1) as client:
        train_a_line(client, tmp_path)
    assert command(["checkpoint", "inspect", str(tmp_path / "tuesday")]) == 0
    assert "delta, after ../base and ../monday" in capsys.readouterr().out
    assert command(["checkpoint", "verify", str(tmp_path / "tuesday")]) == 0
    assert command(["checkpoint", "convert", str(tmp_path / "tuesday"), str(tmp_path / "x.safetensors")]) != 0
    shutil.rmtree(tmp_path / "monday")
    assert command(["checkpoint", "verify", str(tmp_path / "tuesday")]) == 1
    assert "needs" in capsys.readouterr().out
    server = _core.Server.make(_options())
    with pytest.raises(CheckpointError, match=r"tuesday is a delta and needs .*monday"):
        restore_server(server, tmp_path / "tuesday")
    with servers(1) as client:
        train_a_line(client, tmp_path / "again")
    shutil.copytree(tmp_path / "again" / "monday", tmp_path / "monday")
    with pytest.raises(CheckpointError, match="a delta to another checkpoint than"):
        restore_server(_core.Server.make(_options()), tmp_path / "tuesday")


def _options():
    options = _core.ServerOptions()
    options.secret = "x" * 32
    return options


# --- a script's view, alone ---


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        reset_names()
        self.rows = flota.nn.Embedding(None, DIM, name="rows")
        self.deep = torch.nn.Linear(DIM, 1)


@pytest.fixture
def alone():
    """A model that is trained alone: give keys to step them."""

    def make():
        flota.init(flota.LocalRoleMaker())
        model = Model()
        optimizer = flota.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=0.1))
        flota.init_worker()

        def step(keys):
            optimizer.zero_grad()
            model.deep(model.rows(torch.as_tensor(keys))).sum().backward()
            optimizer.step()

        return model, step

    return make


def test_a_script_saves_and_loads_by_mode(tmp_path, alone):
    model, step = alone()
    with pytest.raises(InvalidArgument, match="saved no base yet"):
        flota.save_persistables(tmp_path / "delta", mode="delta")
    step(range(10))
    flota.save_persistables(tmp_path / "base", mode="base")
    step([3, 4, 20])
    flota.shrink(min_norm=0.5)
    flota.save_persistables(tmp_path / "delta", mode="delta")
    step([3])
    flota.save_persistables(tmp_path / "delta2", mode="delta")
    flota.save_persistables(tmp_path / "served", mode="inference")
    everybody = torch.arange(30)
    rows, weight = model.rows.pull(everybody), model.deep.weight.detach().clone()
    step(range(30))
    assert Checkpoint(tmp_path / "delta2").manifest.tables["rows"].rows == 1

    other, step_on = alone()
    flota.load_model(tmp_path / "delta2")
    assert torch.equal(other.rows.pull(everybody), rows)
    assert torch.equal(other.deep.weight, weight)
    step_on([3])
    flota.save_persistables(tmp_path / "delta3", mode="delta", since=tmp_path / "delta2")
    assert Checkpoint(tmp_path / "delta3").manifest.tables["rows"].rows == 1

    third, step_third = alone()
    with pytest.raises(CheckpointError, match="weights alone"):
        flota.load_model(tmp_path / "served")
    flota.load_model(tmp_path / "served", weights_only=True)
    assert torch.equal(third.rows.pull(everybody), rows)
    assert torch.equal(third.deep.weight, weight)
    tensors = Checkpoint(tmp_path / "served").tensors("sparse-00000.safetensors")
    assert set(tensors) == {"keys", "weights"}
    step_third([1])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"mode": "half"}, "one of all, base, delta, inference"),
        ({"mode": "base", "keep": 2}, "remove what deltas need"),
        ({"since": "x"}, "what a delta goes on from"),
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path, alone, settings, says):
    alone()
    with pytest.raises(InvalidArgument, match=says):
        flota.save_persistables(tmp_path / "saved", **settings)


# --- some tables of a checkpoint ---


def test_servers_begin_with_some_tables_and_their_weights_only(tmp_path):
    with servers(1) as client:
        table = make(client)
        client.create_sparse_table("others", dim=2, rule=Adagrad(lr=0.1)).push(
            np.arange(3), np.ones((3, 2), dtype=np.float32)
        )
        push(table, range(50), 1)
        weights = table.pull(np.arange(50))
        save_job(client, tmp_path / "saved", 7, {})
    with servers(2, tmp_path / "saved", tables=["rows"]) as client:
        table = make(client)
        assert np.array_equal(table.pull(np.arange(50)), weights)
        page = next(table.export())
        assert (page.updates == 0).all()
        assert (page.state == 0).all()
        assert client.statistics()[0].values["checkpoint"] == 0
        assert client.create_sparse_table("others", dim=2, rule=Adagrad(lr=0.1)).rows() == 0
    with pytest.raises(CheckpointError, match=r"has no table 'row'; it has others, rows"):
        restore_server(_core.Server.make(_options()), tmp_path / "saved", ["row"])
