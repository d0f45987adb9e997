"""``flota.trace``: a process's own timeline, also where there are no servers."""

import json
import subprocess
import sys

import pytest
from traced import PARTS, check_steps, load

from flota.errors import InvalidArgument
from flota.observe.trace.here import trace

SCRIPT = """
import sys
import torch, flota
from flota.data import QueueDataset, Slot

feed, file = sys.argv[1:]
flota.init()
model = torch.nn.Sequential(flota.nn.EmbeddingCollection(3, 4), torch.nn.Flatten(1), torch.nn.Linear(12, 1))
optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.01))
flota.init_worker()
loss_of = lambda score, label: (score.squeeze(1) - label).square().mean()


def step(batch):
    ids, label = batch
    loss = loss_of(model(ids), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


batches = [(torch.randint(0, 1000, (64, 3)), torch.zeros(64)) for _ in range(30)]
loader = torch.utils.data.DataLoader(batches, batch_size=None)


def train():
    match feed:
        case "generator":
            for batch in (batch for batch in batches):
                step(batch)
        case "loader":
            for batch in loader:
                step(batch)
        case "prefetch":
            for batch in flota.prefetch((batch for batch in batches), model):
                step(batch)
        case "dataset":
            flota.train_from_dataset(model, batches, loss=loss_of)
        case "threads":
            flota.train_from_dataset(model, batches, loss=loss_of, thread_num=2)
        case "files":
            open("part", "w").writelines(f"1 {n} 1 0.5\\n" for n in range(64 * 30))
            dataset = QueueDataset()
            slots = [Slot("key", (1,)), Slot("label", (1,), dtype="float32")]
            dataset.init(batch_size=64, use_var=slots, pipe_command="cat")
            dataset.set_filelist(["part"])
            for batch in dataset:
                step((batch["key"].reshape(-1, 1).repeat(1, 3), batch["label"].reshape(-1)))


train()
with flota.trace(file, steps=10) as traced:
    train()
print(traced)
"""


def run(folder, *arguments, script=SCRIPT):
    (folder / "script.py").write_text(script)
    command = [sys.executable, "script.py", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("feed", ["generator", "loader", "prefetch", "dataset", "threads", "files"])
def test_every_part_is_there_however_a_local_model_is_fed(tmp_path, feed):
    done = run(tmp_path, feed, "trace.json")
    assert done.returncode == 0, done.stderr
    tracks = load(tmp_path / "trace.json")
    stepping = [events for events in tracks.values() if any(event["cat"] == "step" for event in events)]
    assert sum(event["cat"] == "step" for events in stepping for event in events) == 10
    for events in stepping:
        # Nobody is waited for.
        assert check_steps(events) == PARTS - {"wait"}
    guessed = [event for events in stepping for event in events if event.get("args", {}).get("guessed")]
    assert bool(guessed) == (feed == "generator")
    assert "is the slowest" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_what_reads_ahead_is_on_a_track_of_its_own(tmp_path):
    assert run(tmp_path, "prefetch", "trace.json").returncode == 0
    file = json.loads((tmp_path / "trace.json").read_text())
    names = {event["args"]["name"]: event["tid"] for event in file["traceEvents"] if event["name"] == "thread_name"}
    (ahead,) = [thread for name, thread in names.items() if "prefetch" in name]
    assert ahead != names["MainThread"]
    found = {event["cat"] for event in file["traceEvents"] if event["ph"] == "X" and event["tid"] == ahead}
    assert {"read", "pull"} <= found


NO_STEP = """
import flota
try:
    with flota.trace("trace.json"):
        pass
except flota.errors.FlotaError as error:
    print(error)
with flota.trace("trace.json") as traced:
    print(traced, traced.written)
    raise SystemExit(0)
"""


def test_a_block_without_a_step_says_so(tmp_path):
    done = run(tmp_path, script=NO_STEP)
    assert done.returncode == 0, done.stderr
    assert "no whole step was made" in done.stdout
    assert "no step is traced yet False" in done.stdout
    assert not (tmp_path / "trace.json").exists()


@pytest.mark.parametrize(("steps", "path"), [(0, "a"), (1001, "a"), (True, "a"), (2.5, "a"), (5, "nowhere/a"), (5, "")])
def test_what_makes_no_sense_is_refused(tmp_path, monkeypatch, steps, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument):
        trace(path, steps=steps)
