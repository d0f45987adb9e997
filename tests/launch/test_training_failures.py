"""A job that trains, and loses a process or its numbers: the launch ends, and says which."""

import os
import signal
import time
from pathlib import Path

import pytest

from waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "wide_and_deep.py"

# The example itself, with far more data than the test will see it read.
TRAIN = f"""
import runpy
ready()
sys.argv = ["{EXAMPLE}", "--rows=50000000", "--batch_size=32", *sys.argv[1:]]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("name", ["worker.1", "server.0"])
def test_a_process_that_is_killed_while_all_train_is_named_within_15_seconds(start, name, mode):
    launch = start(TRAIN, "--server_num=1", "--worker_num=2", "--max_restarts=0", arguments=["--mode", mode])
    names = ["server.0", "worker.0", "worker.1"]
    pids = dict(zip(names, launch.pids(*names), strict=True))
    wait_until(lambda: "step 100: loss" in launch.output or launch.process.poll() is not None, timeout=80)
    assert launch.process.poll() is None, launch.output
    began = time.monotonic()
    os.kill(pids[name], signal.SIGKILL)
    assert launch.wait() == 128 + signal.SIGKILL, launch.output
    assert time.monotonic() - began < 15
    assert f"flota launch: {name.replace('.', ' ')} (pid {pids[name]}, 127.0.0.1:" in launch.output
    assert "was killed by SIGKILL" in launch.output
    launch.nothing_is_left()


NAN = """
import torch, flota
torch.set_num_threads(1)
ready()
flota.init()
embedding = flota.nn.Embedding(None, 4, name="users")
stepper = flota.distributed_optimizer(torch.optim.SGD(embedding.parameters(), lr=0.1), getattr(flota, sys.argv[1])())
if is_server:
    flota.init_server()
    flota.run_server()
    sys.exit()
flota.init_worker()
for step in range(1, 10):
    loss = embedding(torch.arange(5)).mean()
    if me == "worker.1" and step == 7:
        loss = loss * float("nan")
    stepper.zero_grad()
    loss.backward()
    stepper.step()
flota.stop_worker()
"""


@pytest.mark.parametrize("mode", ["Sync", "Async"])
def test_a_nan_loss_is_reported_with_worker_and_step(start, mode):
    launch = start(NAN, "--server_num=1", "--worker_num=2", arguments=[mode])
    assert launch.wait(80) == 1, launch.output
    assert "worker 1: the loss is NaN at step 7" in launch.output
    assert (
        "worker 1, step 7: the gradient of table 'users' holds a NaN or an infinity (the loss is nan)" in launch.output
    )
