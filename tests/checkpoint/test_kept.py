"""``save_persistables(dirname, keep=N)``: the newest checkpoints, side by side."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small import command, save
from tables import SECRET, servers

import flota
from flota.checkpoint import folder, kept
from flota.checkpoint.commands.check import problems
from flota.checkpoint.kept import keeping
from flota.checkpoint.reader import Checkpoint
from flota.errors import CheckpointError, InvalidArgument
from flota.fleet import Fleet
from flota.nn.naming import reset_names


def keep_one(parent, step, keep=3, value=None):
    with keeping(parent, keep, step) as place:
        save(place, step=step, value=float(step) if value is None else value)


def names(parent):
    return sorted(path.name for path in parent.iterdir())


def step_at(parent):
    return Checkpoint(parent).step


def test_the_newest_so_many_stay_and_the_newest_is_what_loads(tmp_path):
    for step in (10, 20, 30, 40, 1000000):
        keep_one(tmp_path / "run", step)
        assert step_at(tmp_path / "run") == step
    assert names(tmp_path / "run") == ["step-0000000030", "step-0000000040", "step-0001000000"]
    keep_one(tmp_path / "run", 1000001, keep=1)
    assert names(tmp_path / "run") == ["step-0001000001"]


def test_a_step_that_is_saved_again_is_replaced(tmp_path):
    keep_one(tmp_path, 10, value=1.0)
    keep_one(tmp_path, 10, value=2.0)
    assert names(tmp_path) == ["step-0000000010"]
    assert next(Checkpoint(tmp_path).rows("users")).weights[0, 0] == 2.0


def test_a_job_that_went_back_begins_a_new_line(tmp_path):
    for step in (10, 20, 30):
        keep_one(tmp_path, step)
    keep_one(tmp_path, 15)  # after load_model("step-0000000010")
    assert names(tmp_path) == ["step-0000000015.1", "step-0000000020", "step-0000000030"]
    assert step_at(tmp_path) == 15
    keep_one(tmp_path, 20)
    keep_one(tmp_path, 18)
    assert names(tmp_path) == ["step-0000000015.1", "step-0000000018.2", "step-0000000020.1"]
    assert step_at(tmp_path) == 18


def test_damaged_ones_do_not_count(tmp_path):
    for step in (1, 2, 3):
        keep_one(tmp_path, step)
    (tmp_path / "step-0000000003" / "sparse-00000.safetensors").unlink()
    keep_one(tmp_path, 4, keep=2)
    assert names(tmp_path) == ["step-0000000002", "step-0000000003", "step-0000000004"]
    keep_one(tmp_path, 5, keep=2)
    assert names(tmp_path) == ["step-0000000004", "step-0000000005"]


def test_a_damaged_newest_one_is_told_and_not_passed_over(tmp_path):
    for step in (1, 2):
        keep_one(tmp_path, step)
    (tmp_path / "step-0000000002" / "manifest.json").unlink()
    with pytest.raises(
        CheckpointError, match=re.escape(f"the newest other checkpoint there is {tmp_path}/step-0000000001")
    ):
        Checkpoint(tmp_path)
    assert step_at(tmp_path / "step-0000000001") == 1


def test_a_job_is_told_where_to_go_on_from(tmp_path):
    fleet, model, optimizer = worker()
    for _ in range(2):
        train(model, optimizer, 1)
        fleet.save_persistables(tmp_path, keep=2)
    path = tmp_path / "step-0000000002" / "sparse-00000.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    said = re.escape(f"the newest other checkpoint there is {tmp_path}/step-0000000001: name it to go on from it")
    with pytest.raises(CheckpointError, match=said):
        fleet.load_model(tmp_path)
    with pytest.raises(CheckpointError, match=said), servers(1, tmp_path):
        pass
    fleet.load_model(tmp_path / "step-0000000001")
    assert optimizer.steps == 1


def test_one_checkpoint_and_many_do_not_mix(tmp_path):
    save(tmp_path / "one")
    with pytest.raises(InvalidArgument, match="one is a checkpoint, saved without keep="):
        keep_one(tmp_path / "one", 1)
    keep_one(tmp_path / "many", 1)
    with pytest.raises(InvalidArgument, match=r"many is no checkpoint .* but holds some; keep=N adds one"):
        save(tmp_path / "many")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="file is not a folder"):
        keep_one(tmp_path / "file", 1)
    for wrong in (0, -1, True, 1.5, "2"):
        with pytest.raises(InvalidArgument, match="keep must be a whole number"):
            keep_one(tmp_path / "many", 1, keep=wrong)


def test_files_of_others_beside_them_stay(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for step in range(5):
        keep_one(tmp_path, step, keep=2)
    assert names(tmp_path) == ["notes.txt", "step-0000000003", "step-0000000004"]


def test_a_save_that_fails_removes_nothing(tmp_path):
    for step in (1, 2):
        keep_one(tmp_path, step, keep=2)
    with pytest.raises(KeyboardInterrupt), keeping(tmp_path, 2, 3):
        raise KeyboardInterrupt
    assert names(tmp_path) == ["step-0000000001", "step-0000000002"]


class Crash(BaseException):
    """The process is gone: nothing after it runs."""


@pytest.mark.parametrize("can_exchange", [True, False])
@pytest.mark.parametrize("step", [3, 4])
def test_a_crash_at_any_moment_leaves_as_many_good_ones(tmp_path, monkeypatch, can_exchange, step):
    """At each call that changes the disk in turn, a crash; ``step`` 3 replaces one that is there."""
    real = {name: getattr(os, name) for name in ("rename", "mkdir", "unlink", "rmdir", "fsync")}
    exchange = folder._exchange
    crashes = 0
    for crash_at in range(100):
        parent = tmp_path / str(crash_at)
        for earlier in (1, 2, 3):
            keep_one(parent, earlier)
        calls = 0

        def counted(call):
            def made(*arguments, **options):
                nonlocal calls
                calls += 1
                if calls > crash_at:  # noqa: B023
                    raise Crash
                return call(*arguments, **options)

            return made

        with monkeypatch.context() as patched:
            patched.setattr(folder, "_exchange", counted(exchange) if can_exchange else lambda *_: False)
            for name, call in real.items():
                patched.setattr(os, name, counted(call))
            try:
                keep_one(parent, step, value=9.0)
            except Crash:
                crashes += 1
            else:
                break
        good = [child for child in kept.children(parent) if not list(problems(child))]
        assert len(good) >= 3
        assert not list(problems(kept.find(parent))), "the newest is good"
        keep_one(parent, 5)
        assert len(names(parent)) == 3, "nothing else is left"
    assert crashes > 5


SAVER = """
import sys
sys.path[:0] = [sys.argv[2], sys.argv[3]]
from test_kept import keep_one
step = int(sys.argv[4])
while True:
    step += 1
    keep_one(sys.argv[1], step)
    print(step, flush=True)
