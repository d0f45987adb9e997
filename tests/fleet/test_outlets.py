"""Metrics and event files of a script that nobody has launched."""

import json
import os
import socket
import subprocess
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

SCRIPT = """
import json, os, threading, urllib.request
import torch, flota

def get():  # nothing: nobody answers
    try:
        page = "http://127.0.0.1:" + os.environ["FLOTA_METRICS_PORT"] + "/metrics"
        with urllib.request.urlopen(page, timeout=2) as answer:
            return answer.read().decode()
    except OSError:
        return ""

flota.init()
seen = []
for job in range(2):
    model = torch.nn.Linear(4, 1)
    optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.5), flota.Sync())
    seen.append(get())
    flota.init_worker()
    for step in range(3):
        optimizer.zero_grad()
        model(torch.ones(8, 4)).square().mean().backward()
        optimizer.step()
    seen.append(get())
    flota.stop_worker()
seen.append(get())
names = sorted(thread.name for thread in threading.enumerate())
print(json.dumps({"seen": seen, "threads": names}))
"""


def run(tmp_path, **settings):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLOTA_", "PADDLE_"))}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env={**kept, **settings}, capture_output=True, text=True,
        timeout=100,
    )  # fmt: skip


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def test_a_script_without_servers_tells_how_it_does(tmp_path):
    done = run(tmp_path, FLOTA_METRICS_PORT=str(free_port()), FLOTA_TENSORBOARD="runs")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    before, first, between, second, after = told["seen"]
    assert (before, between, after) == ("", "", "")
    for text in (first, second):
        assert 'flota_learning_rate{index="0",role="worker"} 0.5' in text
        assert 'flota_loss{index="0",role="worker"}' in text
    assert told["threads"] == ["MainThread"]
    losses = EventAccumulator(str(tmp_path / "runs" / "worker-0")).Reload().Scalars("loss")
    assert losses[-1].step == 3


def test_a_port_that_is_taken_ends_the_script_before_it_trains(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = run(tmp_path, FLOTA_METRICS_PORT=str(port))
    assert done.returncode == 1
    assert f"the metrics port {port} cannot be opened on 127.0.0.1" in done.stderr
    assert "choose another with FLOTA_METRICS_PORT or --metrics_port" in done.stderr
