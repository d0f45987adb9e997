"""The life of a process: who it is, what it serves or trains, and how it ends.

    flota.init()
    optimizer = flota.distributed_optimizer(torch.optim.Adam(model.parameters()), strategy)
    if flota.is_server():
        flota.init_server()
        flota.run_server()
    else:
        flota.init_worker()
        …                      # an ordinary training loop
        flota.stop_worker()

Without an environment that says otherwise, the process is a worker that holds the tables itself.
"""

from __future__ import annotations

from flota import inference
from flota.fleet.process import Fleet as Fleet
from flota.fleet.process import Reduction as Reduction
from flota.standing import worker as _worker

fleet = Fleet()
init = fleet.init
is_worker = fleet.is_worker
is_server = fleet.is_server
is_first_worker = fleet.is_first_worker
worker_index = fleet.worker_index
server_index = fleet.server_index
worker_num = fleet.worker_num
server_num = fleet.server_num
worker_endpoints = fleet.worker_endpoints
server_endpoints = fleet.server_endpoints
distributed_optimizer = fleet.distributed_optimizer
init_server = fleet.init_server
run_server = fleet.run_server
init_worker = fleet.init_worker
restarted = fleet.restarted
stop_worker = fleet.stop_worker
barrier_worker = fleet.barrier_worker
all_reduce = fleet.all_reduce
staleness = fleet.staleness
log_metrics = _worker.measured
save_persistables = fleet.save_persistables
load_model = fleet.load_model
load_vectors = fleet.load_vectors
shrink = fleet.shrink
save_inference_model = fleet.save_inference_model
load_inference_model = inference.load
