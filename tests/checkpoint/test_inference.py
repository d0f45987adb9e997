"""Models to serve: the same scores without servers, in a process that has torch and flota only."""

import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch

import flota
from flota.errors import CheckpointError, InvalidArgument
from flota.nn.naming import reset_names

INIT = flota.initializer.Uniform(-1, 1)


@pytest.fixture(autouse=True)
def alone():
    reset_names()
    flota.init(flota.LocalRoleMaker())


class Clicks(torch.nn.Module):
    """Every kind of module over a table, two of them over one."""

    def __init__(self):
        super().__init__()
        self.users = flota.nn.Embedding(None, 3, padding_idx=0, init=INIT, name="users")
        self.friends = flota.nn.EmbeddingBag(None, 3, mode="sum", init=INIT, name="users", padding_idx=0)
        self.words = flota.nn.EmbeddingBag(None, 3, mode="mean", padding_idx=-1, init=INIT, name="words")
        self.best = flota.nn.EmbeddingBag(None, 3, mode="max", init=INIT, name="best")
        self.fields = flota.nn.EmbeddingCollection(2, 3, init=INIT, name="fields")
        self.named = flota.nn.EmbeddingCollection(["a", "b", "c"], 3, "mean", padding_idx=0, init=INIT, name="named")
        self.deep = torch.nn.Sequential(torch.nn.Linear(27, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
        self.deep[2].register_buffer("shift", torch.tensor([0.25]))

    def forward(self, batch):
        rows = [
            self.users(batch["user"]),
            self.friends(batch["friends"], per_sample_weights=batch["weights"]),
            self.words(batch["words"]),
            self.best(batch["best"], batch["offsets"]),
            self.fields(batch["fields"]).flatten(1),
            self.named({name: batch[name] for name in "abc"}).flatten(1),
        ]
        return self.deep(torch.cat(rows, 1)).squeeze(1) + self.deep[2].shift


def batch_of(size, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def ids(*shape, low=0):
        return torch.randint(low, 20, shape, generator=generator)

    jagged = (ids(2 * size), torch.arange(size) * 2)
    return {
        "user": ids(size),
        "friends": ids(size, 4),
        "weights": torch.rand(size, 4, generator=generator),
        "words": ids(size, 3, low=-1),
        "best": ids(3 * size),
        "offsets": torch.arange(size) * 3,
        "fields": ids(size, 2),
        "a": ids(size),
        "b": ids(size, 3),
        "c": jagged,
    }


def trained(model, batches=8):
    optimizer = flota.distributed_optimizer(torch.optim.Adagrad(model.parameters(), lr=0.1))
    flota.init_worker()
    for seed in range(batches):
        optimizer.zero_grad()
        model(batch_of(16, seed)).square().mean().backward()
        optimizer.step()
    return model.eval()


def test_scores_are_the_models_for_every_kind_of_module(tmp_path):
    model = trained(Clicks())
    flota.save_inference_model(tmp_path / "served", model, (batch_of(16),))
    served = flota.load_inference_model(tmp_path / "served")
    for size in (1, 2, 7, 64):
        batch = batch_of(size, seed=size + 100)
        torch.testing.assert_close(served(batch), model(batch), rtol=0, atol=1e-6)


def test_a_process_without_servers_serves(tmp_path):
    model = trained(Clicks())
    flota.save_inference_model(tmp_path / "served", model, (batch_of(16),))
    script = (
        "import sys, json, torch, flota\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "served = flota.load_inference_model(sys.argv[1])\n"
        "from test_inference import batch_of\n"
        "print(json.dumps(served(batch_of(5, 3)).tolist()))\n"
    )
    command = [sys.executable, "-c", script, tmp_path / "served", __file__.rpartition("/")[0]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(json.loads(done.stdout), model(batch_of(5, 3)).tolist(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("init", "default"),
    [
        (flota.initializer.Constant(0.5), 0.5),
        (flota.initializer.Uniform(0, 1), 0.5),
        (flota.initializer.Normal(2.0, 1.0), 2.0),
        (flota.initializer.TruncatedNormal(0.0, 1.0, -2.0, 2.0), 0.0),
        (flota.initializer.XavierUniform(3, 4), 0.0),
    ],
)
def test_a_key_without_a_row_gives_the_average_of_first_rows(tmp_path, init, default):
    model = flota.nn.Embedding(None, 2, init=init, name="rows")
    flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    flota.init_worker()
    model(torch.tensor([1, 2]))  # makes two rows
    flota.save_inference_model(tmp_path / "served", model, (torch.tensor([1, 2]),))
    served = flota.load_inference_model(tmp_path / "served")
    keys = torch.tensor([2, -(1 << 63), 77, 1, (1 << 63) - 1])
    expected = torch.full((5, 2), default)
    expected[[0, 3]] = model.pull(torch.tensor([2, 1]))
    torch.testing.assert_close(served(keys), expected)


def test_a_key_that_was_not_admitted_gives_zeros(tmp_path):
    some = flota.admission.Count(2)
    model = flota.nn.Embedding(None, 2, init=flota.initializer.Constant(0.5), admission=some, name="rows")
    flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    flota.init_worker()
    flota.save_inference_model(tmp_path / "served", model, (torch.tensor([1, 2]),))
    served = flota.load_inference_model(tmp_path / "served")
    torch.testing.assert_close(served(torch.tensor([1, 2])), torch.zeros(2, 2))


def test_the_average_of_a_truncated_normal_is_that_of_its_values():
    init = flota.initializer.TruncatedNormal(0.0, 1.0, 0.5, 3.0)
    values = torch.nn.init.trunc_normal_(torch.empty(200_000), 0.0, 1.0, 0.5, 3.0)
    assert init.average() == pytest.approx(values.mean().item(), abs=5e-3)


def test_an_empty_table_and_tied_weights_are_served(tmp_path):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = flota.nn.Embedding(None, 4, init=flota.initializer.Constant(1.0), name="empty")
            self.one = torch.nn.Linear(4, 4)
            self.other = torch.nn.Linear(4, 4)
            self.other.weight = self.one.weight

        def forward(self, ids):
            return self.other(self.one(self.rows(ids)))

    model = Tied()
    flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    flota.init_worker()
    model.eval()
    flota.save_inference_model(tmp_path / "served", model, (torch.tensor([1, 2]),))
    served = flota.load_inference_model(tmp_path / "served")
    torch.testing.assert_close(served(torch.tensor([5, 6, 7])), model(torch.tensor([5, 6, 7])))


def test_nothing_in_the_folder_is_pickled(tmp_path):
    flota.save_inference_model(tmp_path / "served", trained(Clicks()), (batch_of(16),))
    names = {path.name for path in (tmp_path / "served").iterdir()}
    assert {"manifest.json", "program.json", "weights.safetensors"} < names
    for path in (tmp_path / "served").iterdir():
        assert path.suffix in (".json", ".safetensors")
        assert not zipfile.is_zipfile(path)
        if path.suffix == ".json":
            json.loads(path.read_bytes())


def test_inputs_that_cannot_show_what_varies_are_refused(tmp_path):
    model = trained(Clicks(), batches=1)
    with pytest.raises(InvalidArgument, match="give at least two samples"):
        flota.save_inference_model(tmp_path / "served", model, (batch_of(1),))
    with pytest.raises(InvalidArgument, match="example_inputs must be a tuple"):
        flota.save_inference_model(tmp_path / "served", model, batch_of(4))
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_named(tmp_path):
    flota.save_inference_model(tmp_path / "served", trained(Clicks(), 1), (batch_of(16),))
    for path in sorted((tmp_path / "served").iterdir()):
        before = path.read_bytes()
        after = bytearray(before)
        after[len(after) // 2] ^= 1
        path.write_bytes(after)
        with pytest.raises(CheckpointError, match=path.name):
            flota.load_inference_model(tmp_path / "served")
        path.write_bytes(before)


def test_one_kind_of_checkpoint_does_not_replace_the_other(tmp_path):
    model = trained(Clicks(), batches=1)
    flota.save_persistables(tmp_path / "saved")
    with pytest.raises(InvalidArgument, match="holds a checkpoint of another kind, persistables"):
        flota.save_inference_model(tmp_path / "saved", model, (batch_of(4),))
    with pytest.raises(CheckpointError, match="another kind: persistables, not inference"):
        flota.load_inference_model(tmp_path / "saved")
