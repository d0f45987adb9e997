"""Damage of any kind is noticed, the file is named, and so is the checkpoint to go on from."""

import re

import numpy as np
import pytest
from small import command, dense_spec, page_of, spec_of

from flota import rules
from flota.checkpoint.commands.check import problems
from flota.checkpoint.reader import Checkpoint
from flota.checkpoint.writer import CheckpointWriter
from flota.errors import CheckpointError
from flota.pages import ShardPage


def save(path):
    """As small as one can be that has everything."""
    data = [{"pass": "a#0", "epoch": 0, "pieces": 2, "over_below": 0, "done": [[0, 1]], "begun": []}]
    with CheckpointWriter(path, step=5, data=data) as writer:
        writer.add_rows(spec_of("rows", 1, rules.Momentum()), [ShardPage((0, 1023), page_of([1, 2], dim=1))])
        writer.add_parameter(dense_spec("dense/w", (1,)), np.ones(1, np.float32), {}, updates=5, last_seen=5)
        writer.publish()


def read(path):
    """Everything, as loading reads it."""
    checkpoint = Checkpoint(path)
    for table in checkpoint.tables("sparse"):
        list(checkpoint.rows(table))
    list(checkpoint.parameters())


@pytest.fixture
def run(tmp_path):
    """Two checkpoints that were kept: what happens to the newer one is up to the test."""
    for step in (1, 2):
        save(tmp_path / f"step-{step:010d}")
    return tmp_path


def assert_told(run, name):
    """Loading and ``verify`` both name the file, and the other checkpoint."""
    before, newest = run / "step-0000000001", run / "step-0000000002"
    with pytest.raises(CheckpointError) as error:
        read(run)
    assert name in str(error.value)
    assert str(error.value).endswith(f"the newest other checkpoint there is {before}: name it to go on from it")
    found = list(problems(newest))
    assert found
    assert any(name in problem for problem in found)


@pytest.mark.timeout(60)
def test_every_flipped_byte_of_every_file_is_told(run):
    random = np.random.default_rng(0)
    for path in sorted((run / "step-0000000002").iterdir()):
        before = path.read_bytes()
        for place, flip in enumerate(random.integers(1, 256, len(before))):
            after = bytearray(before)
            after[place] ^= int(flip)
            path.write_bytes(after)
            assert_told(run, path.name)
        path.write_bytes(before)
    read(run)
    assert list(problems(run / "step-0000000002")) == []


@pytest.mark.timeout(60)
def test_a_manifest_cut_at_every_length_is_told(run):
    path = run / "step-0000000002" / "manifest.json"
    before = path.read_bytes()
    for size in range(len(before)):
        path.write_bytes(before[:size])
        assert_told(run, "manifest.json")
    path.unlink()
    assert_told(run, "manifest.json is missing")


def test_files_that_are_cut_missing_or_folders_are_told(run):
    for path in sorted((run / "step-0000000002").glob("*.safetensors")):
        before = path.read_bytes()
        for size in (0, 1, len(before) - 1):
            path.write_bytes(before[:size])
            assert_told(run, f"{path.name} is damaged: it has {size} bytes")
        path.write_bytes(before + b"\0")
        assert_told(run, f"{path.name} is damaged")
        path.unlink()
        assert_told(run, f"{path.name} is missing")
        path.mkdir()
        assert_told(run, f"{path.name} is damaged: it is a folder")
        path.rmdir()
        path.write_bytes(before)
    read(run)


def test_verify_names_the_newest_other_good_one(run, capsys):
    save(run / "step-0000000003")
    for step in (2, 3):
        path = run / f"step-{step:010d}" / "sparse-00000.safetensors"
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert command("verify", run) == 1
    said = capsys.readouterr().out
    assert re.search(r"step-0000000003: damaged\n  .*sparse-00000\.safetensors is damaged: its checksum", said)
    assert said.endswith(f"the newest other good checkpoint: {run}/step-0000000001\n")


def test_what_a_replacing_save_left_is_named_too(tmp_path, capsys):
    save(tmp_path / "saved")
    save(tmp_path / "saved.old-0123456789abcdef")
    (tmp_path / "saved" / "manifest.json").write_bytes(b"{}")
    with pytest.raises(CheckpointError, match=r"the newest other checkpoint there is .*saved\.old-0123456789abcdef"):
        read(tmp_path / "saved")
    assert command("verify", tmp_path / "saved") == 1
    assert "the newest other good checkpoint: " in capsys.readouterr().out
