"""Trains three epochs. The first time the power fails in the middle: the launch is killed, and with it all else."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import torch

import flota

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, required=True)
arguments = parser.parse_args()

flota.init()
model = torch.nn.Module()
model.rows = flota.nn.Embedding(None, 4)
optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), flota.Sync())
if flota.is_server():
    flota.init_server()
    flota.run_server()
    sys.exit()
flota.init_worker()
for epoch in range(arguments.epochs):
    for step in range(5):
        model.rows(torch.arange(step, step + 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    if epoch == 1 and not Path("was-killed").exists():
        if flota.is_first_worker():
            Path("was-killed").touch()
            os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
if flota.is_first_worker():
    print("all epochs are trained")
flota.stop_worker()
