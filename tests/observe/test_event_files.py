"""What TensorBoard reads of a worker."""

import errno
import math
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from flota import tensorboard
from flota.errors import InvalidArgument, SystemFailure
from flota.standing import Place, Standing
from flota.tensorboard import EventFile, Scribe
from waiting import wait_until


@pytest.fixture
def standing():
    return Standing()


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(tensorboard, "_EVERY", 0.02)


@pytest.fixture
def begin(tmp_path, standing, quick):
    begun = []

    def begin(index=0):
        begun.append(Scribe(str(tmp_path), index, standing))
        return begun[-1]

    yield begin
    for scribe in begun:
        scribe.close()


def read(folder):
    """By tag: (step, value) of each point."""
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return {tag: [(e.step, e.value) for e in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_what_a_worker_does_is_read_back(tmp_path, standing, begin):
    scribe = begin(3)
    standing.begin("async", lambda: 2)
    for step in range(1, 6):
        standing.stepped(step, 512, torch.tensor(1.0 / step), 0.1)
        standing.measured(auc=0.5 + step / 100)
        wait_until(lambda step=step: scribe._before.step == step)
    standing.place = Place("train", 1, pieces=4, left=1)
    standing.stepped(6, 512, 0.125, 0.05)
    scribe.close()
    found = read(tmp_path / "worker-3")
    assert [step for step, _ in found["loss"]] == [1, 2, 3, 4, 5, 6]
    assert found["loss"][1] == (2, 0.5)
    assert found["loss"][-1] == (6, 0.125)
    assert found["learning_rate"][-1] == (6, pytest.approx(0.05))
    assert found["metric/auc"][4] == (5, pytest.approx(0.55))
    assert found["steps_in_flight"][0] == (1, 2.0)
    assert found["pass_done"] == [(6, 0.75)]
    assert all(value > 0 for _, value in found["speed/samples_per_second"])
    assert {tag for tag in found if tag.startswith("share/")} == {
        f"share/{part}" for part in tensorboard.timeline.PARTS
    }


def test_a_worker_that_makes_no_step_writes_nothing(tmp_path, standing, begin):
    scribe = begin()
    standing.stepped(1, 8, 0.5, 0.1)
    wait_until(lambda: scribe._before.step == 1)
    size = scribe._file.path.stat().st_size
    looked = threading.Event()
    scribe._point, before = lambda: looked.set() or before(), scribe._point
    assert looked.wait(10)
    scribe.close()
    assert scribe._file.path.stat().st_size == size
    assert [step for step, _ in read(tmp_path / "worker-0")["loss"]] == [1]


@pytest.mark.parametrize("loss", [None, math.nan, "nonsense", torch.ones(3)])
def test_a_loss_that_is_no_number_is_left_out(tmp_path, standing, begin, loss):
    scribe = begin()
    standing.stepped(1, 8, loss, 0.1)
    scribe.close()
    found = read(tmp_path / "worker-0")
    assert "loss" not in found
    assert found["learning_rate"] == [(1, pytest.approx(0.1))]


def test_staleness_is_of_the_pushes_since_it_was_asked_for(tmp_path, standing, begin, monkeypatch):
    monkeypatch.setattr(tensorboard, "_STALE_EVERY", 1)
    told = iter([(2.0, 5, 100), (3.0, 9, 200), (3.0, 9, 200)])
    scribe = begin()
    scribe.stale = lambda: SimpleNamespace(**dict(zip(("mean", "max", "count"), next(told), strict=True)))
    for step in (1, 2, 3):
        standing.stepped(step, 8, 0.5, 0.1)
        wait_until(lambda step=step: scribe._before.step == step)
    scribe.close()
    found = read(tmp_path / "worker-0")
    assert found["staleness/mean"] == [(1, 2.0), (2, 4.0)]
    assert found["staleness/max"] == [(1, 5.0), (2, 9.0)]


def test_servers_that_are_away_take_nothing_else_along(tmp_path, standing, begin):
    def away():
        raise OSError("away")

    scribe = begin()
    scribe.stale = away
    standing.stepped(1, 8, 0.5, 0.1)
    scribe.close()
    found = read(tmp_path / "worker-0")
    assert found["loss"] == [(1, 0.5)]
    assert "staleness/mean" not in found


def test_steps_that_are_made_again_replace_those_of_before(tmp_path, standing, begin, monkeypatch):
    first = begin()
    for step in (1, 2, 3):
        standing.stepped(step, 8, 1.0, 0.1)
        wait_until(lambda step=step: first._before.step == step)
    first.close()
    monkeypatch.setenv("FLOTA_RESTARTS", "1")
    # A file of a later second is read after it, as a process that is started again makes one.
    later = time.time() + 2
    monkeypatch.setattr(tensorboard.time, "time", lambda: later)
    standing.step = 0
    second = begin()
    standing.stepped(2, 8, 2.0, 0.1)
    second.close()
    assert read(tmp_path / "worker-0")["loss"] == [(1, 1.0), (2, 2.0)]


def test_a_file_has_whole_events_only(tmp_path, monkeypatch):
    """The disk takes half of what is written, and then no more."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    def event(step):
        return Event(step=step, summary=Summary(value=[Summary.Value(tag="loss", simple_value=step)]))

    file = EventFile(tmp_path)
    file.write(event(1))
    plain, calls = os.write, []

    def write(number, data):
        calls.append(len(data))
        if len(calls) == 1:
            return plain(number, bytes(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tensorboard.os, "write", write)
    with pytest.raises(OSError, match="No space"):
        file.write(event(2))
    assert len(calls) == 2
    monkeypatch.undo()
    file.write(event(3))
    file.close()
    assert read(tmp_path)["loss"] == [(1, 1.0), (3, 3.0)]


# Its files may have 4 KiB, as where the disk has no more room.
FULL = """
import resource, signal, sys, time
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
from flota import tensorboard
from flota.standing import Standing

tensorboard._EVERY = 0.001
standing = Standing()
scribe = tensorboard.Scribe(sys.argv[1], 0, standing)
step, until = 0, time.monotonic() + 60
while not scribe._told and time.monotonic() < until:
    step += 1
    standing.stepped(step, 8, 1.0, 0.1)
    time.sleep(0.001)
for _ in range(100):
    step += 1
    standing.stepped(step, 8, 1.0, 0.1)
scribe.close()
print("trained on", step > 100)
"""


def test_a_full_disk_does_not_end_training(tmp_path):
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "trained on True\n"
    (line,) = done.stderr.splitlines()
    assert "could not be written: File too large; training goes on" in line
    steps = [step for step, _ in read(tmp_path / "worker-0")["loss"]]
    assert len(steps) > 3


def test_a_folder_that_cannot_be_made_is_refused(tmp_path, standing):
    (tmp_path / "file").touch()
    with pytest.raises(SystemFailure, match=r"worker-0.*cannot be made: .*FLOTA_TENSORBOARD names a folder"):
        Scribe(str(tmp_path / "file"), 0, standing)


def test_a_missing_package_is_refused_with_what_to_install(tmp_path, standing, monkeypatch):
    monkeypatch.setattr(tensorboard, "find_spec", lambda name: None)
    with pytest.raises(InvalidArgument, match=r"pip install 'flota\[tensorboard\]'"):
        Scribe(str(tmp_path), 0, standing)
    assert list(tmp_path.iterdir()) == []
