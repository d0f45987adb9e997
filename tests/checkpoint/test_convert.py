"""``flota checkpoint convert``: to what other programs read, and from what they have written."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import safetensors.numpy
import torch
from small import command, save, spec_of

import flota
from flota.checkpoint.commands.vectors import _Seen
from flota.checkpoint.reader import Checkpoint
from flota.checkpoint.writer import CheckpointWriter
from flota.data import Features, Sparse
from flota.fleet import Fleet
from flota.nn.naming import reset_names


def rows(path, table):
    """A table's rows by key."""
    checkpoint = Checkpoint(path)
    pages = list(checkpoint.rows(table))
    return {int(key): page.weights[i].tolist() for page in pages for i, key in enumerate(page.keys)}


def test_a_state_dict_has_rows_by_key_and_parameters_by_name(tmp_path):
    save(tmp_path / "saved", keys=[5, 1, -3, 9], value=2.0)
    assert command("convert", tmp_path / "saved", tmp_path / "out.pt") == 0
    state = torch.load(tmp_path / "out.pt", weights_only=True)  # noqa: TID251
    assert list(state) == ["users.weight", "users.keys", "deep.weight"]
    assert state["users.keys"].tolist() == [-3, 1, 5, 9]
    assert state["users.weight"].tolist() == [[6, 7], [4, 5], [2, 3], [8, 9]]
    assert state["deep.weight"].tolist() == [[2.0] * 3] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.pt", "saved"]


def test_state_comes_when_asked_for(tmp_path):
    save(tmp_path / "saved", tables=("users", "items"))
    assert command("convert", "--state", "--table", "items", tmp_path / "saved", tmp_path / "out.safetensors") == 0
    state = safetensors.numpy.load_file(tmp_path / "out.safetensors")
    assert set(state) == {f"items.{name}" for name in ("weight", "keys", "updates", "last_seen", "sum")}
    assert state["items.updates"].dtype == np.int64
    assert state["items.sum"].shape == (10, 2)


def test_parquet_has_a_file_a_table(tmp_path):
    save(tmp_path / "saved", keys=range(20), file_bytes=100, tables=("a/users", "items"))
    assert command("convert", "--state", tmp_path / "saved", tmp_path / "out") == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"a%2Fusers.parquet", "items.parquet", "dense%2Fdeep.weight.parquet"}
    table = pa.parquet.read_table(tmp_path / "out" / "items.parquet")
    assert table.column_names == ["key", "weights", "updates", "last_seen", "sum"]
    assert table.schema.field("weights").type == pa.list_(pa.float32(), 2)
    assert dict(zip(table["key"].to_pylist(), table["weights"].to_pylist(), strict=True)) == rows(
        tmp_path / "saved", "items"
    )
    dense = pa.parquet.read_table(tmp_path / "out" / "dense%2Fdeep.weight.parquet")
    assert dense["weights"].to_pylist() == [[1.0] * 3] * 2
    assert dense.schema.metadata[b"flota.shape"] == b"[2, 3]"


def test_one_parquet_file_holds_one_table(tmp_path, capsys):
    save(tmp_path / "saved", tables=("users", "items"))
    assert command("convert", tmp_path / "saved", tmp_path / "out.parquet") == 1
    assert "can hold one sparse table, not items, users: choose one with --table" in capsys.readouterr().err
    assert command("convert", "--table", "items", tmp_path / "saved", tmp_path / "out.parquet") == 0
    assert command("convert", "--table", "item", tmp_path / "saved", tmp_path / "out.parquet") == 1
    assert "has no table 'item'; it has dense/deep.weight, items, users" in capsys.readouterr().err
    assert command("convert", tmp_path / "saved", tmp_path / "out.csv") == 1
    assert "Name it .pt, .safetensors or .parquet" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["out.pt", "out.safetensors"])
