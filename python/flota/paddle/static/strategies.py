"""How a program is run: ``CompiledProgram`` and its strategies.

Programs are compiled in any case, and one process runs them once. So strategies take what asks for speed or memory and
changes no result, which torch decides here, and refuse what would change a result or make more of one process.
"""

from __future__ import annotations

import difflib
from enum import Enum
from typing import Any

from flota.errors import InvalidArgument
from flota.paddle.graph.program import Program


class ReduceStrategy(Enum):
    AllReduce = 0
    Reduce = 1


class GradientScaleStrategy(Enum):
    CoeffNumDevice = 0
    One = 1
    Customized = 2


class _Strategy:
    """``free``: settings that change no result. ``fixed``: those whose first value is the only one, and what to do
    instead of setting another."""

    free: frozenset[str]
    fixed: dict[str, tuple[Any, str]]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.fixed:
            only, instead = self.fixed[name]
            if value != only:
                raise InvalidArgument(f"{type(self).__name__}: {name}={value!r} would have no effect: {instead}")
        elif name not in self.free:
            near = difflib.get_close_matches(name, [*self.free, *self.fixed], n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise InvalidArgument(f"{type(self).__name__} has no setting {name!r}{hint}")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        """What was not set."""
        if name in self.fixed:
            return self.fixed[name][0]
        if name in self.free:
            return None
        raise AttributeError(f"{type(self).__name__} has no setting {name!r}")


_WORKERS = "fleet.init says who this process is, and launchers start more workers"


class BuildStrategy(_Strategy):
    ReduceStrategy = ReduceStrategy
    GradientScaleStrategy = GradientScaleStrategy

    free = frozenset(
        """
        allow_cuda_graph_capture build_cinn_pass cache_runtime_context enable_addto enable_auto_fusion
        enable_backward_optimizer_op_deps enable_inplace enable_sequential_execution fix_op_run_order fuse_adamw
        fuse_all_optimizer_ops fuse_all_reduce_ops fuse_bn_act_ops fuse_bn_add_act_ops fuse_broadcast_ops
        fuse_elewise_add_act_ops fuse_gemm_epilogue fuse_relu_depthwise_conv fused_attention fused_feedforward
        memory_optimize remove_unnecessary_lock sequential_run
        """.split()  # noqa: SIM905 (one word a setting, in as few lines as they need)
    )
    fixed = {  # noqa: RUF012 (a table)
        "async_mode": (False, "give fleet.distributed_optimizer a strategy with a_sync=True"),
        "debug_graphviz_path": ("", "print(program) shows the program"),
        "gradient_scale_strategy": (GradientScaleStrategy.CoeffNumDevice, "scale the loss"),
        "is_distribution": (False, _WORKERS),
        "num_trainers": (1, _WORKERS),
        "reduce_strategy": (ReduceStrategy.AllReduce, "one process runs the program, and reduces nothing"),
        "sync_batch_norm": (False, "statistics are each worker's own"),
        "trainer_id": (0, _WORKERS),
        "trainers_endpoints": ([], _WORKERS),
    }


class ExecutionStrategy(_Strategy):
    free = frozenset(
        {
            "allow_op_delay",
            "num_iteration_per_drop_scope",
            "num_threads",
            "use_experimental_executor",
            "use_thread_barrier",
        }
    )
    fixed = {"num_iteration_per_run": (1, "call Executor.run as often")}  # noqa: RUF012 (a table)


class CompiledProgram:
    """The program itself, which every executor compiles."""

    def __new__(cls, program_or_graph: Program, build_strategy: BuildStrategy | None = None) -> Program:  # type: ignore[misc]
        if not isinstance(program_or_graph, Program):
            raise InvalidArgument(f"CompiledProgram takes a program, not {program_or_graph!r}")
        return program_or_graph
