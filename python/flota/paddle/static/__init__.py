"""``paddle.static``: programs, and what runs them."""

from flota.paddle.graph.building import create_global_var, data
from flota.paddle.graph.executor import Executor
from flota.paddle.graph.program import Program, default_main_program, default_startup_program, program_guard
from flota.paddle.graph.scope import Scope, global_scope, scope_guard
from flota.paddle.graph.variable import Variable
from flota.paddle.nn.parameter import create_parameter
from flota.paddle.optimizer.lr import exponential_decay
from flota.paddle.static import nn
from flota.paddle.static.metrics import accuracy, auc

__all__ = [
    "Executor",
    "Program",
    "Scope",
    "Variable",
    "accuracy",
    "auc",
    "create_global_var",
    "create_parameter",
    "data",
    "default_main_program",
    "default_startup_program",
    "exponential_decay",
    "global_scope",
    "nn",
    "program_guard",
    "scope_guard",
]