@pytest.mark.parametrize("state", [[], ["--state"]])
def test_there_and_back_is_the_same(tmp_path, capsys, form, state):
    save(tmp_path / "saved", keys=range(-10, 10))
    command("convert", *state, tmp_path / "saved", tmp_path / form)
    assert command("convert", "--from", tmp_path / form, tmp_path / "back") == 0
    capsys.readouterr()
    command("diff", tmp_path / "saved", tmp_path / "back", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["only_a"] == found["only_b"] == []
    for table in found["tables"].values():
        assert table["difference"]["weights"] == {"max": 0.0, "mean": 0.0}
        assert table["rows"]["only_a"] == table["rows"]["only_b"] == table["rows"]["changed"] == 0
    assert command("verify", tmp_path / "back") == 0


def test_an_empty_table_is_converted(tmp_path):
    with CheckpointWriter(tmp_path / "saved") as writer:
        writer.add_rows(spec_of("users"), [])
        writer.publish()
    for form in ("out.pt", "out.safetensors", "out"):
        assert command("convert", "--state", tmp_path / "saved", tmp_path / form) == 0
    assert safetensors.numpy.load_file(tmp_path / "out.safetensors")["users.weight"].shape == (0, 2)


def test_words_have_the_keys_that_readers_give_them(tmp_path, capsys):
    text = "3 2\nking 1 2\nNew York 3 4\nqueen 5 6\nking 7 8\n"
    with gzip.open(tmp_path / "vectors.txt.gz", "wt") as file:
        file.write(text)
    source = ("--from", tmp_path / "vectors.txt.gz", "--table", "words")
    assert command("convert", *source, "--space", "word", tmp_path / "out") == 0
    assert "words: 3 rows of 2; 1 more were of keys that had come before" in capsys.readouterr().out
    (tmp_path / "words.csv").write_text("king\nNew York\nqueen\n")
    dataset = flota.data.QueueDataset()
    dataset.init(batch_size=3, format=flota.data.Csv(Features([Sparse("word")]), header=False))
    dataset.set_filelist([str(tmp_path / "words.csv")])
    ids = [int(key) for batch in dataset for key in batch.ids.reshape(-1)]
    assert rows(tmp_path / "out", "words") == {ids[0]: [1, 2], ids[1]: [3, 4], ids[2]: [5, 6]}
    assert command("convert", *source, "--space", "word", "--buckets", 10, tmp_path / "few") == 0
    assert all(0 <= key < 10 for key in rows(tmp_path / "few", "words"))


def test_ids_are_keys(tmp_path, capsys):
    (tmp_path / "vectors.txt").write_text("7 1 2\n-3 3 4\n")
    source = ("--from", tmp_path / "vectors.txt", "--table", "words")
    assert command("convert", *source, "--ids", tmp_path / "out") == 0
    assert rows(tmp_path / "out", "words") == {7: [1, 2], -3: [3, 4]}
    (tmp_path / "vectors.txt").write_text("7 1 2\nking 3 4\n")
    assert command("convert", *source, "--ids", tmp_path / "out") == 1
    assert "each line begins with a whole number" in capsys.readouterr().err
    assert rows(tmp_path / "out", "words") == {7: [1, 2], -3: [3, 4]}, "what was there stays"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("king 1 2\nqueen 3\n", "line 2: 1 weights, not 2"),
        ("king\n", "line 1: 0 weights, not one or more"),
        ("king 1 2\nqueen 3 x\n", "line 2: could not convert"),
        ("king 1 nan\n", "line 1: a weight is not finite"),
        ("", "no rows for table 'words'"),
    ],
)
def test_text_that_is_none_is_named(tmp_path, capsys, text, reason):
    (tmp_path / "vectors.txt").write_text(text)
    assert command("convert", "--from", tmp_path / "vectors.txt", tmp_path / "out", "--table", "words") == 1
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_parquet_of_words_or_numbers_becomes_a_table(tmp_path, capsys):
    table = pa.table({"word": ["a", "b"], "id": [5, 6], "vector": [[1.0, 2.0], [3.0, 4.0]]})
    pa.parquet.write_table(table, tmp_path / "v.parquet")
    source = ("--from", tmp_path / "v.parquet", "--table", "words")
    assert command("convert", *source, "--columns", "id,vector", tmp_path / "out") == 0
    assert rows(tmp_path / "out", "words") == {5: [1, 2], 6: [3, 4]}
    assert command("convert", *source, "--columns", "word,vector", "--space", "w", tmp_path / "out") == 0
    assert sorted(rows(tmp_path / "out", "words").values()) == [[1, 2], [3, 4]]
    assert command("convert", *source, tmp_path / "out") == 1
    assert "has no column 'key'; name it with --columns (it has word, id, vector)" in capsys.readouterr().err
    (tmp_path / "v.parquet").write_text("no")
    assert command("convert", *source, tmp_path / "out") == 1
    assert "is no Parquet file" in capsys.readouterr().err


def test_a_torch_models_embedding_becomes_a_table(tmp_path, capsys):
    model = torch.nn.ModuleDict({"emb": torch.nn.Embedding(4, 2), "norm": torch.nn.BatchNorm1d(2)})
    torch.save(model.state_dict(), tmp_path / "model.pt")
    assert command("convert", "--from", tmp_path / "model.pt", tmp_path / "out", "--table", "words=emb.weight") == 0
    assert "norm.num_batches_tracked: left out, since it is int64" in capsys.readouterr().out
    checkpoint = Checkpoint(tmp_path / "out")
    assert set(checkpoint.manifest.tables) == {
        "words",
        "dense/norm.weight",
        "dense/norm.bias",
        "dense/norm.running_mean",
        "dense/norm.running_var",
    }
    assert rows(tmp_path / "out", "words") == dict(enumerate(model["emb"].weight.tolist()))
    assert command("convert", "--from", tmp_path / "model.pt", tmp_path / "out", "--table", "words") == 1
    assert "has no matrix 'words.weight' for table 'words'; it has emb.weight" in capsys.readouterr().err


