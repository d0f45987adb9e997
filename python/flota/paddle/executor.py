"""``fluid.executor`` and ``base.executor``: a second place for what runs programs."""

from flota.paddle.graph.executor import Executor
from flota.paddle.graph.fetching import FetchHandler
from flota.paddle.graph.scope import global_scope, scope_guard
from flota.paddle.names import public

__all__ = ["Executor", "FetchHandler", "global_scope", "scope_guard"]

__getattr__, __dir__ = public("flota.paddle.executor", "paddle.fluid.executor", {})
