"""The folder: no byte of it changes unnoticed, and no crash leaves half a checkpoint."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flota import _core, rules
from flota.checkpoint import folder
from flota.checkpoint.manifest import FileEntry, Manifest, TableEntry, _checksum, _spell
from flota.checkpoint.reader import Checkpoint
from flota.checkpoint.writer import CheckpointWriter
from flota.errors import CheckpointError, InvalidArgument, SystemFailure
from flota.initializer import Uniform
from flota.pages import RowPage, ShardPage
from waiting import wait_until

FUZZ = Path(__file__).parents[1] / "fuzz" / "manifest_fuzz.py"


def rows_spec():
    spec = _core.TableSpec()
    spec.name, spec.dim, spec.seed = "users", 2, 7
    spec.rule, spec.init = rules.Adam(lr=0.1).to_native(), Uniform(-0.5, 0.5).to_native()
    return spec


def dense_spec():
    spec = _core.TableSpec()
    spec.name, spec.kind, spec.shape = "dense/0.0", _core.TableKind.dense, [2, 3]
    spec.rule = rules.Adagrad().to_native()
    return spec


def save(path, value=1.0, step=5, rows=3):
    """A small checkpoint: a sparse table and a dense parameter."""
    page = RowPage(
        np.arange(rows),
        np.ones(rows, np.uint64),
        np.full(rows, step, np.uint64),
        np.full((rows, 2), value, np.float32),
        np.zeros((rows, 4), np.float32),
    )
    whole = np.full((2, 3), value, np.float32)
    with CheckpointWriter(path, step=step, source={"mode": "sync", "servers": 1, "workers": 2}) as writer:
        writer.add_rows(rows_spec(), [ShardPage((0, 1023), page)])
        writer.add_parameter(dense_spec(), whole, {"sum": whole}, updates=5, last_seen=5)
        writer.publish()


def read(path):
    """Everything in a checkpoint."""
    checkpoint = Checkpoint(path)
    rows = [page.weights.tolist() for name in checkpoint.tables("sparse") for page in checkpoint.rows(name)]
    return checkpoint.step, rows, {name: whole.weights.tolist() for name, whole in checkpoint.parameters()}


def value_at(path):
    _, rows, dense = read(path)
    values = {value for page in rows for row in page for value in row} | {dense["dense/0.0"][0][0]}
    assert len(values) == 1, "of one checkpoint"
    return values.pop()


GOLDEN = {
    "format": "flota checkpoint",
    "version": 1,
    "kind": "persistables",
    "step": 5,
    "source": {"mode": "sync", "servers": 1, "workers": 2},
    "tables": {
        "dense/0.0": {
            "kind": "dense",
            "shape": [2, 3],
            "updates": 5,
            "last_seen": 5,
            "storage": "float32",
            "allow_nonfinite": False,
            "seed": 0,
            "init": {"kind": "Constant", "value": 0.0},
            "rule": {
                "kind": "Adagrad",
                "lr": 0.01,
                "weight_decay": 0.0,
                "lr_decay": 0.0,
                "initial_accumulator_value": 0.0,
                "eps": 1e-10,
                "steps": "row",
            },
            "state": ["sum"],
        },
        "users": {
            "kind": "sparse",
            "dim": 2,
            "rows": 3,
            "storage": "float32",
            "allow_nonfinite": False,
            "seed": 7,
            "init": {"kind": "Uniform", "low": -0.5, "high": 0.5},
            "rule": {
                "kind": "Adam",
                "lr": 0.1,
                "weight_decay": 0.0,
                "betas": [0.9, 0.999],
                "eps": 1e-08,
                "amsgrad": False,
                "steps": "row",
            },
            "state": ["exp_avg", "exp_avg_sq"],
        },
    },
    "files": {
        "dense-00000.safetensors": {"tables": ["dense/0.0"]},
        "sparse-00000.safetensors": {"table": "users", "rows": 3, "shards": [0, 1023]},
    },
}


def test_the_manifest_is_as_documented(tmp_path):
    save(tmp_path / "saved")
    there = json.loads((tmp_path / "saved" / "manifest.json").read_bytes())
    assert len(there.pop("checksum")) == 64
    assert there.pop("flota")
    for name, entry in there["files"].items():
        assert len(entry.pop("sha256")) == 64
        assert entry.pop("bytes") == (tmp_path / "saved" / name).stat().st_size
    assert there == GOLDEN


def test_every_flipped_byte_is_noticed_and_its_file_named(tmp_path):
    save(tmp_path / "saved")
    for path in sorted((tmp_path / "saved").iterdir()):
        before = path.read_bytes()
        for place in range(len(before)):
            after = bytearray(before)
            after[place] ^= 0x20  # letters stay letters, and spaces vanish
            path.write_bytes(after)
            with pytest.raises(CheckpointError, match=path.name):
                read(tmp_path / "saved")
        path.write_bytes(before)
    read(tmp_path / "saved")


def test_truncated_missing_and_foreign_files_are_named(tmp_path):
    save(tmp_path / "saved")
    for path in sorted((tmp_path / "saved").iterdir()):
        before = path.read_bytes()
        for size in (0, 1, len(before) // 2, len(before) - 1):
            path.write_bytes(before[:size])
            with pytest.raises(CheckpointError, match=rf"{path.name} (is damaged|is not)"):
                read(tmp_path / "saved")
        path.unlink()
        with pytest.raises(CheckpointError, match=f"{path.name} is missing"):
            read(tmp_path / "saved")
        path.write_bytes(before)
    (tmp_path / "saved" / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match=r"notes\.txt does not belong to the checkpoint"):
        read(tmp_path / "saved")
    with pytest.raises(InvalidArgument, match=r"notes\.txt does not belong to the checkpoint there; move it"):
        save(tmp_path / "saved")
    assert (tmp_path / "saved" / "notes.txt").read_text() == "mine"


def test_a_folder_that_is_not_there_or_is_none_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=f"there is no checkpoint at {tmp_path}/nowhere"):
        read(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="file is not a folder"):
        read(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match=r"manifest\.json is missing"):
        read(tmp_path / "empty")
    with pytest.raises(InvalidArgument, match="needs the name of a folder"):
        read("")


def test_a_manifest_of_another_version_says_so(tmp_path):
    save(tmp_path / "saved")
    path = tmp_path / "saved" / "manifest.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(CheckpointError, match="format version 2; this flota reads version 1"):
        read(tmp_path / "saved")


def test_a_manifest_that_makes_no_sense_is_refused(tmp_path):
    entry = TableEntry.of(rows_spec())
    manifest = Manifest(
        "persistables", "0", tables={"users": entry}, files={"x": FileEntry(1, "0" * 64, table="users")}
    )
    assert Manifest.from_bytes(manifest.to_bytes(), "m") == manifest
    body = json.loads(manifest.to_bytes())
    for table, settings in (("../users", {}), ("users", {"dim": 0}), ("users", {"state": ["sum"]})):
        wrong = {**body, "tables": {table: {**body["tables"]["users"], **settings}}}
        wrong.pop("checksum")
        with pytest.raises(CheckpointError, match="m makes no sense"):
            Manifest.from_bytes(_spell({**wrong, "checksum": _checksum(wrong)}), "m")


def test_what_is_no_checkpoint_is_not_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(InvalidArgument, match="mine is no checkpoint"):
        save(tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="file is not a folder"):
        save(tmp_path / "file")
    with pytest.raises(SystemFailure, match=f"cannot make {tmp_path}/file"):
        save(tmp_path / "file" / "inside")


@pytest.mark.parametrize("can_exchange", [True, False])
def test_programs_that_lie_beside_a_checkpoint_stay(tmp_path, monkeypatch, can_exchange):
    if not can_exchange:
        monkeypatch.setattr(folder, "_exchange", lambda *_: False)
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "__model__").write_text("what is served")
    for value in (1.0, 2.0):
        save(tmp_path / "saved", value)
        (tmp_path / "saved" / "best.pdiparams").write_text("numbers")
        assert value_at(tmp_path / "saved") == value
    assert (tmp_path / "saved" / "__model__").read_text() == "what is served"
    assert (tmp_path / "saved" / "best.pdiparams").read_text() == "numbers"


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_save_replaces_the_one_before_and_leaves_nothing_else(tmp_path, monkeypatch, can_exchange):
    if not can_exchange:
        monkeypatch.setattr(folder, "_exchange", lambda *_: False)
    (tmp_path / "saved").mkdir()
    for value in (1.0, 2.0, 3.0):
        save(tmp_path / "saved", value)
        assert value_at(tmp_path / "saved") == value
        assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_a_save_that_fails_leaves_the_one_before(tmp_path):
    def pages():
        yield ShardPage((0, 0), RowPage(*(np.zeros(1) for _ in range(5))))

    save(tmp_path / "saved", 1.0)
    with CheckpointWriter(tmp_path / "saved") as writer, pytest.raises(CheckpointError, match="rows of another shape"):
        writer.add_rows(rows_spec(), pages())
    assert value_at(tmp_path / "saved") == 1.0
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_a_crash_between_two_renames_leaves_the_one_before(tmp_path, monkeypatch):
    save(tmp_path / "saved", 1.0)
    monkeypatch.setattr(folder, "_exchange", lambda *_: False)
    rename = os.rename
    calls = []

    def crash(*names):
        calls.append(names)
        if len(calls) == 2:
            raise KeyboardInterrupt
        rename(*names)

    monkeypatch.setattr(os, "rename", crash)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path / "saved", 2.0)
    monkeypatch.undo()
    assert value_at(tmp_path / "saved") == 1.0, "found under the name it was moved to"
    save(tmp_path / "saved", 3.0)
    assert value_at(tmp_path / "saved") == 3.0
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


SAVER = """
import sys
sys.path[:0] = [sys.argv[2], sys.argv[3]]
from test_folder import save
value = 1.0
while True:
    value += 1
    save(sys.argv[1], value, rows=20_000)
    print(value, flush=True)
