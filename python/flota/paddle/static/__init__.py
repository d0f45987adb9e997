"""``paddle.static``: programs, and what runs them."""

from flota.paddle.device import cpu_places, cuda_places, device_guard
from flota.paddle.graph.building import create_global_var, data
from flota.paddle.graph.executor import Executor
from flota.paddle.graph.names import name_scope
from flota.paddle.graph.program import Program, default_main_program, default_startup_program, program_guard
from flota.paddle.graph.scope import Scope, global_scope, scope_guard
from flota.paddle.graph.variable import Variable
from flota.paddle.names import public
from flota.paddle.nn.parameter import create_parameter
from flota.paddle.ops.metrics import Print
from flota.paddle.optimizer.lr import exponential_decay
from flota.paddle.static import nn
from flota.paddle.static.inference import load_inference_model, normalize_program, save_inference_model
from flota.paddle.static.input_spec import InputSpec
from flota.paddle.static.metrics import accuracy, auc
from flota.paddle.static.python_functions import py_func
from flota.paddle.static.saving import load, load_program_state, save, set_program_state
from flota.paddle.static.strategies import BuildStrategy, CompiledProgram, ExecutionStrategy

__all__ = [
    "BuildStrategy",
    "CompiledProgram",
    "ExecutionStrategy",
    "Executor",
    "InputSpec",
    "Print",
    "Program",
    "Scope",
    "Variable",
    "accuracy",
    "auc",
    "cpu_places",
    "create_global_var",
    "create_parameter",
    "cuda_places",
    "data",
    "default_main_program",
    "default_startup_program",
    "device_guard",
    "exponential_decay",
    "global_scope",
    "load",
    "load_inference_model",
    "load_program_state",
    "name_scope",
    "nn",
    "normalize_program",
    "program_guard",
    "py_func",
    "save",
    "save_inference_model",
    "scope_guard",
    "set_program_state",
]

__getattr__, __dir__ = public("flota.paddle.static", "paddle.static", {})
