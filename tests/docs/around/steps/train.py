"""Trains for some seconds, an epoch after the other, in async mode; says when the number of workers has changed."""

import argparse
import time
from pathlib import Path

import torch

import flota

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--steps", type=int, default=1500)
parser.add_argument("--seconds", type=float, default=0.1, help="that a step takes beside its work")
arguments = parser.parse_args()

flota.init()
model = torch.nn.Module()
model.rows = flota.nn.Embedding(None, 4)
optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), flota.Async())
if flota.is_server():
    flota.init_server()
    flota.run_server()
else:
    flota.init_worker()
    workers = 0
    for epoch in range(arguments.epochs):
        for step in range(arguments.steps):
            loss = model.rows(torch.arange(step, step + 8)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(arguments.seconds)
            if workers != flota.worker_num():
                workers = flota.worker_num()
                print("epoch", epoch, "workers", workers)
        Path(f"epoch-{epoch}").touch()
    flota.stop_worker()
