"""``flota checkpoint inspect`` and ``verify``: what is in a checkpoint, and whether it is what was written."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from small import command, page_of, save, spec_of

from flota import _core
from flota.checkpoint.commands import check
from flota.checkpoint.commands.shards import rows_in, shards_of, windows
from flota.checkpoint.reader import Checkpoint
from flota.checkpoint.writer import CheckpointWriter
from flota.pages import ShardPage


def test_inspect_shows_all_in_80_columns(tmp_path, capsys):
    data = [{"pass": "abc#0", "epoch": 2, "pieces": 8, "over_below": 2, "done": [[0, 3]], "begun": [[4, 100]]}]
    with CheckpointWriter(tmp_path / "saved", step=1234, source={"mode": "async", "servers": 2}, data=data) as writer:
        writer.add_rows(spec_of("users"), [ShardPage((0, 1023), page_of(range(2000)))])
        writer.publish()
    assert command("inspect", tmp_path / "saved") == 0
    said = capsys.readouterr().out
    for part in (
        "persistables, step 1,234, ",
        "async, 2 servers",
        "in epoch 2, 3 of 8 pieces trained and 1 begun",
        "users  sparse, 2,000 rows of 2, float32",
        "Adagrad(lr=0.1,",
        "state  sum",
        "Uniform(low=-0.5, high=0.5), seed 7",
        "sparse-00000.safetensors",
        "users: 2,000 rows, shards 0 to 1023",
    ):
        assert part in said
    assert max(map(len, said.replace(str(tmp_path), "").splitlines())) <= 80


def test_inspect_as_json_is_the_manifest(tmp_path, capsys):
    save(tmp_path / "saved")
    assert command("inspect", tmp_path / "saved", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["kind"], said["step"]) == ("persistables", 5)
    assert said["tables"]["users"]["rule"]["lr"] == 0.1
    assert said["wrong"] == []
    assert said["bytes"] == sum(file["bytes"] for file in said["files"].values())


def test_inspect_shows_what_is_there_of_a_damaged_one(tmp_path, capsys):
    save(tmp_path / "saved")
    (tmp_path / "saved" / "sparse-00000.safetensors").unlink()
    assert command("inspect", tmp_path / "saved") == 1
    said = capsys.readouterr().out
    assert "users  sparse" in said
    assert "wrong: " in said
    assert "sparse-00000.safetensors is missing" in said


def test_verify_says_good(tmp_path, capsys):
    save(tmp_path / "saved", keys=range(-50, 50), file_bytes=300)
    assert command("verify", tmp_path / "saved") == 0
    assert "saved: good\n  persistables, step 5, " in capsys.readouterr().out


def test_verify_names_all_that_is_wrong(tmp_path, capsys):
    save(tmp_path / "saved", keys=range(20), file_bytes=100)
    files = sorted((tmp_path / "saved").glob("sparse-*"))
    files[0].write_bytes(files[0].read_bytes()[:-1] + b"\xff")
    files[1].unlink()
    files[2].write_bytes(files[2].read_bytes()[:-1])
    (tmp_path / "saved" / "notes.txt").write_text("mine")
    assert command("verify", tmp_path / "saved") == 1
    said = capsys.readouterr().out
    assert "sparse-00000.safetensors is damaged: its checksum is not the manifest's" in said
    assert "sparse-00001.safetensors is missing" in said
    assert "sparse-00002.safetensors is damaged: it has" in said
    assert "notes.txt does not belong to the checkpoint" in said
    assert "there is no other good checkpoint beside it" in said


def test_verify_finds_keys_that_come_twice_and_keys_of_other_shards(tmp_path, capsys):
    keys = [key for key in range(4000) if _core.shard_of(key) < 512][:20]
    with CheckpointWriter(tmp_path / "saved", file_bytes=1) as writer:
        writer.add_rows(
            spec_of("users"),
            [
                ShardPage((0, 511), page_of(keys[:10])),
                ShardPage((0, 511), page_of(keys[9:20])),
                ShardPage((512, 1023), page_of(keys[:1])),
            ],
        )
        writer.publish()
    assert command("verify", tmp_path / "saved") == 1
    said = capsys.readouterr().out
    assert f"table 'users' has 1 keys twice, such as {keys[9]}" in said
    assert f"sparse-00002.safetensors has 1 keys of other shards than 512 to 1023, such as {keys[0]}" in said


def test_verify_finds_rows_that_the_manifest_has_and_no_file(tmp_path, capsys):
    with CheckpointWriter(tmp_path / "saved") as writer:
        writer.add_rows(spec_of("users"), [ShardPage((0, 1023), page_of(range(5)))])
        writer.add_rows(spec_of("users"), [])  # the table is said to have none now
        writer.publish()
    assert command("verify", tmp_path / "saved") == 1
    assert "table 'users' has 0 rows, its files 5" in capsys.readouterr().out


def test_verify_tells_how_far_it_is_in_a_large_one(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(check, "_LARGE", 100)
    monkeypatch.setattr(check, "_EVERY", 0.0)
    save(tmp_path / "saved", keys=range(20), file_bytes=100)
    assert command("verify", tmp_path / "saved") == 0
    assert " looked at" in capsys.readouterr().err


def test_a_folder_that_is_no_checkpoint_is_told(tmp_path, capsys):
    for name in ("inspect", "verify"):
        assert command(name, tmp_path / "nowhere") == 1
        assert f"there is no checkpoint at {tmp_path}/nowhere" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["inspect", "--json"], ["inspect"], ["verify"]])
def test_a_reader_that_goes_away_ends_a_command_quietly(tmp_path, arguments):
    save(tmp_path / "run")
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "flota.cli", "checkpoint", *arguments, str(tmp_path / "run")]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_the_commands_need_no_torch(tmp_path):
    save(tmp_path / "saved")
    script = (
        "import sys\nfrom flota import cli\n"
        "for name in ('inspect', 'verify', 'diff'):\n"
        "    assert cli.main(['checkpoint', name, sys.argv[1], *[sys.argv[1]] * (name == 'diff')]) == 0\n"
        "assert cli.main(['checkpoint', 'convert', sys.argv[1], sys.argv[1] + '.parquet']) == 0\n"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", script, tmp_path / "saved"], check=True, timeout=60, stdout=subprocess.DEVNULL
    )


def test_shards_are_the_cores():
    random = np.random.default_rng(0)
    keys = np.concatenate([np.arange(-50, 50), random.integers(-(1 << 63), (1 << 63) - 1, 500)])
    assert shards_of(keys).tolist() == [_core.shard_of(int(key)) for key in keys]


@pytest.mark.parametrize("window_bytes", [1 << 30, 1000, 1])
def test_windows_hold_every_row_once(tmp_path, window_bytes):
    save(tmp_path / "saved", keys=range(300), file_bytes=500)
    checkpoint = Checkpoint(tmp_path / "saved")
    runs = list(windows([checkpoint.manifest.tables["users"]], window_bytes))
    assert (len(runs) == 1) == (window_bytes == 1 << 30)
    assert [runs[0][0], runs[-1][1]] == [0, 1023]
    runs = runs if len(runs) < 50 else [(0, 3), (4, 511), (512, 1023)]
    found = np.concatenate([rows_in(checkpoint, "users", run).keys for run in runs])
    assert sorted(found.tolist()) == list(range(300))