def test_a_compressed_file_that_is_cut_short_is_named(tmp_path, capsys):
    whole = gzip.compress(b"".join(b"w%d 1 2\n" % i for i in range(5000)))
    (tmp_path / "vectors.txt.gz").write_bytes(whole[: len(whole) // 2])
    assert command("convert", "--from", tmp_path / "vectors.txt.gz", tmp_path / "out", "--table", "words") == 1
    assert "vectors.txt.gz is damaged or cut short" in capsys.readouterr().err


def test_keys_that_come_again_are_found_whatever_their_number():
    random = np.random.default_rng(0)
    seen, known = _Seen(), set()
    for size in (1, 5, 1000, 3, 300, 2000, 50):
        keys = np.unique(random.integers(0, 3000, size))
        assert seen.add(keys).tolist() == [int(key) not in known for key in keys]
        known |= set(keys.tolist())
        assert seen.count == len(known)


class _Code:
    def __reduce__(self):
        return print, ("code ran",)


def test_a_file_that_brings_code_is_refused(tmp_path, capsys):
    torch.save({"a.weight": _Code()}, tmp_path / "model.pt")
    assert command("convert", "--from", tmp_path / "model.pt", tmp_path / "out") == 1
    said = capsys.readouterr()
    assert "is no file of tensors that torch loads with weights_only=True" in said.err
    assert "code ran" not in said.out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["saved", "out.pt", "--ids"], "--ids goes with --from"),
        (["saved"], "give the checkpoint and what to write"),
        (["--from", "a.txt", "out", "--state"], "--state does not go with --from"),
        (["--from", "a.txt", "out", "other"], "give one OUT_DIR"),
        (["--from", "a.txt", "out", "--ids", "--space", "x"], "--ids takes words as they are"),
        (["--from", "a.parquet", "out", "--columns", "x"], "--columns names two"),
    ],
)
def test_options_that_would_not_act_are_refused(capsys, arguments, reason):
    with pytest.raises(SystemExit) as ended:
        command("convert", *arguments)
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err


def worker():
    reset_names()
    fleet = Fleet()
    fleet.init(flota.LocalRoleMaker())
    model = torch.nn.ModuleDict({"words": flota.nn.Embedding(None, 2, name="words"), "deep": torch.nn.Linear(2, 1)})
    fleet.distributed_optimizer(torch.optim.Adam(model.named_parameters(), lr=0.1))
    fleet.init_worker()
    return fleet, model


def test_training_begins_with_converted_vectors(tmp_path):
    (tmp_path / "vectors.txt").write_text("7 1 2\n-3 3 4\n")
    command("convert", "--from", tmp_path / "vectors.txt", "--table", "words", "--ids", tmp_path / "out")
    fleet, model = worker()
    before = model["deep"].weight.detach().clone()
    with pytest.warns(UserWarning, match=r"has no tables dense/deep\.bias, dense/deep\.weight: they stay as they are"):
        fleet.load_model(tmp_path / "out", weights_only=True)
    assert model["words"].pull(torch.tensor([7, -3])).tolist() == [[1, 2], [3, 4]]
    assert torch.equal(model["deep"].weight, before)


def test_a_whole_models_weights_go_there_and_back(tmp_path):
    fleet, model = worker()
    ids = torch.arange(8)
    first = model["words"](ids).detach().clone()
    fleet.save_persistables(tmp_path / "saved")
    command("convert", tmp_path / "saved", tmp_path / "out.pt")
    command("convert", "--from", tmp_path / "out.pt", tmp_path / "back")
    weight = model["deep"].weight.detach().clone()
    fleet, model = worker()
    fleet.load_model(tmp_path / "back", weights_only=True)
    assert torch.equal(model["words"].pull(ids), first)
    assert torch.equal(model["deep"].weight, weight)


def test_rows_of_a_saved_model_to_serve_are_converted(tmp_path):
    fleet, model = worker()
    ids = torch.arange(8)
    rows = model["words"](ids).detach()

    class Served(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, ids):
            return self.inner["deep"](self.inner["words"](ids))

    fleet.save_inference_model(tmp_path / "served", Served(), (ids,))
    assert command("verify", tmp_path / "served") == 0
    assert command("diff", tmp_path / "served", tmp_path / "served") == 0
    assert command("convert", tmp_path / "served", tmp_path / "out.safetensors") == 0
    state = safetensors.numpy.load_file(tmp_path / "out.safetensors")
    assert np.array_equal(state["words.weight"], rows.numpy())
    assert np.array_equal(state["inner.deep.weight"], model["deep"].weight.detach().numpy())