"""


def saver(path):
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    return subprocess.Popen([sys.executable, "-c", SAVER, str(path), *folders], stdout=subprocess.PIPE, text=True)


def test_a_save_that_is_killed_at_any_moment_leaves_a_whole_checkpoint(tmp_path):
    save(tmp_path / "saved", 1.0)
    for killed_in in ("tmp", "published"):
        for _ in range(5):
            process = saver(tmp_path / "saved")
            try:
                assert process.stdout is not None
                process.stdout.readline()
                if killed_in == "tmp":
                    wait_until(lambda: any(tmp_path.glob("saved.tmp-*/sparse*")))
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait(10)
                process.stdout.close()
            assert value_at(tmp_path / "saved") >= 1.0
    save(tmp_path / "saved", 5.0)
    assert value_at(tmp_path / "saved") == 5.0
    assert [path.name for path in tmp_path.iterdir()] == ["saved"], "what the killed ones left is gone"


def test_a_save_that_still_runs_is_not_taken_for_a_leftover(tmp_path):
    with CheckpointWriter(tmp_path / "saved"):
        running = list(tmp_path.glob("saved.tmp-*"))
        save(tmp_path / "saved", 1.0)
        assert list(tmp_path.glob("saved.tmp-*")) == running != []


def test_a_full_disk_is_named_and_leaves_the_one_before(tmp_path):
    save(tmp_path / "saved", 1.0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        with pytest.raises(SystemFailure, match=r"cannot write .*sparse-00000\.safetensors: File too large"):
            save(tmp_path / "saved", 2.0, rows=1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert value_at(tmp_path / "saved") == 1.0
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_restoring_needs_no_torch():
    script = "import sys, flota.checkpoint.restore; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_manifests_that_nobody_wrote_are_refused():
    done = subprocess.run(
        [sys.executable, FUZZ, "--runs", "1500", "--seed", "7"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "no failure" in done.stdout