"""


def test_a_job_that_is_killed_leaves_good_ones(tmp_path):
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    for step in (1, 2, 3):
        keep_one(tmp_path, step)
    for _ in range(4):
        arguments = [str(tmp_path), *folders, str(step_at(tmp_path))]
        process = subprocess.Popen([sys.executable, "-c", SAVER, *arguments], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            for _ in range(3):
                process.stdout.readline()
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(10)
            process.stdout.close()
        good = [child for child in kept.children(tmp_path) if not list(problems(child))]
        assert len(good) >= 2
        assert good[-1] == kept.find(tmp_path)


def worker(client=None):
    reset_names()
    fleet = Fleet()
    if client is None:
        fleet.init(flota.LocalRoleMaker())
    else:
        endpoints = [server.endpoint for server in client.statistics()]
        fleet.init(flota.UserDefinedRoleMaker(0, flota.Role.WORKER, 1, endpoints))
    model = flota.nn.Embedding(None, 2, name="rows")
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    fleet.init_worker()
    return fleet, model, optimizer


def train(model, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.arange(5)).sum().backward()
        optimizer.step()


def test_a_job_keeps_loads_and_serves_the_newest(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FLOTA_SECRET", SECRET)
    fleet, model, optimizer = worker()
    for _ in range(3):
        train(model, optimizer, 4)
        fleet.save_persistables(tmp_path / "run", keep=2)
    assert names(tmp_path / "run") == ["step-0000000008", "step-0000000012"]
    rows = model.pull(torch.arange(5)).clone()
    fleet, model, optimizer = worker()
    fleet.load_model(tmp_path / "run")
    assert optimizer.steps == 12
    assert torch.equal(model.pull(torch.arange(5)), rows)
    with servers(2, tmp_path / "run") as client:
        fleet, model, optimizer = worker(client)
        assert optimizer.steps == 12
        assert torch.equal(model.pull(torch.arange(5)), rows)
        train(model, optimizer, 1)
        fleet.save_persistables(tmp_path / "run", keep=2)
        fleet.stop_worker()
    assert names(tmp_path / "run") == ["step-0000000012", "step-0000000013"]
    assert command("inspect", tmp_path / "run") == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{tmp_path}/run/step-0000000013\n")
    assert "beside it: step-0000000012" in said
