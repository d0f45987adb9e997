"""Parameter-server training for PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flota import ending  # noqa: F401
from flota.lazy import lazily

if TYPE_CHECKING:
    from flota import admission as admission
    from flota import data as data
    from flota import errors as errors
    from flota import initializer as initializer
    from flota import metrics as metrics
    from flota import nn as nn
    from flota import optim as optim
    from flota import report as report
    from flota import rules as rules
    from flota import testing as testing
    from flota import util as util
    from flota.client import Client as Client
    from flota.fleet import all_reduce as all_reduce
    from flota.fleet import barrier_worker as barrier_worker
    from flota.fleet import distributed_optimizer as distributed_optimizer
    from flota.fleet import init as init
    from flota.fleet import init_server as init_server
    from flota.fleet import init_worker as init_worker
    from flota.fleet import is_first_worker as is_first_worker
    from flota.fleet import is_server as is_server
    from flota.fleet import is_worker as is_worker
    from flota.fleet import load_inference_model as load_inference_model
    from flota.fleet import load_model as load_model
    from flota.fleet import load_vectors as load_vectors
    from flota.fleet import log_metrics as log_metrics
    from flota.fleet import restarted as restarted
    from flota.fleet import run_server as run_server
    from flota.fleet import save_inference_model as save_inference_model
    from flota.fleet import save_persistables as save_persistables
    from flota.fleet import server_endpoints as server_endpoints
    from flota.fleet import server_index as server_index
    from flota.fleet import server_num as server_num
    from flota.fleet import shrink as shrink
    from flota.fleet import staleness as staleness
    from flota.fleet import stop_worker as stop_worker
    from flota.fleet import worker_endpoints as worker_endpoints
    from flota.fleet import worker_index as worker_index
    from flota.fleet import worker_num as worker_num
    from flota.nn.prefetch import prefetch as prefetch
    from flota.observe.trace.here import trace as trace
    from flota.roles import LocalRoleMaker as LocalRoleMaker
    from flota.roles import PaddleCloudRoleMaker as PaddleCloudRoleMaker
    from flota.roles import Role as Role
    from flota.roles import UserDefinedRoleMaker as UserDefinedRoleMaker
    from flota.strategy import Async as Async
    from flota.strategy import DistributedStrategy as DistributedStrategy
    from flota.strategy import DistributeTranspilerConfig as DistributeTranspilerConfig
    from flota.strategy import Geo as Geo
    from flota.strategy import StrategyFactory as StrategyFactory
    from flota.strategy import Sync as Sync
    from flota.tables import DenseTable as DenseTable
    from flota.tables import SparseTable as SparseTable
    from flota.training import infer_from_dataset as infer_from_dataset
    from flota.training import train_from_dataset as train_from_dataset

# Looked up on first use: a server process must not pay for importing torch.
_PUBLIC = {
    "Async": "flota.strategy",
    "Client": "flota.client",
    "DenseTable": "flota.tables",
    "DistributeTranspilerConfig": "flota.strategy",
    "DistributedStrategy": "flota.strategy",
    "Geo": "flota.strategy",
    "LocalRoleMaker": "flota.roles",
    "PaddleCloudRoleMaker": "flota.roles",
    "Role": "flota.roles",
    "SparseTable": "flota.tables",
    "StrategyFactory": "flota.strategy",
    "Sync": "flota.strategy",
    "UserDefinedRoleMaker": "flota.roles",
    "all_reduce": "flota.fleet",
    "barrier_worker": "flota.fleet",
    "distributed_optimizer": "flota.fleet",
    "infer_from_dataset": "flota.training",
    "init": "flota.fleet",
    "init_server": "flota.fleet",
    "init_worker": "flota.fleet",
    "is_first_worker": "flota.fleet",
    "is_server": "flota.fleet",
    "is_worker": "flota.fleet",
    "load_inference_model": "flota.fleet",
    "load_model": "flota.fleet",
    "load_vectors": "flota.fleet",
    "log_metrics": "flota.fleet",
    "prefetch": "flota.nn.prefetch",
    "restarted": "flota.fleet",
    "run_server": "flota.fleet",
    "save_inference_model": "flota.fleet",
    "save_persistables": "flota.fleet",
    "server_endpoints": "flota.fleet",
    "server_index": "flota.fleet",
    "server_num": "flota.fleet",
    "shrink": "flota.fleet",
    "staleness": "flota.fleet",
    "stop_worker": "flota.fleet",
    "trace": "flota.observe.trace.here",
    "train_from_dataset": "flota.training",
    "worker_endpoints": "flota.fleet",
    "worker_index": "flota.fleet",
    "worker_num": "flota.fleet",
    "admission": None,
    "data": None,
    "errors": None,
    "initializer": None,
    "metrics": None,
    "nn": None,
    "optim": None,
    "report": None,
    "rules": None,
    "testing": None,
    "util": None,
}

__all__ = [
    "Async",
    "Client",
    "DenseTable",
    "DistributeTranspilerConfig",
    "DistributedStrategy",
    "Geo",
    "LocalRoleMaker",
    "PaddleCloudRoleMaker",
    "Role",
    "SparseTable",
    "StrategyFactory",
    "Sync",
    "UserDefinedRoleMaker",
    "admission",
    "all_reduce",
    "barrier_worker",
    "data",
    "distributed_optimizer",
    "errors",
    "infer_from_dataset",
    "init",
    "init_server",
    "init_worker",
    "initializer",
    "is_first_worker",
    "is_server",
    "is_worker",
    "load_inference_model",
    "load_model",
    "load_vectors",
    "log_metrics",
    "metrics",
    "nn",
    "optim",
    "prefetch",
    "report",
    "restarted",
    "rules",
    "run_server",
    "save_inference_model",
    "save_persistables",
    "server_endpoints",
    "server_index",
    "server_num",
    "shrink",
    "staleness",
    "stop_worker",
    "testing",
    "trace",
    "train_from_dataset",
    "util",
    "worker_endpoints",
    "worker_index",
    "worker_num",
]


__getattr__, __dir__ = lazily("flota", _PUBLIC)
