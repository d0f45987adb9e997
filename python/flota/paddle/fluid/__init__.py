"""``paddle.fluid``: 1.x."""

from flota.paddle import core, initializer, mode
from flota.paddle.attributes import ParamAttr
from flota.paddle.core import CPUPlace, CUDAPlace
from flota.paddle.fluid import layers, optimizer
from flota.paddle.graph.building import data
from flota.paddle.graph.executor import Executor
from flota.paddle.graph.program import Program, default_main_program, default_startup_program, program_guard
from flota.paddle.graph.scope import Scope, global_scope, scope_guard
from flota.paddle.io import DataFeeder
from flota.paddle.static.nn import embedding

mode.enable_static()  # 1.x has nothing else

__all__ = [
    "CPUPlace",
    "CUDAPlace",
    "DataFeeder",
    "Executor",
    "ParamAttr",
    "Program",
    "Scope",
    "core",
    "data",
    "default_main_program",
    "default_startup_program",
    "embedding",
    "global_scope",
    "initializer",
    "layers",
    "optimizer",
    "program_guard",
    "scope_guard",
]
