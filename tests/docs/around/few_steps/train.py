"""A few steps together, and who took them."""

import socket

import torch

import flota

flota.init()
model = torch.nn.Module()
model.rows = flota.nn.Embedding(None, 4)
optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), flota.Sync())
if flota.is_server():
    flota.init_server()
    flota.run_server()
else:
    flota.init_worker()
    for step in range(5):
        model.rows(torch.arange(step, step + 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("worker", flota.worker_index(), "of", flota.worker_num(), "on", socket.gethostname())
    flota.stop_worker()
